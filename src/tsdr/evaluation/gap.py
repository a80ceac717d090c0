"""How much of the gap between naive training and random exposure a method closes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tsdr.evaluation.records import Record
from tsdr.evaluation.significance import check_pairs, resampled


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
    check_pairs(naive, method)
    check_pairs(naive, oracle)
    drawn = [resampled(runs, metric, seed) for runs in (naive, method, oracle)]
    (naive_mean, naive_draws), (method_mean, method_draws), (oracle_mean, oracle_draws) = drawn
    better = -1 if metric == "true_auc" else 1  # a smaller risk is better, a larger AUC is
    gap, gaps = better * (naive_mean - oracle_mean), better * (naive_draws - oracle_draws)
    error = float(gaps.std())
    if gap < 2 * error:
        return GapShare(gap, error, None, None)
    shares = better * (naive_draws - method_draws) / gaps
    low, high = np.quantile(shares, [0.025, 0.975])
    return GapShare(gap, error, better * (naive_mean - method_mean) / gap, (float(low), float(high)))
