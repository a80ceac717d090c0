"""The table of docs/choosing.md, from the records under results and results/histories.

    python -m documents.choosing

A model is shown with the latest 50 answers in view, as the paper has it, and with the most that it was run with;
stopped by its loss, or by AUC where that is all there is.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import median

from documents.filling import fill, judged_by_the_same_answers
from tsdr.defaults import BACKBONE, WINDOW
from tsdr.methods import COUNTS, NAIVE, TSDR
from tsdr.paper import BACKBONES
from tsdr.records.changes import mean
from tsdr.records.collection import on_common_folds
from tsdr.records.run import LIMIT, LogName, Record
from tsdr.report.results.names import log_name

MODELS = (BACKBONE, COUNTS, *BACKBONES)
LOGS, SELECTED = ("assist17", "algebra05"), "simulated-gamma0.8"
ALL = (*LOGS, SELECTED)
FEWEST = 2  # runs: what one fold came to cannot be held against the mean of others


def main() -> None:
    """Fill the table in."""
    fill("docs/choosing.md", "documents.choosing", table(judged_by_the_same_answers()))


def table(records: Sequence[Record]) -> str:
    """A row for each model and method, in the paper's view and in the longest."""
    logs = [f"AUC, {log_name(LogName.parse(log))}" for log in LOGS]
    columns = ["model", "method", *logs, "true BCE above the best possible", "training, a fold", "its memory"]
    lines = [columns, ["---"] * len(columns)]
    for model in MODELS:
        for method in (NAIVE, TSDR):
            runs = [record for record in records if (record.backbone, record.method) == (model, method)]
            for longest in (False, True):
                of_log = {log: _in_view([run for run in runs if run.dataset == log], longest) for log in ALL}
                if any(of_log[log] for log in LOGS):
                    lines.append([f"`{model}`", str(method), *_cells(of_log, records)])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cells(of_log: Mapping[str, Sequence[Record]], records: Sequence[Record]) -> list[str]:
    aucs = [f"{mean(of_log[log], 'auc'):.4f} {_basis(of_log[log])}" if of_log[log] else "–" for log in LOGS]
    window = of_log[SELECTED][0].options["window"] if of_log[SELECTED] else None
    limit = [run for run in records if (run.backbone, run.dataset, run.options["window"]) == (LIMIT, SELECTED, window)]
    above, best = on_common_folds([of_log[SELECTED], limit])
    distance = f"{mean(above, 'true_bce') - mean(best, 'true_bce'):.4f} {_basis(above)}" if above else "–"
    timed = of_log[LOGS[0]]
    if not timed:
        return [*aucs, distance, "–", "–"]
    seconds, memory = (median(getattr(run, name) for run in timed) for name in ("seconds", "peak_memory_mib"))
    return [*aucs, distance, f"{seconds:.0f} s", f"{memory / 1024:.1f} GiB"]


def _basis(runs: Sequence[Record]) -> str:
    """What was in view, and the number of runs."""
    return f"({runs[0].options['window']}; {len(runs)})"


def _in_view(runs: Sequence[Record], longest: bool) -> list[Record]:
    """Those in the paper's view, or those with the most in view, if that is more."""
    views = {run.options["window"] for run in runs} - {WINDOW}
    view = max(views, key=lambda extent: math.inf if extent == "all" else extent, default=None) if longest else WINDOW
    found = _stopped_alike([run for run in runs if run.options["window"] == view])
    return found if len(found) >= FEWEST else []


def _stopped_alike(runs: Sequence[Record]) -> list[Record]:
    """Those that were stopped by their loss, or all if none was."""
    by_loss = [run for run in runs if run.stop_by in (None, "loss")]
    return by_loss or list(runs)


if __name__ == "__main__":
    main()
