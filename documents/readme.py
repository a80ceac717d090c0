"""The rows and the figures of the README, from the records under results.

    python -m documents.readme

The rows stand between their two marks in README.md. `backbones.png`: what tsdr changes against naive training, for each
backbone, at gamma 0.8. `gamma.png`: what tsdr-own and training on randomly exposed answers change against the truth, at
every strength of selection that was run.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from documents.filling import ROOT, fill
from documents.overview import overview, place
from tsdr.methods import NAIVE, ORACLE, OWN, TSDR, Method
from tsdr.paper import BACKBONES
from tsdr.records.changes import change
from tsdr.records.collection import Cell, cells
from tsdr.records.folder import RecordFolder
from tsdr.report.plots import save

IMAGES = ROOT / "docs" / "images"
AT_ONE = {TSDR: ("tab:blue", "D")}
AT_ALL = {OWN: ("tab:blue", "D"), ORACLE: ("0.5", "s")}
METRICS = {"auc": "AUC on logged answers", "true_bce": "cross-entropy against the truth (less is better)"}
SHOWN = "simulated-gamma0.8"
ROWS = (("simulated-gamma0", "simplekt"), (SHOWN, "dkt"), (SHOWN, "simplekt"), ("assist17", "simplekt"))


def main() -> None:
    """Fill the rows in, and draw both figures."""
    found = cells(record for record in RecordFolder(ROOT / "results") if not record.timed)
    table = overview([cell for cell in found if (cell.dataset, cell.model.backbone) in ROWS and not _light(cell)])
    fill("README.md", "documents.readme", table)
    at_one = [cell for cell in _with(AT_ONE, found) if cell.dataset == SHOWN]
    draw_backbones(sorted(at_one, key=place), IMAGES / "backbones.png")
    draw_gammas(_with(AT_ALL, found), IMAGES / "gamma.png")


def _with(methods: Iterable[Method], found: Iterable[Cell]) -> list[Cell]:
    """The cells that have these methods beside naive training."""
    return [cell for cell in found if len(cell.paired(NAIVE, *methods)[0]) > 1]


def _light(cell: Cell) -> bool:
    return any(run.size == "light" for runs in cell.methods.values() for run in runs)


def draw_backbones(shown: Sequence[Cell], path: Path) -> None:
    """A row a backbone; what the log says on the left, what is true on the right."""
    figure, panels = plt.subplots(1, 2, figsize=(10, 0.45 * len(shown) + 1.7), sharey=True, layout="constrained")
    for panel, (metric, label) in zip(panels, METRICS.items(), strict=True):
        for method, (colour, marker) in AT_ONE.items():
            for row, cell in enumerate(shown):
                difference, interval = _change(cell, method, metric)
                named_once = str(method) if row == 0 else None
                panel.plot([difference], [row], color=colour, marker=marker, linestyle="none", label=named_once)
                panel.plot(interval, [row] * len(interval), color=colour, linewidth=1.2)
        panel.axvline(0, color="tab:red", linewidth=1, label="naive")
        panel.set_title(label, fontsize=10)
        panel.grid(axis="x", color="0.92")
        panel.set_axisbelow(True)
        panel.locator_params(axis="x", nbins=6)
    panels[0].set_yticks(range(len(shown)), [f"{cell.model.backbone} ({_runs(cell)})" for cell in shown])
    panels[0].set_ylim(len(shown) - 0.5, -0.5)
    _finish(figure, panels[1], "gamma 0.8 (seeds x folds)", path)


def draw_gammas(shown: Sequence[Cell], path: Path) -> None:
    """A panel a backbone, over the strength of selection."""
    figure, panels = plt.subplots(2, 3, figsize=(10, 5.6), sharex=True, sharey=True, layout="constrained")
    for panel, backbone in zip(panels.flat, BACKBONES, strict=True):
        found = {gamma: cell for cell in shown if (gamma := _gamma(cell, backbone)) is not None}
        for method, (colour, marker) in AT_ALL.items():
            changes = {gamma: _change(cell, method, "true_bce") for gamma, cell in sorted(found.items())}
            values = [difference for difference, _ in changes.values()]
            panel.plot(
                list(changes), values, color=colour, marker=marker, linewidth=0.8, markersize=4, label=str(method)
            )
            for gamma, (_, interval) in changes.items():
                panel.plot([gamma] * len(interval), interval, color=colour, linewidth=1.2)
        panel.axhline(0, color="tab:red", linewidth=1, label="naive")
        panel.set_title(backbone, fontsize=10)
        panel.grid(color="0.92")
    for panel in panels[1]:
        panel.set_xlabel("gamma, how strongly students skip", fontsize=9)
    for panel in panels[:, 0]:
        panel.set_ylabel("change in true BCE", fontsize=9)
    _finish(figure, panels[0, 0], "cross-entropy against the truth", path)


def _finish(figure: Figure, labelled: Axes, what: str, path: Path) -> None:
    figure.legend(*labelled.get_legend_handles_labels(), fontsize=8, ncols=3, loc="outside lower center")
    figure.suptitle(f"Change against naive training, 95 % interval over held-out students: {what}", fontsize=11)
    save(figure, path)


def _change(cell: Cell, method: Method, metric: str) -> tuple[float, tuple[float, ...]]:
    """The mean change on common folds, and its interval if the records tell students apart."""
    naive, runs = cell.paired(NAIVE, method)
    found = change(naive, runs, metric)
    assert found is not None
    return found.difference, found.interval or ()


def _runs(cell: Cell) -> str:
    naive = cell.paired(NAIVE, *AT_ONE)[0]
    seeds = len({run.seed for run in naive})
    return f"{seeds} x {len(naive) // seeds}"


def _gamma(cell: Cell, backbone: str) -> float | None:
    """The strength of selection, if it is a cell of this backbone on a simulated log of the paper's sizes."""
    return cell.log.gamma if cell.log.is_the_papers and cell.model.backbone == backbone else None


if __name__ == "__main__":
    main()
