"""Targeting: the score equations, what a right model gets, what shrinkage does, and data that tell little."""

import numpy as np
import pytest
import torch
from torch import Tensor

from tsdr.debias.stack import Stack, Targeting, fit_stack

CONCEPTS = 12


def answers(truth: Tensor, concept: Tensor, by_concept: float = 0.0, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Answers drawn from true logits that differ by concept from those that are given, and even weights."""
    generator = torch.Generator().manual_seed(seed)
    own = by_concept * torch.randn(CONCEPTS, generator=generator, dtype=torch.float64)
    success = (truth + own[concept]).sigmoid()
    return (torch.rand(len(truth), generator=generator, dtype=torch.float64) < success).long(), own


@pytest.fixture
def models() -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(4000, 2, generator=generator, dtype=torch.float64)
    concept = torch.randint(CONCEPTS, (4000,), generator=generator)
    weight = 0.25 + 2 * torch.rand(4000, generator=generator, dtype=torch.float64)
    return logits, concept, weight


def test_the_weighted_score_equations_hold(models: tuple[Tensor, Tensor, Tensor]) -> None:
    """By a plain loop: with answers that follow neither model, and concepts that differ."""
    logits, concept, weight = models
    correct, _ = answers(0.3 - 0.5 * logits[:, 0], concept, by_concept=0.7)
    stack = fit_stack(logits, concept, correct, weight, CONCEPTS)
    slopes, intercepts = [0.0, 0.0], 0.0
    for row in range(len(correct)):
        z = float(stack.bias[concept[row]]) + sum(float(stack.slope[k] * logits[row, k]) for k in range(2))
        residual = float(weight[row]) * (int(correct[row]) - 1 / (1 + np.exp(-z)))
        intercepts += residual / len(correct)
        for k in range(2):
            slopes[k] += residual * float(logits[row, k]) / len(correct)
    assert max(abs(score) for score in (*slopes, intercepts)) < 1e-6


def test_a_right_model_among_wrong_ones_gets_the_weight_one(models: tuple[Tensor, Tensor, Tensor]) -> None:
    """Whatever the weights. A slope has a standard error of about 1 / sqrt(4000 x 0.2) = 0.035; weighted, of more."""
    logits, concept, weight = models
    correct, _ = answers(logits[:, 1], concept)
    for weights in (weight, torch.ones_like(weight), 1 / weight**2):
        stack = fit_stack(logits, concept, correct, weights, CONCEPTS)
        np.testing.assert_allclose(stack.slope, [0, 1], atol=0.2)
        assert stack.bias.abs().max() < 0.25


def test_right_weights_make_means_right_however_wrong_the_models_are() -> None:
    """Half of the cells are logged four times as often, and in those students do worse; the model knows nothing."""
    generator = torch.Generator().manual_seed(2)
    hard = torch.rand(40_000, generator=generator) < 0.5
    concept = torch.randint(2, (40_000,), generator=generator)
    success = torch.where(hard, 0.3, 0.9) - 0.1 * concept
    logged = torch.rand(40_000, generator=generator) < torch.where(hard, 0.8, 0.2)
    correct = (torch.rand(40_000, generator=generator) < success).long()
    useless = torch.randn(40_000, 1, generator=generator) + 1
    weight = torch.where(hard, 1.0, 4.0)
    said, of_concept, answer = useless[logged], concept[logged], correct[logged]
    targeted = fit_stack(said, of_concept, answer, weight[logged], 2)
    naive = fit_stack(said, of_concept, answer, torch.ones(len(answer)), 2)
    for one in (0, 1):
        of = concept == one
        true = float(success[of].mean())
        assert float(targeted(useless[of], concept[of]).sigmoid().mean()) == pytest.approx(true, abs=0.015)
        assert float(naive(useless[of], concept[of]).sigmoid().mean()) < true - 0.1


def test_concepts_are_shrunk_as_far_as_they_do_not_differ(models: tuple[Tensor, Tensor, Tensor]) -> None:
    logits, concept, weight = models
    alike, _ = answers(logits[:, 0], concept)
    differ, own = answers(logits[:, 0], concept, by_concept=1.5)
    assert fit_stack(logits, concept, alike, weight, CONCEPTS).bias.std() < 0.1
    found = fit_stack(logits, concept, differ, weight, CONCEPTS).bias
    # some 330 answers a concept, weighted: a standard error of 0.15 or so, and two of it
    np.testing.assert_allclose(found - found.mean(), own - own.mean(), atol=0.45)


def test_a_concept_without_answers_has_the_intercept_of_all(models: tuple[Tensor, Tensor, Tensor]) -> None:
    logits, concept, weight = models
    correct, _ = answers(1 + logits[:, 0], concept, by_concept=1.0)
    there = concept != 3
    stack = fit_stack(logits[there], concept[there], correct[there], weight[there], CONCEPTS)
    assert stack.bias.min() < stack.bias[3] < stack.bias.max()
    assert stack.bias[3] == pytest.approx(float(stack.bias.mean()), abs=0.5)


@pytest.mark.parametrize("rows", [0, 1, 2, 7])
def test_little_data_and_answers_that_can_be_told_apart_stay_finite(rows: int) -> None:
    generator = torch.Generator().manual_seed(0)
    logits = 10 * torch.randn(rows, 2, generator=generator)
    correct = (logits[:, 0] > 0).long()
    stack = fit_stack(logits, torch.zeros(rows, dtype=torch.long), correct, torch.ones(rows), CONCEPTS)
    assert stack.slope.isfinite().all()
    assert stack.bias.isfinite().all()
    if not rows:
        assert torch.equal(stack.slope, torch.tensor([0.5, 0.5])), "the mean of the models"


def test_students_drawn_anew_show_how_uncertain_a_stack_is() -> None:
    """The spread over draws is about the standard error of a slope of independent answers, 1 / sqrt(N p (1 - p) z²)."""
    generator = torch.Generator().manual_seed(4)
    logits = torch.randn(3000, 1, generator=generator)
    correct = (torch.rand(3000, generator=generator) < logits[:, 0].sigmoid()).long()
    student, ones = torch.arange(3000) // 10, torch.ones(3000)
    targeting = Targeting(logits, torch.zeros(3000, dtype=torch.long), correct, ones, student, 1)
    success = logits[:, 0].sigmoid()
    error = float((success * (1 - success) * logits[:, 0] ** 2).sum()) ** -0.5
    drawn = torch.stack([stack.slope for stack in targeting.drawn_anew(60, seed=0)])
    assert float(drawn.std()) == pytest.approx(error, rel=0.4)  # 4 standard errors of a deviation of 60 draws
    assert targeting.drawn_anew(2, seed=0)[1].slope == drawn[1]


def test_before_it_is_fitted_a_stack_is_the_mean() -> None:
    logits, concept = torch.tensor([[1.0, 3.0]]), torch.tensor([0])
    assert Stack.mean_of(2, 4)(logits, concept).tolist() == [2.0]
