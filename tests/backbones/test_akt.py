import torch

from conftest import random_batch
from tsdr import build_backbone
from tsdr.backbones.akt import AKT


def test_the_penalty_is_that_of_the_batchs_difficulties() -> None:
    model = build_backbone("akt", n_concepts=11, n_questions=13, d=16)
    assert isinstance(model, AKT)
    torch.nn.init.normal_(model.target.difficulty.weight)
    batch = random_batch()
    difficulty = model.target.difficulty.weight.detach()
    expected = sum(
        float(difficulty[int(batch.question[i, j]), 0]) ** 2 for i in range(4) for j in range(9) if batch.mask[i, j]
    )
    torch.testing.assert_close(model.penalty(batch), torch.tensor(1e-5 * expected))


def test_difficulty_enters_targets_and_answers_only_once_it_is_learned() -> None:
    model = build_backbone("akt", n_concepts=11, n_questions=13, d=16).eval()
    assert isinstance(model, AKT)
    batch = random_batch()
    concept, question, correct = batch.concept, batch.question, batch.correct
    start = model.interaction(concept, question, correct)
    torch.testing.assert_close(start, model.target.concept(concept) + model.answered(correct))
    torch.nn.init.normal_(model.target.difficulty.weight)
    mu = model.target.difficulty.weight[question]
    variation = model.answered_variation(correct) + model.target.variation(concept)
    torch.testing.assert_close(model.interaction(concept, question, correct), start + mu * variation)
