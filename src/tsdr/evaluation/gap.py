"""How much of the gap between naive training and random exposure a method closes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tsdr.evaluation.metrics import Array
from tsdr.evaluation.records import Record

DRAWS = 1000


@dataclass(frozen=True)
class GapShare:
    """(risk of naive - risk of the method) / (risk of naive - risk of random exposure), with a 95 % interval.

    A ratio of means over runs, the interval by drawing students anew, the same ones for all methods. `share` is None
    where the gap is below two of its standard errors: there is then nothing to take a share of.
    """

    gap: float
    gap_error: float
    share: float | None
    interval: tuple[float, float] | None


def gap_share(
    naive: Sequence[Record], method: Sequence[Record], oracle: Sequence[Record], metric: str, seed: int = 0
) -> GapShare:
    """The share of the gap in `true_bce`, `true_rmse` or `true_auc`; the three have runs on the same folds."""
    drawn = [_draws(runs, metric, seed) for runs in (naive, method, oracle)]
    (naive_mean, naive_draws), (method_mean, method_draws), (oracle_mean, oracle_draws) = drawn
    better = -1 if metric == "true_auc" else 1  # a smaller risk is better, a larger AUC is
    gap, gaps = better * (naive_mean - oracle_mean), better * (naive_draws - oracle_draws)
    error = float(gaps.std())
    if gap < 2 * error:
        return GapShare(gap, error, None, None)
    shares = better * (naive_draws - method_draws) / gaps
    low, high = np.quantile(shares, [0.025, 0.975])
    return GapShare(gap, error, better * (naive_mean - method_mean) / gap, (float(low), float(high)))


def _draws(runs: Sequence[Record], metric: str, seed: int) -> tuple[float, Array]:
    """The mean of the metric over runs, and the same for students drawn with replacement, DRAWS times."""
    rng = np.random.default_rng(seed)  # the same students for every method
    means = np.zeros(DRAWS)
    for run in sorted(runs, key=lambda run: (run.seed, run.fold)):
        assert run.by_student is not None
        sums = {name: np.array(values, dtype=float) for name, values in run.by_student.items()}
        students = len(sums["cells"])
        times = rng.multinomial(students, np.full(students, 1 / students), size=DRAWS)
        if metric == "true_auc":
            means += run.metrics["true_auc"] + (times - 1) @ sums["true_auc_influence"]
        else:
            column = {"true_bce": "true_bce", "true_rmse": "true_squared_error"}[metric]
            value = (times @ sums[column]) / (times @ sums["cells"])
            means += np.sqrt(value) if metric == "true_rmse" else value
    return float(np.mean([run.metrics[metric] for run in runs])), means / len(runs)
