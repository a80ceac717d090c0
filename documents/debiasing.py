"""The tables of docs/debiasing.md, from the records under results.

    python -m documents.debiasing > docs/debiasing.md

A record is made by `tsdr reproduce synthetic` or `tsdr compare --gamma GAMMA --seed SEED --folds 3 --backbone NAME
--methods ... --out results`, one on a real log by `tsdr reproduce table1` or `tsdr compare LOG --folds 5 ...`.
"""

import statistics
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np

from documents.overview import overview
from tsdr.methods import BASELINE, COUNTS, NAIVE, NAMES, ORACLE, OWN, REGULARISED, TSDR, UNWEIGHTED, Method
from tsdr.paper import BACKBONES
from tsdr.records.baselines import grouped
from tsdr.records.changes import mean
from tsdr.records.collection import cells, on_common_folds
from tsdr.records.folder import RecordFolder
from tsdr.records.gap import gap_share
from tsdr.records.run import LIMIT, LogName, Record
from tsdr.report.results.names import log_name
from tsdr.report.results.tables import share_closed

CONTROLLED = ((TSDR, UNWEIGHTED), (OWN, Method(REGULARISED)), (OWN, Method.parse(f"{OWN}:weights=off")))
MODELS = (*BACKBONES, LIMIT)  # the last is no model: what the others are held against
# By which training was stopped, and how a model is called then: the paper's rule goes without saying.
RULES = {"auc": "", "loss": ", stopped by its loss"}
RECORDS = Path(__file__).parents[1] / "results"
INTRODUCTION = """\
# What debiasing gains

Made by `python -m documents.debiasing` from the records in `results`; the method and its options are in
[method.md](method.md). Latest 50 answers of students with 5 or more, 10 % of the training students for early stopping
(patience 15), Adam 1e-3, batches of 64, the backbones' default sizes, one set of defaults for all backbones.

*Logged AUC* is on logged answers of held-out students, with the gain over naive, paired over runs (seeds x folds), its
standard error, and in how many runs it is positive. On simulated logs (1,000 students, the paper's skip rule at
strength gamma) and for complete real answers seen through that rule, *true BCE* is the cross-entropy against the true
success of every concept at every step of held-out students, with its paired difference from naive (negative is
better); *distance closed* is the share of the way from naive to the best possible predictor at the same history, and
*gap closed* that to random exposure, with 95 % intervals over students; there is no share where the way is below two
standard errors. Random exposure is an oracle with as few labels as the log has, and no limit. Intervals over students
do not tell what another training would come to: where seeds disagree, believe the spread over runs.

## All of it in one table

*Change* is paired over the same students, with a 95 % interval (none where an older record does not tell students
apart) and the folds in which it is for the better. What is gained at gamma 0, where nobody skips, is no debiasing.

![What tsdr-own changes against the truth at each strength of selection](images/gamma.png)
"""
CONTROLS = """
## tsdr against its controls

Any good teacher regularises. `naive-regularised` is naive training with dropout and weight decay tuned on each fold's
validation students, `tsdr-unweighted` is tsdr with w = 1, `tsdr-own:weights=off` is tsdr-own with w = 1. The
differences are the method less the control, paired over runs: for true BCE negative is better, for logged AUC positive.

| log | model | method | control | true BCE | logged AUC |
|---|---|---|---|---|---|"""


DISTANCES = """
## How far from the best possible predictor

`limit` is the exact filter of the simulated students: what can be known of each from the latest 50 answers, starting
from the population's mastery there, and no more. *Away* is what a model is above it in true BCE, on the same folds; *of
the way* the share of the distance from naive dkt to the limit, with its 95 % interval over students. `counts` is a
logistic regression on counts and questions, fitted in seconds: a deep model that is behind it has not earned its cost.

| log | model | method | runs | true BCE | away | of the way | logged AUC |
|---|---|---|---|---|---|---|---|"""


def main() -> None:
    """Print the document."""
    print(document(list(RecordFolder(RECORDS))))


def document(records: list[Record]) -> str:
    """The whole document: of the logs on which something was debiased, by models of the default size."""
    everything = records
    debiased = {record.dataset for record in records if record.debias and not record.timed}
    records = [
        record
        for record in records
        if record.dataset in debiased and record.backbone in MODELS and not record.timed and record.size != "light"
    ]
    parts = [INTRODUCTION, overview(cells(records)).rstrip()]
    logs = sorted(debiased, key=lambda log: (not LogName.parse(log).is_simulated, log))
    for log in logs:
        known = any(record.has_truth for record in records if record.dataset == log)
        parts.append(f"\n## {_title(log)}\n")
        parts.append(
            "| model | method | seeds x folds | logged AUC | gain | true BCE | difference | gap closed, BCE | RMSE "
            "| AUC |\n"
            "|---|---|---|---|---|---|---|---|---|---|"
            if known
            else "| model | method | seeds x folds | AUC | gain | ACC | RMSE |\n|---|---|---|---|---|---|---|"
        )
        for model, rule in product(BACKBONES, RULES):
            of_model = [run for run in records if (run.dataset, run.backbone, run.stop_by) == (log, model, rule)]
            for method in dict.fromkeys(record.method for record in sorted(of_model, key=_order)):
                parts.append(_row(model + RULES[rule], method, of_model, known))
    return "\n".join([*parts, *_controls(records, logs), DISTANCES, *(_distances(everything, rule) for rule in RULES)])


def _distances(records: list[Record], rule: str) -> str:
    """Every model that a rule has stopped beside the best possible predictor, on logs where that is known."""
    parts = []
    shown = (record for record in records if record.has_truth and record.size != "light" and not record.timed)
    groups = grouped(record for record in shown if record.backbone == COUNTS or record.stop_by in (None, rule))
    for log in sorted({log for log, backbone, _ in groups if backbone == LIMIT}):
        start, end = groups.get((log, "dkt", NAIVE), []), groups[log, LIMIT, BASELINE]
        for (other, backbone, method), runs in groups.items():
            start_there, there, end_there = on_common_folds([start, runs, end])
            if other != log or not there or (method.is_baseline and backbone != LIMIT):
                continue
            away = mean(there, "true_bce") - mean(end_there, "true_bce")
            share = share_closed(gap_share(start_there, there, end_there, "true_bce")) if there != start_there else "-"
            named = backbone if backbone in (COUNTS, LIMIT) else backbone + RULES[rule]
            row = [log_name(LogName.parse(log)), named, str(method), str(len(there)), _mean(there, "true_bce")]
            parts.append(f"| {' | '.join([*row, f'{away:.4f}', share, _mean(there, 'auc')])} |")
    return "\n".join(parts)


def _controls(records: list[Record], logs: list[str]) -> list[str]:
    """tsdr beside what regularises without debiasing, on the same folds."""
    parts = [CONTROLS]
    for log, model, (method, control) in product(logs, BACKBONES, CONTROLLED):
        of_model = [record for record in records if (record.dataset, record.backbone) == (log, model)]
        rule = "loss" if method == TSDR else "auc"
        ours, theirs = (
            [run for run in of_model if (run.method, run.stop_by) == (one, rule)] for one in (method, control)
        )
        if ours and theirs and ours[0].has_truth:
            differences = [_difference(ours, theirs, *metric) for metric in (("true_bce", -1), ("auc", 1))]
            about = f"{log_name(LogName.parse(log))} | {model} | {method} | {control}"
            parts.append(f"| {about} | {' | '.join(differences)} |")
    return parts


def _title(log: str) -> str:
    name = log_name(LogName.parse(log))
    return name[0].upper() + name[1:]


def _order(record: Record) -> tuple[int, str]:
    return (NAMES.index(record.method.name), str(record.method))


def _row(model: str, method: Method, of_model: list[Record], known: bool) -> str:
    runs = [record for record in of_model if record.method == method]
    keys = {(run.seed, run.fold) for run in runs}
    naive, oracle = (
        [record for record in of_model if record.method == other and (record.seed, record.fold) in keys]
        for other in (NAIVE, ORACLE)
    )
    seeds = len({run.seed for run in runs})
    row = [
        model,
        str(method),
        f"{seeds} x {len(runs) // seeds}",
        _mean(runs, "auc"),
        _difference(runs, naive, "auc", 1),
    ]
    if known:
        row += [_mean(runs, "true_bce"), _difference(runs, naive, "true_bce", -1)]
        row += [_share(naive, runs, oracle, metric) for metric in ("true_bce", "true_rmse", "true_auc")]
    else:
        row += [_mean(runs, "acc"), _mean(runs, "rmse")]
    return f"| {' | '.join(row)} |"


def _mean(runs: Sequence[Record], metric: str) -> str:
    return f"{statistics.mean(run.metrics[metric] for run in runs):.4f}"


def _difference(runs: Sequence[Record], naive: Sequence[Record], metric: str, better: int) -> str:
    """The mean paired difference from naive ± its standard error, and how often it is for the better."""
    base = {(run.seed, run.fold): run.metrics[metric] for run in naive}
    found = [run.metrics[metric] - base[run.seed, run.fold] for run in runs if (run.seed, run.fold) in base]
    if runs[0].method == NAIVE or len(found) < 2:
        return "-"
    error = np.std(found, ddof=1) / np.sqrt(len(found))
    won = sum(better * difference > 0 for difference in found)
    return f"{statistics.mean(found):+.4f} ± {error:.4f} ({won} of {len(found)})"


def _share(naive: list[Record], runs: list[Record], oracle: list[Record], metric: str) -> str:
    if runs[0].method in (NAIVE, ORACLE) or not len(naive) == len(runs) == len(oracle):
        return "-"
    closed = gap_share(naive, runs, oracle, metric)
    if closed.share is None or closed.interval is None:
        return "no gap"
    return f"{closed.share:.0%} ({closed.interval[0]:.0%} to {closed.interval[1]:.0%})"


if __name__ == "__main__":
    main()
