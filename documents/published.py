"""The table of docs/findings.md that holds `hybrid` against the best published AUC of each log, from the records.

    python -m documents.published

Records of the paper's logs, whole or samples, with whole histories in view and the paper's answers judged.
"""

from collections.abc import Mapping, Sequence

from documents.filling import fill, judged_by_the_same_answers
from tsdr.defaults import BACKBONE, WINDOW
from tsdr.methods import COUNTS, NAIVE, TSDR, Method
from tsdr.paper import paper_dataset, paper_numbers
from tsdr.records.changes import mean
from tsdr.records.run import Record
from tsdr.records.views import by_answers
from tsdr.report.results.names import log_name, seeds_by_folds

LEAKY = ("sparsekt", "diskt")  # whose published code lets a prediction see later answers
OURS = ((BACKBONE, TSDR, "all"), (BACKBONE, NAIVE, "all"), (COUNTS, NAIVE, "all"), (COUNTS, NAIVE, WINDOW))
FEWEST = 2  # runs: what one fold came to cannot be held against the mean of others
HEADER = (
    "| log | best published | AUC | best that cannot see the future | AUC "
    f"| {' | '.join(f'`{name}`, {method}, {window} in view' for name, method, window in OURS)} |\n"
    f"|---|---|---|---|---|{'---|' * len(OURS)}\n"
)


def main() -> None:
    """Fill the table in."""
    fill("docs/findings.md", "documents.published", table(judged_by_the_same_answers()))


def table(records: Sequence[Record]) -> str:
    """A row for each log of the paper that there are records of."""
    logs = sorted({record.dataset for record in records if paper_dataset(record.dataset)})
    return HEADER + "".join(_row(log, [record for record in records if record.dataset == log]) for log in logs)


def _row(log: str, records: Sequence[Record]) -> str:
    published = paper_numbers()["real"][str(paper_dataset(log))]["auc"]
    honest = {name: found for name, found in published.items() if name not in LEAKY}
    ours = [_ours(records, *key) for key in OURS]
    return f"| {' | '.join([log_name(records[0].log), *_best(published), *_best(honest), *ours])} |\n"


def _best(published: Mapping[str, Mapping[str, float]]) -> tuple[str, str]:
    auc, model, how = max((auc, model, how) for model, found in published.items() for how, auc in found.items())
    return model + (" + tsdr" if how == "tsdr" else ""), f"{auc:.4f}"


def _ours(records: Sequence[Record], backbone: str, method: Method, window: object) -> str:
    runs = [
        by_answers(record)
        for record in records
        if (record.backbone, record.method, record.options["window"]) == (backbone, method, window)
        and record.options.get("skips") is None
    ]
    return f"{mean(runs, 'auc'):.4f} ({seeds_by_folds(runs)})" if len(runs) >= FEWEST else "–"


if __name__ == "__main__":
    main()
