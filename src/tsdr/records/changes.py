"""What a method changes against naive training, paired over the same folds."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import t

from tsdr.records.run import ESTIMATED, Record
from tsdr.records.significance import TESTED, has_sums, holm, paired_difference

LESS_IS_BETTER = ("rmse", "log_loss", "ece", "true_bce", "true_rmse", *ESTIMATED)
OWN_AUC = "own_auc"  # the mean over students of the AUC of their own answers
SIGNIFICANT = 0.05


@dataclass(frozen=True)
class Change:
    """A metric before and after, and the difference, with a 95 % interval over students where the records allow one.

    `error` is the standard error of the difference over runs. `p` is the probability of such a difference by chance:
    the larger of that of students drawn anew and that of a paired t-test over runs, since trainings differ, too.
    `adjusted` is the same after Holm's correction.
    """

    metric: str
    before: float
    after: float
    error: float | None
    better: int
    folds: int
    interval: tuple[float, float] | None = None
    p: float | None = None
    adjusted: float | None = None

    @property
    def difference(self) -> float:
        """After less before."""
        return self.after - self.before

    @property
    def gain(self) -> float:
        """The difference, positive where it is for the better."""
        return -self.difference if self.metric in LESS_IS_BETTER else self.difference

    @property
    def significant(self) -> bool:
        """Whether the difference stands among all that it was corrected with."""
        return self.adjusted is not None and self.adjusted < SIGNIFICANT


def value(run: Record, metric: str) -> float:
    """A metric of a run; not a number if it does not have it."""
    if metric == OWN_AUC:
        return run.per_student.get("auc", float("nan"))
    return run.metrics.get(metric, float("nan"))


def mean(runs: Sequence[Record], metric: str) -> float:
    """The mean of a metric over runs; not a number if there are none."""
    return float(np.mean([value(run, metric) for run in runs])) if runs else float("nan")


def standard_error(values: Sequence[float]) -> float | None:
    """That of their mean; None for a single one."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None


def change(naive: Sequence[Record], runs: Sequence[Record], metric: str) -> Change | None:
    """What changes from naive training to a method; both have runs on the same folds, in the same order.

    None if there are no runs, or if one of them lacks the metric.
    """
    before, after = ([value(run, metric) for run in group] for group in (naive, runs))
    if not before or not np.isfinite([*before, *after]).all():
        return None
    differences = np.subtract(after, before)
    sign = -1 if metric in LESS_IS_BETTER else 1
    found = Change(
        metric,
        float(np.mean(before)),
        float(np.mean(after)),
        standard_error(differences.tolist()),
        int((sign * differences > 0).sum()),
        len(before),
    )
    if metric not in TESTED or not all(has_sums(run, metric) for run in (*naive, *runs)):
        return found
    tested = paired_difference(naive, runs, metric)
    return replace(found, interval=(tested.low, tested.high), p=max(tested.p, _over_runs(found)))


def _over_runs(found: Change) -> float:
    """The probability of a paired t-test over runs; one run alone tells nothing of what another would come to."""
    if found.error is None:
        return 1.0
    if found.error == 0:
        return float(found.difference == 0)
    return float(2 * t.sf(abs(found.difference) / found.error, found.folds - 1))


def corrected(changes: Sequence[Change | None]) -> list[Change | None]:
    """The changes with Holm's correction over all of them that were tested."""
    adjusted = iter(holm([found.p for found in changes if found is not None and found.p is not None]))
    return [found if found is None or found.p is None else replace(found, adjusted=next(adjusted)) for found in changes]
