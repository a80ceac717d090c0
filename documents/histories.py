"""The table of docs/histories.md, from the records under results and results/histories.

    python -m documents.histories

Records are made by `tsdr reproduce histories --folds 5 --stop-by loss --out
results/histories`, on simulated logs with `--folds 3 --seeds 21`; those of the paper's window are in results.
"""

from collections import defaultdict
from collections.abc import Sequence

from documents.filling import changed, fill, judged_by_the_same_answers
from tsdr.defaults import BACKBONE, WINDOW, Extent
from tsdr.methods import BASELINE, COUNTS, NAIVE, TSDR, UNWEIGHTED, Method
from tsdr.paper import BACKBONES
from tsdr.records.changes import change, mean
from tsdr.records.collection import on_common_folds
from tsdr.records.run import LIMIT, LogName, Record
from tsdr.records.views import by_answers
from tsdr.report.results.names import log_name, seeds_by_folds

WINDOWS: tuple[Extent, ...] = (WINDOW, 100, 200, "all")
MODELS = (*BACKBONES, BACKBONE, COUNTS, LIMIT)
METHODS = (NAIVE, UNWEIGHTED, TSDR, BASELINE)
HEADER = (
    f"| log | model | method | measure | {' | '.join(map(str, WINDOWS))} | from {WINDOW} to the longest | runs |\n"
    f"|---|---|---|---|{'---|' * len(WINDOWS)}---|---|\n"
)
Row = tuple[str, str, Method]


def main() -> None:
    """Fill the table in."""
    fill("docs/histories.md", "documents.histories", table(judged_by_the_same_answers()))


def table(records: Sequence[Record]) -> str:
    """A row for each log, model and method that was run with more in view than the paper has."""
    rows: dict[Row, dict[Extent, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        shown = record.backbone in MODELS and record.method in METHODS
        if shown and (record.backbone == COUNTS or record.stop_by in (None, "loss")):
            rows[record.dataset, record.backbone, record.method][record.options["window"]].append(by_answers(record))
    longer = {row: views for row, views in rows.items() if set(views) - {WINDOW}}
    return HEADER + "".join(
        _row(row, views) for row in sorted(longer, key=_place) for views in _comparable(longer[row])
    )


def _place(row: Row) -> tuple[object, ...]:
    log, backbone, method = row
    return not LogName.parse(log).is_simulated, log, MODELS.index(backbone), METHODS.index(method)


def _comparable(views: dict[Extent, list[Record]]) -> list[dict[Extent, list[Record]]]:
    """All windows on the folds that they have in common and, where some have more in common, those apart."""
    windows = [window for window in WINDOWS if window in views]
    shown = _on_common_folds({window: views[window] for window in windows})
    fewest = min(len(runs) for runs in shown.values())
    more = _on_common_folds({window: views[window] for window in windows if len(views[window]) > fewest})
    return [found for found in (shown, more if len(more) > 1 else {}) if any(found.values())]


def _on_common_folds(views: dict[Extent, list[Record]]) -> dict[Extent, list[Record]]:
    return dict(zip(views, on_common_folds(list(views.values())), strict=True)) if views else {}


def _row(row: Row, common: dict[Extent, list[Record]]) -> str:
    log, backbone, method = row
    windows = list(common)
    first, last = common[windows[0]], common[windows[-1]]
    metric, measure = ("true_bce", "true BCE") if first and first[0].has_truth else ("auc", "AUC")
    found = change(first, last, metric) if windows[0] == WINDOW else None
    values = [f"{mean(common[window], metric):.4f}" if window in common else "–" for window in WINDOWS]
    about = [log_name(LogName.parse(log)), backbone, str(method), measure]
    return f"| {' | '.join([*about, *values, changed(found), seeds_by_folds(first)])} |\n"


if __name__ == "__main__":
    main()
