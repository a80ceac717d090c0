"""Against scikit-learn, whose one penalty becomes many by scaling columns; and the limits of shrinkage."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from tsdr.backbones.logistic import APART, EXACTLY, PRICE, Order, Term, fit_logistic


def data(rows: int = 3000, groups: int = 12, spread: float = 1.0, seed: int = 0) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    columns, index = rng.normal(size=(rows, 2)), rng.integers(groups, size=rows)
    effect = spread * rng.normal(size=groups)
    logit = 0.3 + columns @ np.array([0.5, -1.0]) + effect[index]
    return columns, index, (rng.random(rows) < 1 / (1 + np.exp(-logit))).astype(np.int64), effect


def test_the_optimum_is_that_of_a_design_written_out() -> None:
    columns, index, correct, _ = data()
    own = np.eye(12)[index]
    by_index = (own[:, :, None] * columns[:, None, :]).reshape(len(index), -1)
    ridges = np.concatenate([np.full(2, 0.01), np.full(12, 2.0), np.full(24, 5.0)])
    design = np.concatenate([columns, own, by_index], 1) / np.sqrt(ridges)
    oracle = LogisticRegression(C=1.0, tol=1e-10, max_iter=5000).fit(design, correct)
    expected = oracle.coef_[0] / np.sqrt(ridges)
    terms = [
        Term("bias", 0.0, np.ones((len(index), 1))),
        Term("slope", 0.01, columns),
        Term("own", 2.0, None, index, 12),
        Term("own slope", 5.0, columns, index, 12),
    ]
    effects, strength = fit_logistic(terms, correct)
    found = np.concatenate([effects["slope"], effects["own"], effects["own slope"]])
    np.testing.assert_allclose(found, expected, atol=2e-4)
    assert effects["bias"][0] == pytest.approx(oracle.intercept_[0], abs=2e-4)
    assert strength == {"bias": 0.0, "slope": 0.01, "own": 2.0, "own slope": 5.0}


def test_shrinkage_finds_how_large_effects_are() -> None:
    """A strength of 1 / variance: 1 for effects of variance 1, and strong where there are none."""
    for spread, low, high in ((1.0, 0.6, 1.7), (0.5, 2.5, 6.5)):
        _, index, correct, _ = data(rows=20_000, groups=300, spread=spread, seed=3)
        terms = [Term("bias", 0.0, np.ones((len(index), 1))), Term("own", 1.0, None, index, 300, adaptive=True)]
        assert low < fit_logistic(terms, correct)[1]["own"] < high
    rng = np.random.default_rng(0)
    index, correct = rng.integers(300, size=20_000), rng.integers(2, size=20_000)
    terms = [Term("bias", 0.0, np.ones((len(index), 1))), Term("own", 1.0, None, index, 300, adaptive=True)]
    effects, strength = fit_logistic(terms, correct)
    assert strength["own"] > 20
    assert np.abs(effects["own"]).max() < 0.5


def test_what_is_alike_or_never_seen_stays_finite() -> None:
    terms = [Term("bias", 0.0, np.ones((20, 1))), Term("own", 1.0, None, np.zeros(20, np.int64), 5, adaptive=True)]
    effects, _ = fit_logistic(terms, np.ones(20, np.int64))
    assert all(np.isfinite(values).all() for values in effects.values())
    assert (effects["own"][1:] == 0).all(), "indices without a row have no effect"


def test_rows_are_put_in_order_at_a_price_and_not_where_they_are() -> None:
    """Against the loss written out; effects by index and of columns, of which each pair has others."""
    columns, index, correct, _ = data(rows=400, groups=4)
    others, group = np.random.default_rng(1).normal(size=(8, 2)), np.arange(8) % 4

    def terms(columns: np.ndarray, index: np.ndarray) -> list[Term]:
        return [Term("slope", 0.01, columns), Term("own", 2.0, None, index, 4)]

    def logit(effects: np.ndarray, columns: np.ndarray, index: np.ndarray) -> np.ndarray:
        return columns @ effects[:2] + effects[2:][index]

    def loss(effects: np.ndarray, less: np.ndarray, more: np.ndarray) -> float:
        said, told = logit(effects, columns, index), logit(effects, others, group)
        entropy = np.logaddexp(0, said) - correct * said
        shrinkage = (0.01 * effects[:2] ** 2).sum() / 2 + (2.0 * effects[2:] ** 2).sum() / 2
        lacking = np.maximum(0, told[less] - told[more] + APART)
        return float(entropy.mean() + shrinkage / len(said) + PRICE / 2 * (lacking**2).mean())

    plain, _ = fit_logistic(terms(columns, index), correct, tolerance=EXACTLY)
    before = logit(np.concatenate([plain["slope"], plain["own"]]), others, group)
    upwards = before.argsort()
    for less, more, moved in ((upwards[:4], upwards[4:], False), (upwards[4:], upwards[:4], True)):
        found, _ = fit_logistic(
            terms(columns, index), correct, order=Order(terms(others, group), less, more), tolerance=EXACTLY
        )
        effects = np.concatenate([found["slope"], found["own"]])
        oracle = minimize(loss, np.zeros(6), args=(less, more), method="BFGS", options={"gtol": 1e-8})
        np.testing.assert_allclose(effects, oracle.x, atol=1e-4)
        after = logit(effects, others, group)
        assert (after[more] - after[less]).mean() > (before[more] - before[less]).mean() + 0.5 or not moved
        assert moved == (not np.allclose(effects, np.concatenate([plain["slope"], plain["own"]]), atol=1e-3))
