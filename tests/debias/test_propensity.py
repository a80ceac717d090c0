import numpy as np
import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from tsdr.debias.propensity import Propensity

D, CONCEPTS = 6, 40


@pytest.fixture
def drawn() -> tuple[Propensity, torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    model = Propensity(D, CONCEPTS)
    torch.nn.init.normal_(model.output.weight)
    state, concept = torch.randn(3, 7, D), torch.randint(CONCEPTS, (3, 7))
    return model, state, concept, torch.rand(3, 7) < 0.7


def test_it_starts_uniform() -> None:
    for kind in ("bernoulli", "categorical"):
        model = Propensity(D, CONCEPTS, kind)
        p = model(torch.randn(2, 3, D), torch.randint(CONCEPTS, (2, 3)))
        torch.testing.assert_close(p, torch.full((2, 3), 1 / CONCEPTS))


def test_the_loss_is_cross_entropy_with_every_unlogged_concept_as_a_negative(
    drawn: tuple[Propensity, torch.Tensor, torch.Tensor, torch.Tensor],
) -> None:
    model, state, concept, scored = drawn
    losses = []
    for student in range(3):
        for step in range(7):
            if scored[student, step]:
                logits = model.output(state[student, step])
                label = torch.zeros(CONCEPTS)
                label[concept[student, step]] = 1
                losses.append(float(binary_cross_entropy_with_logits(logits, label).detach()))
    assert float(model.loss(state, concept, scored, "all").detach()) == pytest.approx(np.mean(losses), rel=1e-5)


def test_drawn_negatives_give_the_same_loss_and_gradient_on_average(
    drawn: tuple[Propensity, torch.Tensor, torch.Tensor, torch.Tensor],
) -> None:
    """4 standard errors of 3,000 draws leave a false alarm once in 16,000."""
    model, state, concept, scored = drawn
    exact = model.loss(state, concept, scored, "all")
    (gradient,) = torch.autograd.grad(exact, model.output.bias)
    losses, gradients = [], []
    for _ in range(3000):
        loss = model.loss(state, concept, scored, 5)
        losses.append(float(loss.detach()))
        gradients.append(torch.autograd.grad(loss, model.output.bias)[0].sum().item())
    for draws, expected in ((losses, float(exact.detach())), (gradients, float(gradient.sum()))):
        assert abs(np.mean(draws) - expected) < 4 * np.std(draws) / np.sqrt(len(draws))


def test_the_categorical_kind_sums_to_one_and_learns_who_is_logged() -> None:
    torch.manual_seed(0)
    for kind in ("bernoulli", "categorical"):
        model = Propensity(D, 4, kind)
        state = torch.randn(8, 50, D)
        concept = (state[..., 0] > 0).long() + 2 * (state[..., 1] > 0).long()
        scored = torch.ones(8, 50, dtype=torch.bool)
        optimiser = torch.optim.Adam(model.parameters(), lr=0.1)
        for _ in range(150):
            optimiser.zero_grad()
            model.loss(state, concept, scored, "all").backward()
            optimiser.step()
        # a linear sigmoid cannot cut out a quadrant, so 1 is out of its reach; chance is 0.25
        assert model(state, concept).mean() > 0.6
        total = sum(model(state, torch.full((8, 50), c)) for c in range(4))
        assert isinstance(total, torch.Tensor)
        if kind == "categorical":
            torch.testing.assert_close(total, torch.ones(8, 50))
