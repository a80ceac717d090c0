"""The table of docs/choosing.md, from the records under results and results/histories.

    python -m documents.choosing

A model is shown with the latest 50 answers in view, as the paper has it, and with the most that it was run with;
stopped by its loss, or by AUC where that is all there is.
"""

from collections.abc import Sequence
from statistics import median

from documents.filling import fill, judged_by_the_same_answers
from tsdr.defaults import BACKBONE, WINDOW
from tsdr.methods import COUNTS, NAIVE, TSDR, Method
from tsdr.paper import BACKBONES
from tsdr.records.changes import mean
from tsdr.records.collection import on_common_folds
from tsdr.records.run import LIMIT, LogName, Record
from tsdr.report.results.names import log_name

MODELS = (BACKBONE, COUNTS, *BACKBONES)
LOGS, SELECTED = ("assist17", "algebra05"), "simulated-gamma0.8"


def main() -> None:
    """Fill the table in."""
    fill("docs/choosing.md", "documents.choosing", table(judged_by_the_same_answers()))


def table(records: Sequence[Record]) -> str:
    """A row for each model and method, in the paper's view and in the longest."""
    logs = [f"AUC, {log_name(LogName.parse(log))}" for log in LOGS]
    columns = ["model", "method", "in view", *logs, "true BCE above the best possible", "training, a fold"]
    lines = [columns, ["---"] * len(columns)]
    for model in MODELS:
        for method in (NAIVE, TSDR):
            of_model = [record for record in records if (record.backbone, record.method) == (model, method)]
            views = {str(record.options["window"]) for record in of_model if record.dataset in LOGS}
            longest = max(views - {str(WINDOW)}, key=lambda view: (view == "all", len(view), view), default=None)
            lines += [_row(model, method, view, of_model, records) for view in (str(WINDOW), longest) if view in views]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _row(model: str, method: Method, view: str, of_model: Sequence[Record], records: Sequence[Record]) -> list[str]:
    seen = [record for record in of_model if str(record.options["window"]) == view]
    runs = {log: _stopped_alike([record for record in seen if record.dataset == log]) for log in (*LOGS, SELECTED)}
    aucs = [f"{mean(runs[log], 'auc'):.4f} ({len(runs[log])})" if runs[log] else "–" for log in LOGS]
    limit = [record for record in records if record.backbone == LIMIT and record.dataset == SELECTED]
    above, best = on_common_folds([runs[SELECTED], [one for one in limit if str(one.options["window"]) == view]])
    distance = f"{mean(above, 'true_bce') - mean(best, 'true_bce'):.4f} ({len(above)})" if above else "–"
    seconds = [record.seconds for record in runs[LOGS[0]]]
    time = f"{median(seconds):.0f} s" if seconds else "–"
    return [f"`{model}`", str(method), view, *aucs, distance, time]


def _stopped_alike(runs: Sequence[Record]) -> list[Record]:
    """Those that were stopped by their loss, or all if none was."""
    by_loss = [run for run in runs if run.stop_by in (None, "loss")]
    return by_loss or list(runs)


if __name__ == "__main__":
    main()
