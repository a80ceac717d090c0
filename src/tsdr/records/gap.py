"""How much of the way from naive training to the best possible predictor, or to random exposure, a method goes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tsdr.records.run import Record
from tsdr.records.significance import check_pairs, resampled


@dataclass(frozen=True)
class GapShare:
    """(risk of naive - risk of the method) / (risk of naive - risk of what it is held against), with a 95 % interval.

    Held against the best possible predictor at the same history (`limit`), it is the share of the distance closed, and
    cannot be above 1 but by chance. Random exposure is no limit: it learns from as few labels as the log has.

    A ratio of means over runs, the interval by drawing students anew, the same ones for all methods. `share` is None
    where the gap is below two of its standard errors: there is then nothing to take a share of.
    """

    gap: float
    gap_error: float
    share: float | None
    interval: tuple[float, float] | None


def gap_share(
    naive: Sequence[Record], method: Sequence[Record], held_against: Sequence[Record], metric: str, seed: int = 0
) -> GapShare:
    """The share of the way in `true_bce`, `true_rmse` or `true_auc`; the three have runs on the same folds."""
    check_pairs(naive, method)
    check_pairs(naive, held_against)
    drawn = [resampled(runs, metric, seed) for runs in (naive, method, held_against)]
    (naive_mean, naive_draws), (method_mean, method_draws), (oracle_mean, oracle_draws) = drawn
    better = -1 if metric == "true_auc" else 1  # a smaller risk is better, a larger AUC is
    gap, gaps = better * (naive_mean - oracle_mean), better * (naive_draws - oracle_draws)
    error = float(gaps.std())
    if gap < 2 * error:
        return GapShare(gap, error, None, None)
    shares = better * (naive_draws - method_draws) / gaps
    low, high = np.quantile(shares, [0.025, 0.975])
    return GapShare(gap, error, better * (naive_mean - method_mean) / gap, (float(low), float(high)))
