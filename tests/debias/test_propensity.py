import numpy as np
import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from tsdr.debias.propensity import ConceptQuestions, Propensity
from tsdr.debias.weights import density_ratio
from tsdr.sequences import Batch

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


def test_the_frequency_of_a_question_is_its_share_of_its_concept() -> None:
    concept = torch.tensor([[0, 0, 0, 0, 0, 1], [2, 2, 2, 0, 0, 0]])
    question = torch.tensor([[0, 0, 0, 0, 1, 2], [3, 3, 0, 9, 9, 9]])
    mask = torch.tensor([[True] * 6, [True] * 3 + [False] * 3])
    batch = Batch.of_answers(concept, question, torch.zeros_like(concept), mask)
    questions = ConceptQuestions(batch.events().pairs(), n_concepts=3, n_questions=10)
    # with the prior of 2: concept 0 has questions 0 (4 + 2) and 1 (1 + 2), their average is 4.5
    asked = torch.tensor([[0, 0, 1, 2, 2, 1, 0]]), torch.tensor([[0, 1, 2, 3, 0, 7, -1]])
    expected = [6 / 4.5, 3 / 4.5, 1, 4 / 3.5, 3 / 3.5, 1, 1]
    np.testing.assert_allclose(questions.frequency(*asked)[0], expected, rtol=1e-6)


def test_weights_by_question_undo_a_selection_of_questions() -> None:
    """One concept, two questions: right in 90 % and in 30 %, the first logged nine times as often."""
    generator = torch.Generator().manual_seed(0)
    question = (torch.rand(400, 50, generator=generator) < 0.1).long()
    correct = (torch.rand(400, 50, generator=generator) < torch.tensor([0.9, 0.3])[question]).long()
    concept = torch.zeros_like(question)
    mask = torch.ones_like(question, dtype=torch.bool)
    questions = ConceptQuestions(Batch.of_answers(concept, question, correct, mask).events().pairs(), 1, 2)
    exposure = questions.frequency(concept, question)
    weight = density_ratio(exposure, mask, (0.01, 100), self_normalise=True).value
    # 2,000 answers to the rare question: the weighted mean has a standard error of about 0.006
    assert float((weight * correct).mean()) == pytest.approx(0.6, abs=0.025)
    assert float(correct.float().mean()) == pytest.approx(0.84, abs=0.02)
