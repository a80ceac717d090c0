"""How sure a number is: intervals and paired tests over students, and Holm's correction over a table.

Students are independent of each other, their answers are not, so it is students that are drawn anew. What is drawn is
the same for the methods that are compared, and for all runs on the same log. Records hold what each student
contributes to every metric, so that nothing has to be predicted again. An interval over students does not tell how much
training from another seed would change: for that there are runs of several seeds.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm, t

from tsdr.errors import InputError
from tsdr.records.run import Record
from tsdr.resampling import DRAWS, Array, times_drawn

# A metric that is a mean: the sums and the counts that each student contributes.
_MEANS = {
    "acc": ("acc", "answers"),
    "rmse": ("squared_error", "answers"),
    "log_loss": ("log_loss", "answers"),
    "true_bce": ("true_bce", "cells"),
    "true_rmse": ("true_squared_error", "cells"),
}
_ROOTS = ("rmse", "true_rmse")
# Any other metric: how much each student moves it.
_INFLUENCES = {
    "auc": "auc_influence",
    "true_auc": "true_auc_influence",
    "estimated_snips": "estimated_snips_influence",
    "estimated_dr": "estimated_dr_influence",
}
TESTED = (*_INFLUENCES, *_MEANS)


@dataclass(frozen=True)
class Interval:
    """A mean over runs, its 95 % interval over students, and the probability of such a mean if there were nothing."""

    value: float
    low: float
    high: float
    p: float


def interval(runs: Sequence[Record], metric: str, seed: int = 0) -> Interval:
    """A metric, averaged over runs."""
    return _interval(*resampled(runs, metric, seed))


def paired_difference(reference: Sequence[Record], method: Sequence[Record], metric: str, seed: int = 0) -> Interval:
    """How much a method adds to a metric, over the same students: both have runs on the same folds of the same logs."""
    check_pairs(reference, method)
    before, before_draws = resampled(reference, metric, seed)
    after, after_draws = resampled(method, metric, seed)
    return _interval(after - before, after_draws - before_draws)


def has_sums(run: Record, metric: str) -> bool:
    """Whether a record says what each student contributes to a metric; those of earlier versions do not, of all."""
    needed = {_INFLUENCES[metric]} if metric in _INFLUENCES else set(_MEANS[metric])
    return needed <= set(run.by_student or ())


def check_pairs(one: Sequence[Record], other: Sequence[Record]) -> None:
    """Refuse runs that are not of the same folds."""
    if [fold_of(run) for run in _ordered(one)] != [fold_of(run) for run in _ordered(other)]:
        raise InputError("a paired difference takes runs of the same folds and seeds of the same logs")


def holm(p: Sequence[float]) -> list[float]:
    """Holm's adjusted probabilities: below 0.05 where a test stands among all of them (Holm, 1979).

    >>> [round(value, 3) for value in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p)
    steps = np.array(p)[order] * np.arange(len(p), 0, -1)
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1)
    return adjusted.tolist()


def resampled(runs: Sequence[Record], metric: str, seed: int = 0) -> tuple[float, Array]:
    """The mean of a metric over runs, and the same for students drawn with replacement, DRAWS times."""
    if metric not in TESTED:
        raise InputError(f"there is no interval for {metric!r}; choose from {', '.join(TESTED)}")
    rng = np.random.default_rng(seed)
    ordered = _ordered(runs)
    numbers = _number_students(ordered)
    times: dict[str, Array] = {}
    total = np.zeros(DRAWS)
    for run, number in zip(ordered, numbers, strict=True):
        log, sums = _log_of(run), _sums(run)
        if log not in times:
            students = 1 + max(int(n.max()) for other, n in zip(ordered, numbers, strict=True) if _log_of(other) == log)
            times[log] = times_drawn(students, rng)
        drawn = times[log][:, number]
        if not has_sums(run, metric):
            raise InputError(f"{run.file_name()}: does not say what each student contributes to {metric}; run it again")
        if metric in _INFLUENCES:
            total += run.metrics[metric] + (drawn - 1) @ sums[_INFLUENCES[metric]]
        else:
            numerator, count = _MEANS[metric]
            weight = drawn @ sums[count]
            own = np.full(DRAWS, sums[numerator].sum() / sums[count].sum())  # where none of a small fold is drawn
            mean = np.divide(drawn @ sums[numerator], weight, out=own, where=weight > 0)
            total += np.sqrt(mean) if metric in _ROOTS else mean
    value, draws = float(np.mean([run.metrics[metric] for run in runs])), total / len(runs)
    # Widened as for a t-test, so that what follows may take the draws for those of a normal law.
    return value, value + _few_students(sum(len(drawn[0]) for drawn in times.values())) * (draws - value)


def _few_students(students: int) -> float:
    """How much wider than its draws an interval has to be: they vary about their own mean, and by a normal's law."""
    return (
        float(np.sqrt(students / (students - 1)) * t.ppf(0.975, students - 1) / norm.ppf(0.975)) if students > 1 else 1
    )


def _number_students(runs: Sequence[Record]) -> list[Array]:
    """The number of each test student of each run, within its log: the same student has the same one in all runs.

    Numbers are given in the order in which students appear. Where a record does not say who they are, they are taken
    for others than those of any other run, as those of the folds of one seed are.
    """
    known: dict[str, dict[object, int]] = {}
    found = []
    for run in runs:
        of_log, sums = known.setdefault(_log_of(run), {}), _sums(run)
        apart = ((run.seed, run.fold, place) for place in range(len(next(iter(sums.values())))))
        found.append(np.array([of_log.setdefault(who, len(of_log)) for who in sums.get("student", apart)]))
    return found


def _interval(value: float, draws: Array) -> Interval:
    low, high = np.quantile(draws, [0.025, 0.975])
    error = float(draws.std())
    p = float(2 * norm.sf(abs(value) / error)) if error > 0 else float(value == 0)
    return Interval(value, float(low), float(high), p)


def _sums(run: Record) -> dict[str, Array]:
    """What each test student contributes."""
    if run.by_student is None:
        raise InputError(f"{run.file_name()}: does not say what each student contributes; run it again for an interval")
    return {name: np.array(values, dtype=float) for name, values in run.by_student.items()}


def _log_of(run: Record) -> str:
    return f"{run.dataset} {run.data}"


def fold_of(run: Record) -> tuple[str, int, int, object]:
    """What two runs must have in common to be paired: the log's content, the seed and the fold, of as many folds."""
    return _log_of(run), run.seed, run.fold, (run.options.get("folds"), run.options.get("fold_seed"))


def _ordered(runs: Sequence[Record]) -> list[Record]:
    """The same order for every method, so that the same students are drawn."""
    return sorted(runs, key=lambda run: (_log_of(run), run.seed, run.fold))
