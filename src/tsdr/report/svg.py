"""Charts as SVG that is drawn into a page."""

import io
import re

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from markupsafe import Markup
from matplotlib.figure import Figure


def inline_svg(figure: Figure, name: str, description: str) -> Markup:
    """A figure as an SVG element that shrinks with the page; `name` is unlike that of any other chart of the page.

    `description` is what is read aloud in its stead. The figure is closed.
    """
    drawn = io.StringIO()
    with plt.rc_context({"svg.hashsalt": name, "svg.fonttype": "none"}):
        figure.savefig(drawn, format="svg", metadata={"Date": None})
    plt.close(figure)
    svg = drawn.getvalue()
    svg = _lighter(svg[svg.index("<svg") :])
    # The ids inside are matplotlib's own and repeat from chart to chart; a colour such as #ffffff is none.
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", svg)
    svg = re.sub(
        r'^<svg ([^>]*?)width="[^"]*" height="[^"]*"|^<svg ([^>]*?)height="[^"]*" ([^>]*?)width="[^"]*"', _unsized, svg
    )
    label = Markup.escape(description)
    return Markup(svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1))


def _lighter(svg: str) -> str:
    """A chart in a third of the bytes: text is left to the page's font, and nothing is said that is not drawn."""
    unseen = (
        r'<metadata>.*?</metadata>|<!--.*?-->|(?<=<g) id="[^"]*"| transform="rotate\(-0 [^"]*"| font-family: [^;"]*;'
    )
    svg = re.sub(unseen, "", svg, flags=re.DOTALL)
    svg = re.sub("<[^>]*>", _rounded, svg)
    return re.sub(r"(?<=>) (?=<)", "", re.sub(r"\s*\n\s*", " ", svg))


def _rounded(tag: re.Match[str]) -> str:
    """A tag with its coordinates to a hundredth of a point."""
    return re.sub(r"(\d{2}\.\d\d)\d+", r"\1", tag[0])


def _unsized(found: re.Match[str]) -> str:
    """The opening of the element without its size in points: its view box remains, and the page decides."""
    return "<svg " + "".join(part for part in found.groups() if part)
