"""The lemma and the bounds, by Monte Carlo."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tsdr.debias.estimators import dr_terms
from tsdr.debias.theory import (
    bias_term,
    complexity_bound,
    covering_term,
    dr_bias,
    path_length,
    path_length_bound,
    variance_term,
)

Array = NDArray[Any]
CELLS, DRAWS = 400, 4000


def setting(seed: int = 0) -> tuple[Array, Array, Array, Array, Array]:
    """True and wrong propensities, errors, wrong imputed errors, and draws of who is observed [DRAWS, CELLS]."""
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.1, 0.9, CELLS)
    wrong = (p * rng.uniform(0.6, 1.6, CELLS)).clip(0.05, 1)
    return p, wrong, rng.exponential(size=CELLS), rng.exponential(size=CELLS), rng.random((DRAWS, CELLS)) < p


def estimates(error: Array, imputed: Array, propensity: Array, observed: Array) -> Array:
    return np.array([dr_terms(error, imputed, propensity, draw.astype(float)).mean() for draw in observed])


def assert_mean(draws: Array, expected: float) -> None:
    """The mean of the draws within four standard errors: a false alarm once in 16,000."""
    assert abs(draws.mean() - expected) < 4 * draws.std() / np.sqrt(len(draws)) + 1e-12


def test_right_propensities_make_it_unbiased_whatever_is_imputed() -> None:
    p, _, error, imputed, observed = setting()
    assert dr_bias(p, p, error, imputed) == 0
    assert_mean(estimates(error, imputed, p, observed), error.mean())


def test_right_imputation_makes_it_exact_whatever_the_propensities() -> None:
    _, wrong, error, _, observed = setting()
    np.testing.assert_allclose(estimates(error, error, wrong, observed), error.mean())


def test_with_both_wrong_it_is_off_by_the_lemma() -> None:
    p, wrong, error, imputed, observed = setting()
    bias = dr_bias(p, wrong, error, imputed)
    draws = estimates(error, imputed, wrong, observed)
    assert_mean(draws, error.mean() + bias)
    assert abs(bias) > 10 * draws.std() / np.sqrt(DRAWS), "the setting must be one that shows it"
    assert abs(bias) <= bias_term(p, wrong, error, imputed)


@pytest.mark.parametrize("eta", [0.05, 0.3])
def test_the_bound_is_violated_in_at_most_eta_of_the_draws(eta: float) -> None:
    p, wrong, error, imputed, observed = setting()
    bound = bias_term(p, wrong, error, imputed) + variance_term(wrong, error, imputed, eta=eta)
    violated = (error.mean() > estimates(error, imputed, wrong, observed) + bound).mean()
    assert violated <= eta
    # with the right propensities there is no bias to hide behind, and the variance term alone must do
    alone = variance_term(p, error, imputed, eta=eta)
    off = np.abs(estimates(error, imputed, p, observed) - error.mean())
    assert (off > alone).mean() <= eta
    assert (off > alone / 4).mean() > eta, "a bound that is never near would show nothing"


def test_the_variance_term_is_its_formula() -> None:
    estimated, error, imputed = np.array([0.5, 0.25]), np.array([1.0, 2.0]), np.array([0.0, 1.5])
    expected = np.sqrt(np.log(2 * 7 / 0.1) / (2 * 4) * (4.0 + 4.0))
    assert variance_term(estimated, error, imputed, hypotheses=7, eta=0.1) == pytest.approx(expected)


def test_a_path_is_no_longer_than_smoothness_allows() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        states = rng.normal(size=(rng.integers(2, 30), 5)).cumsum(axis=0)
        assert path_length(states) <= path_length_bound(states) + 1e-9
    even = np.outer(np.arange(10), [3.0, 4.0])
    assert path_length(even) == pytest.approx(path_length_bound(even)) == pytest.approx(45)


def test_smoother_paths_have_less_complex_images() -> None:
    assert covering_term(4.0, 9, 0.5, lipschitz=2.0) == pytest.approx(2 * 6 / 0.5 + 1)
    bounds = [complexity_bound(smoothness, 50) for smoothness in (0.0, 0.1, 1.0, 10.0)]
    assert bounds == sorted(bounds)
    assert bounds[0] < bounds[-1]
    # by a plain midpoint sum
    epsilon = (np.arange(200_000) + 0.5) / 200_000
    terms = np.sqrt((np.sqrt(50.0) / epsilon + 1) * np.log(2 / epsilon + 1))
    assert bounds[2] == pytest.approx(12 / np.sqrt(50) * terms.mean(), rel=5e-3)
