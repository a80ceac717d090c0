"""Pages: one self-contained HTML file each, with charts drawn into it, that asks no other host for anything."""

import io
import re
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure

from tsdr.files import replacing

_TEMPLATES = Environment(
    loader=PackageLoader("tsdr.report"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def write_page(template: str, path: Path, **content: Any) -> None:
    """Fill a template of this package and write the page; what comes from data is escaped."""
    page = _TEMPLATES.get_template(template).render(**content)
    with replacing(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def inline_svg(figure: Figure, name: str, description: str) -> Markup:
    """A figure as an SVG element that shrinks with the page; `name` is unlike that of any other chart of the page.

    `description` is what is read aloud in its stead. The figure is closed.
    """
    drawn = io.StringIO()
    with plt.rc_context({"svg.hashsalt": name, "svg.fonttype": "path"}):
        figure.savefig(drawn, format="svg", metadata={"Date": None})
    plt.close(figure)
    svg = drawn.getvalue()
    svg = svg[svg.index("<svg") :]
    # The ids inside are matplotlib's own and repeat from chart to chart; colours begin with # as well, and stay.
    svg = re.sub(r'(\bid="|href="#|url\(#)([A-Za-z_][\w.-]*)', rf"\g<1>{name}-\2", svg)
    svg = re.sub(
        r'^<svg ([^>]*?)width="[^"]*" height="[^"]*"|^<svg ([^>]*?)height="[^"]*" ([^>]*?)width="[^"]*"', _unsized, svg
    )
    label = Markup.escape(description)
    return Markup(svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1))


def _unsized(found: re.Match[str]) -> str:
    """The opening of the element without its size in points: its view box remains, and the page decides."""
    return "<svg " + "".join(part for part in found.groups() if part)
