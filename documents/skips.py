"""The table of docs/skips.md, from the records under results, results/histories and results/skips.

    python -m documents.skips

Records are made by `tsdr reproduce skips --folds 3 --seeds 21,22,23 --stop-by loss --out results/skips`, those of logs
whose skips are ignored are shared with the other studies.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from documents.filling import changed, fill, judged_by_the_same_answers
from tsdr.defaults import BACKBONE, Extent
from tsdr.methods import BASELINE, COUNTS, NAIVE, TSDR, Method
from tsdr.paper import BACKBONES
from tsdr.records.changes import change, mean
from tsdr.records.collection import on_common_folds
from tsdr.records.run import LIMIT, LIMIT_WITH_SKIPS, LogName, Record
from tsdr.records.views import by_answers
from tsdr.report.results.names import log_name, seeds_by_folds

MODELS = (*BACKBONES, BACKBONE, COUNTS)
COLUMNS = (
    *("log", "in view", "model", "method", "measure", "skips ignored", "skips read", "change"),
    *("best possible, ignored", "read", "runs"),
)
METHODS = (NAIVE, TSDR)
Key = tuple[str, Extent, str, Method]  # log, window, model, method


def main() -> None:
    """Fill the table in."""
    fill("docs/skips.md", "documents.skips", table(judged_by_the_same_answers("skips")))


def table(records: Sequence[Record]) -> str:
    """A row for each log, window, model and method that was run both with skips read and with skips ignored."""
    read: dict[Key, list[Record]] = defaultdict(list)
    ignored: dict[Key, list[Record]] = defaultdict(list)
    for record in records:
        if record.backbone == COUNTS or record.stop_by in (None, "loss"):
            key = record.dataset, record.options["window"], record.backbone, record.method
            (read if record.skips_read else ignored)[key].append(by_answers(record))
    trained = [key for key in read if key[2] in MODELS and key[3] in METHODS]
    rows = [_row(key, read, ignored) for key in sorted(trained, key=_place) if key in ignored]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (COLUMNS, ["---"] * len(COLUMNS), *rows))


def _place(key: Key) -> tuple[object, ...]:
    dataset, window, backbone, method = key
    log = LogName.parse(dataset)
    return not log.is_simulated, log.log, log.gamma, str(window), MODELS.index(backbone), METHODS.index(method)


def _row(key: Key, read: Mapping[Key, list[Record]], ignored: Mapping[Key, list[Record]]) -> list[str]:
    dataset, window, backbone, method = key
    before, after = on_common_folds([ignored[key], read[key]])
    values = [before, after]
    for limit in (LIMIT, LIMIT_WITH_SKIPS):
        best = dataset, window, limit, BASELINE
        values.append(on_common_folds([before, ignored.get(best) or read.get(best, [])])[1])
    metric, measure = ("true_bce", "true BCE") if before and before[0].has_truth else ("auc", "AUC")
    found = ["–" if not runs else f"{mean(runs, metric):.4f}" for runs in values]
    about = [log_name(LogName.parse(dataset)), str(window), backbone, str(method), measure]
    return [*about, *found[:2], changed(change(before, after, metric)), *found[2:], seeds_by_folds(before)]


if __name__ == "__main__":
    main()
