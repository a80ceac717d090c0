"""The table and the two figures of the README, from the records under results.

    python -m benchmarks.readme

The table stands between its two marks in README.md. `backbones.png`: what tsdr and training on randomly exposed answers
change against naive training, for each backbone, at gamma 0.8. `gamma.png`: the same for one backbone at every strength
of selection that was run.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from tsdr.evaluation.changes import Change, change
from tsdr.evaluation.collection import Cell, cells
from tsdr.evaluation.records import RecordFolder
from tsdr.evaluation.significance import has_sums, paired_difference
from tsdr.experiments.paper import BACKBONES, SELECTED
from tsdr.report.plots import save
from tsdr.report.results.names import is_timed, log_name
from tsdr.report.results.tables import gap_closed, share_closed, signed

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
METHODS = {"tsdr": ("tab:blue", "D"), "random-exposure": ("0.5", "s")}
METRICS = {"auc": "AUC on logged answers", "true_bce": "cross-entropy against the truth (less is better)"}
SHOWN = "simulated-gamma0.8"
OVER_GAMMA = "dkt"
MARKS = ("<!-- made by benchmarks.readme -->\n", "<!-- until here -->")
HEADER = (
    "| log | model | seeds x folds | AUC, naive | tsdr | change | true BCE, naive | tsdr | gap closed |\n"
    "|---|---|---|---|---|---|---|---|---|\n"
)


def main() -> None:
    """Fill the table in, and draw both figures."""
    found = cells(record for record in RecordFolder(ROOT / "results") if not is_timed(record))
    write_table([cell for cell in found if "tsdr" in cell.methods and len(cell.paired("naive", "tsdr")[0]) > 1])
    whole = [cell for cell in found if len(cell.paired("naive", *METHODS)[0]) > 1]
    at_one = sorted((cell for cell in whole if cell.dataset == SHOWN), key=_place)
    gammas = {gamma: cell for cell in whole if (gamma := _gamma(cell)) is not None}
    of_gamma = [gammas[gamma] for gamma in sorted(gammas)]
    title = "Change against naive training, 95 % interval over held-out students (seeds x folds)"
    draw(at_one, f"{title}: gamma 0.8", lambda cell: cell.model.backbone, IMAGES / "backbones.png")
    draw(of_gamma, f"{title}: {OVER_GAMMA}", lambda cell: f"gamma {_gamma(cell):g}", IMAGES / "gamma.png")


def write_table(shown: Sequence[Cell]) -> None:
    """Put the table between its marks."""
    simulated = sorted(shown, key=lambda cell: (not cell.dataset.startswith("simulated"), cell.dataset, _place(cell)))
    table = HEADER + "".join(f"| {' | '.join(_row(cell))} |\n" for cell in simulated)
    readme = ROOT / "README.md"
    between = re.compile(f"(?<={re.escape(MARKS[0])}).*?(?={re.escape(MARKS[1])})", re.DOTALL)
    readme.write_text(between.sub(lambda _: table, readme.read_text()))


def _row(cell: Cell) -> list[str]:
    naive, runs = cell.paired("naive", "tsdr")
    seeds = len({run.seed for run in runs})
    about = [log_name(cell.dataset), cell.model.backbone, f"{seeds} x {len(runs) // seeds}"]
    row = [*about, *_before_and_after(change(naive, runs, "auc"), with_change=True)]
    truth = _before_and_after(change(naive, runs, "true_bce"), with_change=False)
    return [*row, *truth, share_closed(gap_closed(cell, "tsdr"))]


def _before_and_after(found: Change | None, with_change: bool) -> list[str]:
    if found is None:
        return ["–", "–"]
    values = [f"{found.before:.4f}", f"{found.after:.4f}"]
    if not with_change:
        return values
    spread = "" if found.interval is None else f" ({signed(found.interval[0])} to {signed(found.interval[1])})"
    return [*values, f"{signed(found.difference)}{spread}, {found.better} of {found.folds}"]


def draw(shown: Sequence[Cell], title: str, name: Callable[[Cell], str], path: Path) -> None:
    """A row a cell; what the log says on the left, what is true on the right."""
    figure, panels = plt.subplots(1, 2, figsize=(10, 0.45 * len(shown) + 1.7), sharey=True, layout="constrained")
    for panel, (metric, label) in zip(panels, METRICS.items(), strict=True):
        for method, (colour, marker) in METHODS.items():
            _points(panel, shown, metric, method, colour, marker)
        panel.axvline(0, color="tab:red", linewidth=1, label="naive")
        panel.set_title(label, fontsize=10)
        panel.grid(axis="x", color="0.92")
        panel.set_axisbelow(True)
        panel.locator_params(axis="x", nbins=6)
    runs = [cell.paired("naive", *METHODS)[0] for cell in shown]
    seeds = [len({run.seed for run in of_cell}) for of_cell in runs]
    names = [f"{name(c)} ({s} x {len(r) // s})" for c, r, s in zip(shown, runs, seeds, strict=True)]
    panels[0].set_yticks(range(len(names)), names)
    panels[0].set_ylim(len(names) - 0.5, -0.5)
    figure.legend(*panels[1].get_legend_handles_labels(), fontsize=8, ncols=3, loc="outside lower center")
    figure.suptitle(title, fontsize=11)
    save(figure, path)


def _points(panel: Axes, shown: Sequence[Cell], metric: str, method: str, colour: str, marker: str) -> None:
    for place, cell in enumerate(shown):
        naive, runs = cell.paired("naive", method)
        mean = sum(run.metrics[metric] - base.metrics[metric] for run, base in zip(runs, naive, strict=True)) / len(
            runs
        )
        label = method if place == 0 else None
        panel.plot([mean], [place], color=colour, marker=marker, linestyle="none", label=label)
        if all(has_sums(run, metric) for run in (*naive, *runs)):
            found = paired_difference(naive, runs, metric)
            panel.plot([found.low, found.high], [place, place], color=colour, linewidth=1.2)


def _place(cell: Cell) -> int:
    return BACKBONES.index(cell.model.backbone)


def _gamma(cell: Cell) -> float | None:
    """The strength of selection of a plain simulated log, for the backbone that is shown over it."""
    name = SELECTED.fullmatch(cell.dataset)
    if name is None or name["log"] != "simulated" or name["sizes"] or cell.model.backbone != OVER_GAMMA:
        return None
    return float(name["gamma"])


if __name__ == "__main__":
    main()
