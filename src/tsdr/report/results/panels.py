"""What the figures of the results page are made of: panels, error bars and the colours of methods."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from textwrap import fill

import matplotlib.pyplot as plt
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tsdr.methods import NAIVE, ORACLE, TSDR, Method
from tsdr.records.changes import mean, standard_error, value
from tsdr.records.run import Record
from tsdr.report.svg import inline_svg

GREY, BLUE, RED, PALE = "#6b7785", "#0072b2", "#d55e00", "#b0b8c0"
STYLES = {NAIVE: (GREY, "s"), TSDR: (BLUE, "o"), ORACLE: (RED, "^")}
LEGEND = {NAIVE: "original", TSDR: "+TSDR", ORACLE: "random exposure"}


@dataclass(frozen=True)
class Chart:
    """A figure of small panels, its legend (name, colour, whether it is the paper's) and what it shows."""

    title: str
    caption: str
    legend: list[tuple[str, str, bool]] = field(default_factory=list)
    panels: list[Markup] = field(default_factory=list)


def new_panel(title: str, x: str, y: str) -> tuple[Figure, Axes]:
    """A small figure: it is read on a phone at its own size."""
    figure, panel = plt.subplots(figsize=(3.4, 2.6), layout="constrained")
    panel.set_title(fill(title, 36), fontsize=9, parse_math=False)  # a log may be named with dollars
    panel.set_xlabel(x, fontsize=8)
    panel.set_ylabel(y, fontsize=8)
    panel.tick_params(labelsize=7.5)
    panel.locator_params(nbins=5)
    panel.spines[["top", "right"]].set_visible(False)
    return figure, panel


def errorbar(panel: Axes, x: Iterable[float], groups: Sequence[Sequence[Record]], metric: str, method: Method) -> None:
    """The mean of a metric over each group of runs, with its standard error, in the style of a method.

    Neighbours are joined where both are means over the same seeds and folds: what lies between others is not a change.
    """
    places, means = list(x), [mean(group, metric) for group in groups]
    errors = [standard_error([value(run, metric) for run in group]) or 0.0 for group in groups]
    colour, marker = STYLES[method]
    panel.errorbar(places, means, errors, color=colour, marker=marker, markersize=4, linestyle="none", capsize=2)
    rest_on = [{(run.seed, run.fold) for run in group} for group in groups]
    for at in range(len(places) - 1):
        if rest_on[at] == rest_on[at + 1]:
            panel.plot(places[at : at + 2], means[at : at + 2], color=colour, linewidth=1.2)


def svg_of(figure: Figure, description: str) -> Markup:
    """The figure as part of the page; descriptions differ, and so do the names made of them."""
    return inline_svg(figure, f"chart{sha256(description.encode()).hexdigest()[:8]}", description)
