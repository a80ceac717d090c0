"""A log and a model in a row: what debiasing changes against naive training."""

from tsdr.methods import NAIVE
from tsdr.records.changes import Change, change
from tsdr.records.collection import Cell
from tsdr.report.results.names import log_name, place_of_backbone, seeds_by_folds
from tsdr.report.results.tables import distance_closed, gap_closed, share_closed, with_interval

HEADER = (
    "| log | model | method | seeds x folds | AUC, naive | debiased | change | true BCE, naive | debiased "
    "| distance closed | gap closed |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|\n"
)


def overview(cells: list[Cell]) -> str:
    """The table of all cells that have both methods on two folds or more, simulated logs first."""
    shown = [cell for cell in cells if len(cell.paired(NAIVE, cell.ours())[0]) > 1]
    in_order = sorted(shown, key=lambda cell: (not cell.log.is_simulated, cell.dataset, place(cell)))
    return HEADER + "".join(f"| {' | '.join(_row(cell))} |\n" for cell in in_order)


def place(cell: Cell) -> tuple[int, str]:
    """That of its backbone in the paper; others after them."""
    return place_of_backbone(cell.model.backbone)


def _row(cell: Cell) -> list[str]:
    ours = cell.ours()
    assert ours is not None
    naive, runs = cell.paired(NAIVE, ours)
    stopped = " (stopped by its loss)" if runs[0].stop_by == "loss" else ""
    about = [log_name(cell.log), cell.model.backbone + stopped, str(ours), seeds_by_folds(runs)]
    row = [*about, *_before_and_after(change(naive, runs, "auc"), with_change=True)]
    truth = _before_and_after(change(naive, runs, "true_bce"), with_change=False)
    return [*row, *truth, share_closed(distance_closed(cell, ours)), share_closed(gap_closed(cell, ours))]


def _before_and_after(found: Change | None, with_change: bool) -> list[str]:
    if found is None:
        return ["–", "–"]
    values = [f"{found.before:.4f}", f"{found.after:.4f}"]
    if not with_change:
        return values
    return [*values, f"{with_interval(found)}, {found.better} of {found.folds}"]
