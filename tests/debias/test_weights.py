import numpy as np
import pytest
import torch

from tsdr.debias.weights import density_ratio


def test_weights_are_clipped_normalised_and_counted() -> None:
    propensity = torch.tensor([[0.9, 0.5, 0.05, 0.01], [0.2, 0.1, 0.4, 0.3]])
    scored = torch.tensor([[False, True, True, True], [False, True, True, False]])
    weights = density_ratio(5 * propensity, scored, (0.5, 2.0), self_normalise=True)
    raw = [1 / (5 * p) for p in (0.5, 0.05, 0.01, 0.1, 0.4)]
    clipped = np.clip(raw, 0.5, 2.0)
    expected = clipped / clipped.mean()
    np.testing.assert_allclose(weights.value[scored].numpy(), expected, rtol=1e-6)
    assert not weights.value[~scored].any()
    assert weights.clipped_share == pytest.approx(np.mean([(r < 0.5) or (r > 2) for r in raw]))
    assert weights.effective_share == pytest.approx(expected.sum() ** 2 / (expected**2).sum() / 5)


def test_uniform_propensities_weigh_nothing() -> None:
    scored = torch.ones(2, 3, dtype=torch.bool)
    weights = density_ratio(torch.ones(2, 3), scored, (0.1, 10.0), self_normalise=False)
    assert torch.equal(weights.value, torch.ones(2, 3))
    assert (weights.clipped_share, weights.effective_share) == (0.0, 1.0)


def test_nothing_scored_is_no_crash() -> None:
    nothing = torch.zeros(2, 3, dtype=torch.bool)
    assert not density_ratio(torch.full((2, 3), 0.4), nothing, (0.5, 2.0), self_normalise=True).value.any()
