"""The tables of docs/debiasing.md, from the records under results.

    python -m benchmarks.debias_results > docs/debiasing.md

A record is made by `tsdr reproduce synthetic` or `tsdr compare --gamma GAMMA --seed SEED --folds 3 --backbone NAME
--methods ... --out results`, one on a real log by `tsdr reproduce table1` or `tsdr compare LOG --folds 5 ...`.
"""

import statistics
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np

from tsdr.evaluation.crossval import ALL_METHODS
from tsdr.evaluation.gap import gap_share
from tsdr.evaluation.records import Record, RecordFolder
from tsdr.report.results.names import log_name
from tsdr.training.trainer import TrainingOptions

RECORDS = Path(__file__).parents[1] / "results"
MODELS = ("dkt", "akt", "simplekt", "folibikt", "sparsekt", "diskt")
INTRODUCTION = """\
# What debiasing gains

Made by `python -m benchmarks.debias_results` from the records in `results`; the method and its options are in
[method.md](method.md). Latest 50 answers of students with 5 or more, 10 % of the training students for early stopping
(patience 15), Adam 1e-3, batches of 64, the backbones' default sizes, one set of defaults for all backbones.

*Logged AUC* is on logged answers of held-out students, with the gain over naive, paired over runs (seeds x folds), its
standard error, and in how many runs it is positive. On simulated logs (1,000 students, the paper's skip rule at
strength gamma) and for complete real answers seen through that rule, *true BCE* is the cross-entropy against the true
success of every concept at every step of held-out students, with its paired difference from naive (negative is
better), and *gap closed* the share of the distance from naive to random exposure, with a 95 % interval over students;
there is no share where the gap is below two standard errors. Intervals over students do not tell what another training
would come to: where seeds disagree, believe the spread over runs."""
CONTROLS = """
## tsdr against its controls

Any good teacher regularises. `naive-regularised` is naive training with dropout and weight decay tuned on each fold's
validation students, `tsdr-unweighted` is tsdr with w = 1. The differences are tsdr less the control, paired over runs:
for true BCE negative is better, for logged AUC positive is.

| log | model | control | true BCE | logged AUC |
|---|---|---|---|---|"""
SIMULATED = "simulated-gamma"


def main() -> None:
    """Print the document."""
    print(document(list(RecordFolder(RECORDS))))


def document(records: list[Record]) -> str:
    """The whole document: of the logs on which something was debiased, by models of the default size."""
    parts = [INTRODUCTION]
    debiased = {record.dataset for record in records if "debias" in record.options and not _timed(record)}
    records = [
        record
        for record in records
        if record.dataset in debiased and record.backbone in MODELS and not _timed(record) and not _light(record)
    ]
    logs = sorted(debiased, key=lambda log: (not log.startswith(SIMULATED), log))
    for log in logs:
        known = any("true_bce" in record.metrics for record in records if record.dataset == log)
        parts.append(f"\n## {_title(log)}\n")
        parts.append(
            "| model | method | seeds x folds | logged AUC | gain | true BCE | difference | gap closed, BCE | RMSE "
            "| AUC |\n"
            "|---|---|---|---|---|---|---|---|---|---|"
            if known
            else "| model | method | seeds x folds | AUC | gain | ACC | RMSE |\n|---|---|---|---|---|---|---|"
        )
        for model in MODELS:
            of_model = [record for record in records if (record.dataset, record.backbone) == (log, model)]
            for method in dict.fromkeys(record.method for record in sorted(of_model, key=_order)):
                parts.append(_row(model, method, of_model, known))
    return "\n".join([*parts, *_controls(records, logs)])


def _controls(records: list[Record], logs: list[str]) -> list[str]:
    """tsdr beside what regularises without debiasing, on the same folds."""
    parts = [CONTROLS]
    for log, model, control in product(logs, MODELS, ("naive-regularised", "tsdr-unweighted")):
        of_model = [record for record in records if (record.dataset, record.backbone) == (log, model)]
        ours, theirs = ([run for run in of_model if run.method == method] for method in ("tsdr", control))
        if ours and theirs and "true_bce" in ours[0].metrics:
            differences = [_difference(ours, theirs, *metric) for metric in (("true_bce", -1), ("auc", 1))]
            parts.append(f"| {log_name(log)} | {model} | {control} | {' | '.join(differences)} |")
    return parts


def _timed(record: Record) -> bool:
    """Cut off after a few epochs, to measure their cost."""
    return record.options.get("training", {}).get("max_epochs") != TrainingOptions().max_epochs


def _light(record: Record) -> bool:
    return record.options["backbone"].get("size") == "light"


def _title(log: str) -> str:
    name = log_name(log)
    return name[0].upper() + name[1:]


def _order(record: Record) -> tuple[int, str]:
    return (ALL_METHODS.index(record.method.split(":")[0]), record.method)


def _row(model: str, method: str, of_model: list[Record], known: bool) -> str:
    runs = [record for record in of_model if record.method == method]
    keys = {(run.seed, run.fold) for run in runs}
    naive, oracle = (
        [record for record in of_model if record.method == other and (record.seed, record.fold) in keys]
        for other in ("naive", "random-exposure")
    )
    seeds = len({run.seed for run in runs})
    cells = [model, method, f"{seeds} x {len(runs) // seeds}", _mean(runs, "auc"), _difference(runs, naive, "auc", 1)]
    if known:
        cells += [_mean(runs, "true_bce"), _difference(runs, naive, "true_bce", -1)]
        cells += [_share(naive, runs, oracle, metric) for metric in ("true_bce", "true_rmse", "true_auc")]
    else:
        cells += [_mean(runs, "acc"), _mean(runs, "rmse")]
    return f"| {' | '.join(cells)} |"


def _mean(runs: Sequence[Record], metric: str) -> str:
    return f"{statistics.mean(run.metrics[metric] for run in runs):.4f}"


def _difference(runs: Sequence[Record], naive: Sequence[Record], metric: str, better: int) -> str:
    """The mean paired difference from naive ± its standard error, and how often it is for the better."""
    base = {(run.seed, run.fold): run.metrics[metric] for run in naive}
    found = [run.metrics[metric] - base[run.seed, run.fold] for run in runs if (run.seed, run.fold) in base]
    if runs[0].method == "naive" or len(found) < 2:
        return "-"
    error = np.std(found, ddof=1) / np.sqrt(len(found))
    won = sum(better * difference > 0 for difference in found)
    return f"{statistics.mean(found):+.4f} ± {error:.4f} ({won} of {len(found)})"


def _share(naive: list[Record], runs: list[Record], oracle: list[Record], metric: str) -> str:
    if runs[0].method in ("naive", "random-exposure") or not len(naive) == len(runs) == len(oracle):
        return "-"
    closed = gap_share(naive, runs, oracle, metric)
    if closed.share is None or closed.interval is None:
        return "no gap"
    return f"{closed.share:.0%} ({closed.interval[0]:.0%} to {closed.interval[1]:.0%})"


if __name__ == "__main__":
    main()
