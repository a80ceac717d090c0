import numpy as np
import pytest

from tsdr.methods import Method
from tsdr.records.gap import gap_share
from tsdr.records.run import Record

STUDENTS, CELLS = 60, 100


def runs(mean_bce: float, auc: float = 0.6, seed: int = 0, noise: float = 0.05) -> list[Record]:
    """Three folds; students differ, in the same way under every method, and a little besides."""
    records = []
    for fold in range(3):
        shared = np.random.default_rng(fold).normal(0, 0.1, STUDENTS)
        own = np.random.default_rng([seed, fold]).normal(0, noise, STUDENTS)
        bce = mean_bce + shared - shared.mean() + own - own.mean()
        influence = np.random.default_rng(fold).normal(0, 0.001, STUDENTS)
        records.append(
            Record(
                dataset="d",
                backbone="dkt",
                method=Method("m"),
                options={},
                fold=fold,
                seed=1,
                metrics={"true_bce": mean_bce, "true_rmse": float(np.sqrt(bce.mean() / 4)), "true_auc": auc},
                per_student={},
                by_student={
                    "cells": [CELLS] * STUDENTS,
                    "true_bce": (CELLS * bce).tolist(),
                    "true_squared_error": (CELLS * bce / 4).tolist(),
                    "true_auc_influence": (influence - influence.mean()).tolist(),
                },
                students={},
                scored=1,
                epochs=1,
                best_epoch=1,
                seconds=1,
                peak_memory_mib=1,
                versions={},
            )
        )
    return records


def test_the_share_is_the_ratio_of_means_within_its_interval() -> None:
    naive, method, oracle = runs(0.60, 0.60, 1), runs(0.53, 0.66, 2), runs(0.50, 0.70, 3)
    closed = gap_share(naive, method, oracle, "true_bce")
    assert closed.share == pytest.approx(0.7)
    assert closed.interval is not None
    assert closed.interval[0] < 0.7 < closed.interval[1]
    assert closed.gap == pytest.approx(0.1)
    in_auc = gap_share(naive, method, oracle, "true_auc")
    assert in_auc.share == pytest.approx(0.6)
    assert in_auc.gap == pytest.approx(0.1)
    in_rmse = gap_share(naive, method, oracle, "true_rmse")
    roots = [np.sqrt(value / 4) for value in (0.60, 0.53, 0.50)]
    assert in_rmse.share == pytest.approx((roots[0] - roots[1]) / (roots[0] - roots[2]))


def test_naive_closes_nothing_and_the_oracle_all() -> None:
    naive, oracle = runs(0.60, 0.60, 1), runs(0.50, 0.70, 3)
    nothing, all_of_it = gap_share(naive, naive, oracle, "true_bce"), gap_share(naive, oracle, oracle, "true_bce")
    assert (nothing.share, nothing.interval) == (0.0, (0.0, 0.0))
    assert (all_of_it.share, all_of_it.interval) == (1.0, (1.0, 1.0))


def test_there_is_no_share_of_a_gap_that_is_none() -> None:
    naive, method = runs(0.5005, 0.6, 1, noise=0.3), runs(0.49, 0.6, 2, noise=0.3)
    closed = gap_share(naive, method, runs(0.5, 0.6, 3, noise=0.3), "true_bce")
    assert closed.share is None
    assert closed.gap < 2 * closed.gap_error
    backwards = gap_share(runs(0.5), runs(0.55), runs(0.6), "true_bce")
    assert backwards.share is None, "an oracle that does worse than naive leaves nothing to close"


def test_the_error_of_the_gap_is_that_of_paired_students() -> None:
    """What students have in common cancels: the error is that of the own noise, over students and folds."""
    closed = gap_share(runs(0.60, seed=1, noise=0.05), runs(0.55, seed=2), runs(0.50, seed=3, noise=0.05), "true_bce")
    expected = np.sqrt(2 * 0.05**2 / STUDENTS / 3)
    assert closed.gap_error == pytest.approx(expected, rel=0.25)
