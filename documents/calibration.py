"""The table of calibration in docs/choosing.md, from the records under results and results/histories.

    python -m documents.calibration

Whole histories in view. The calibration error of few answers is above nought for the best of models: answers fall
unevenly by chance. So it is taken of all students of a log together, each as predicted in the fold where it was tested,
and stands beside what chance alone makes of so many answers.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import mean

import numpy as np

from documents.filling import fill, judged_by_the_same_answers
from tsdr.defaults import BACKBONE
from tsdr.methods import COUNTS, NAIVE, TSDR, Method
from tsdr.records.run import Record
from tsdr.report.results.names import log_name
from tsdr.resampling import Array

MODELS = ((BACKBONE, NAIVE), (BACKBONE, TSDR), (COUNTS, NAIVE))
Key = tuple[str, Method]


def main() -> None:
    """Fill the table in."""
    fill("docs/choosing.md", "documents.calibration", table(judged_by_the_same_answers()))


def table(records: Sequence[Record]) -> str:
    """A row for each log whose every student was tested."""
    logs: dict[str, dict[Key, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        if record.options["window"] == "all" and (record.backbone, record.method) in MODELS and not record.skips_read:
            logs[record.dataset][record.backbone, record.method].append(record)
    columns = ["log", "students tested", *(f"`{name}`, {method}" for name, method in MODELS), "by chance", "a fold"]
    lines = [columns, ["---"] * len(columns)]
    for _, found in sorted(logs.items()):
        whole = {key: runs for key in MODELS if _every_student_once(runs := found[key])}
        if whole:
            lines.append(_line(whole))
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _line(found: Mapping[Key, Sequence[Record]]) -> list[str]:
    first = next(iter(found.values()))
    about = [log_name(first[0].log), f"{sum(run.students['test'] for run in first):,}"]
    errors = [f"{_error(found[key]):.4f}" if key in found else "–" for key in MODELS]
    a_fold = mean(run.metrics["ece"] for run in first)
    return [*about, *errors, f"{_by_chance(first):.4f}", f"{a_fold:.4f}"]


def _every_student_once(runs: Sequence[Record]) -> bool:
    folds = {run.options["folds"] for run in runs}
    seeds = {run.seed for run in runs}
    return len(folds) == 1 and len(runs) == len(seeds) * folds.pop()


def _bins(runs: Sequence[Record]) -> tuple[Array, Array, Array]:
    """How many answers each of the ten bins has, how many right ones were predicted, and how many there were."""
    bins = np.zeros((3, 10))
    for run in runs:
        assert run.calibration is not None
        answers, predicted, right = (
            np.array([value or 0.0 for value in run.calibration[name]]) for name in ("answers", "predicted", "right")
        )
        bins += [answers, answers * predicted, answers * right]
    return bins[0], bins[1], bins[2]


def _error(runs: Sequence[Record]) -> float:
    answers, predicted, right = _bins(runs)
    return float(np.abs(predicted - right).sum() / answers.sum())


def _by_chance(runs: Sequence[Record]) -> float:
    """What is to be expected of a model whose every prediction is right: a mean absolute deviation in each bin."""
    answers, predicted, _ = _bins(runs)
    deviation = np.sqrt(predicted * (1 - predicted / np.maximum(answers, 1)) * 2 / math.pi)
    return float(deviation.sum() / answers.sum())


if __name__ == "__main__":
    main()
