"""Every estimator against a plain loop, and the limits that tie them together."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tsdr.debias.estimators import dr_terms, eib_terms, ipw_terms, naive_terms, snips_terms

Array = NDArray[Any]


def cells(seed: int = 0, steps: int = 30, concepts: int = 8) -> tuple[Array, Array, Array, Array]:
    """Errors, imputed errors, propensities and one observed concept a step."""
    rng = np.random.default_rng(seed)
    propensity = rng.dirichlet(np.ones(concepts), size=steps).clip(0.01, 1)
    observed = np.zeros((steps, concepts))
    observed[np.arange(steps), rng.integers(concepts, size=steps)] = 1
    return rng.exponential(size=(steps, concepts)), rng.exponential(size=(steps, concepts)), propensity, observed


@given(st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_estimators_are_their_formulas(seed: int) -> None:
    error, imputed, propensity, observed = cells(seed, steps=6, concepts=3)
    count = error.size
    ipw = dr = eib = known = weights = 0.0
    for e, i, p, o in zip(error.flat, imputed.flat, propensity.flat, observed.flat, strict=True):
        ipw += o * e / p
        weights += o / p
        dr += i + o / p * (e - i)
        eib += e if o else i
        known += e if o else 0.0
    assert naive_terms(error, observed).mean() == pytest.approx(known / observed.sum())
    assert ipw_terms(error, propensity, observed).mean() == pytest.approx(ipw / count)
    assert snips_terms(error, propensity, observed).mean() == pytest.approx(ipw / weights)
    assert eib_terms(error, imputed, observed).mean() == pytest.approx(eib / count)
    assert dr_terms(error, imputed, propensity, observed).mean() == pytest.approx(dr / count)


def test_limits() -> None:
    error, imputed, propensity, observed = cells()
    nothing, ones = np.zeros_like(error), np.ones_like(error)
    np.testing.assert_allclose(dr_terms(error, nothing, propensity, observed), ipw_terms(error, propensity, observed))
    uniform = np.full_like(error, 1 / error.shape[1])
    np.testing.assert_allclose(dr_terms(error, nothing, uniform, observed), naive_terms(error, observed))
    np.testing.assert_allclose(dr_terms(error, imputed, np.full_like(error, np.inf), observed), imputed)
    np.testing.assert_allclose(dr_terms(error, imputed, ones, observed), eib_terms(error, imputed, observed))
    assert dr_terms(error, error, propensity, observed).mean() == pytest.approx(error.mean())
    assert dr_terms(error, error, uniform * 3, observed).mean() == pytest.approx(error.mean())


def test_terms_are_differentiable() -> None:
    error, imputed, propensity, observed = (torch.tensor(array) for array in cells())
    error.requires_grad_()
    dr_terms(error, imputed, propensity, observed).sum().backward()
    torch.testing.assert_close(error.grad, observed / propensity)
