from dataclasses import replace

import numpy as np
import pytest
import torch

import tsdr
from conftest import random_batch
from tsdr import Batch, Folds, Population, Recommender, Sequences, Vocabulary
from tsdr.diagnosis.selection import (
    PRIORS,
    CalibrationCount,
    SelectionModel,
    at_observed,
    calibration,
    fit_selection,
    marginal_frequency,
    marginal_log_loss,
)
from tsdr.sequences import SKIPPED


@pytest.fixture(params=[False, True], ids=["answers", "skips"])
def skips(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def model(skips: bool) -> SelectionModel:
    torch.manual_seed(0)
    model = SelectionModel(torch.full((11,), 1 / 11), skips=skips).eval()
    for parameter in model.parameters():  # it starts from the marginal: make every part of it speak
        torch.nn.init.normal_(parameter, std=0.5)
    return model


def told(skips: bool, concepts: int = 11) -> Batch:
    """Random interactions, some of which are offers that were skipped; every step but the first is scored."""
    batch = random_batch(concepts=concepts)
    skipped = torch.rand(batch.mask.shape, generator=torch.Generator().manual_seed(1)) < 0.4 * skips
    return replace(batch, response=batch.response.masked_fill(skipped, SKIPPED))


def test_the_chances_of_a_step_come_from_the_interactions_before_it(model: SelectionModel, skips: bool) -> None:
    batch = told(skips)
    steps = batch.mask.shape[1]
    first = model(batch)[: steps - 1]  # of the first student, who has an interaction at every step
    assert torch.allclose(first.exp().sum(1), torch.ones(steps - 1))
    for step in range(steps):
        for changed, kinds in (("concept", 11), ("response", model.responses)):
            other = getattr(batch, changed).clone()
            other[0, step] = (other[0, step] + 1) % kinds
            moved = (model(replace(batch, **{changed: other}))[: steps - 1] != first).any(1)
            assert not moved[:step].any(), "rows 1 to `step` must not see interaction `step`"
            assert moved[step:].all()


def test_a_concepts_own_record_is_what_a_loop_finds(model: SelectionModel, skips: bool) -> None:
    batch = told(skips, concepts=3)
    torch.nn.init.zeros_(model.output.weight)
    found = model(batch)
    logits = []
    for row in range(len(batch)):
        for step in range(1, int(batch.mask[row].sum())):
            of_step = model.output.bias.clone()
            for concept in range(11):
                met = [s for s in range(step) if batch.concept[row, s] == concept]
                if met:
                    responses = [int(batch.response[row, s]) for s in met]
                    record = model.counts[responses.count(1), responses.count(0)]
                    of_step[concept] += record + model.since[step - met[-1], responses[-1]]
            logits.append(of_step.log_softmax(0))
    assert torch.allclose(found, torch.stack(logits), atol=1e-5)


def test_it_starts_from_the_marginal_frequencies() -> None:
    frequency = torch.tensor([0.7, 0.2, 0.1])
    fresh = SelectionModel(frequency).eval()
    assert torch.allclose(fresh(random_batch(concepts=3)).exp(), frequency.expand(1, -1), atol=1e-6)


def test_the_marginal_is_smoothed_as_validation_students_ask_for() -> None:
    """Where they meet what no training student met, much; where they meet the same, little."""
    batch = random_batch(concepts=2)
    train = Sequences.of_batch(batch, ("a", "b", "c", "d"), Vocabulary(("x", "y", "z"), ("q",)))
    other = replace(train, events=replace(train.events, concept=torch.full_like(train.answers.concept, 2)))
    same, new = marginal_frequency(train, train), marginal_frequency(train, other)
    answers = int(batch.mask.sum())
    assert float(same[2]) == pytest.approx(min(PRIORS) / (answers + 3 * min(PRIORS)), rel=1e-5)
    assert float(new[2]) == pytest.approx(max(PRIORS) / (answers + 3 * max(PRIORS)), rel=1e-5)


def test_calibration_is_what_a_loop_over_cells_finds() -> None:
    count = CalibrationCount(4)
    propensity = torch.tensor([[0.7, 0.2, 0.05, 0.05], [0.1, 0.2, 0.3, 0.4], [0.25, 0.25, 0.4, 0.1]])
    logged = torch.tensor([0, 3, 0])
    count.add(propensity[:2], logged[:2])
    count.add(propensity[2:], logged[2:])
    found = count.result()
    # |C| p̂ falls into (0.1, 0.3]: two cells of 0.2; (0.3, 0.6]: two of 0.4; (0.6, 1]: 0.8, 0.8 and 1, 1;
    # (1, 1.6]: 1.2, 1.6 and 1.6; (1.6, 3]: 2.8
    np.testing.assert_allclose(found.cells, [2, 2, 4, 3, 1])
    np.testing.assert_allclose(found.predicted, [0.2, 0.4, 0.9, 4.4 / 3, 2.8], rtol=1e-5)
    np.testing.assert_allclose(found.logged, [0, 0, 1, 4 / 3, 4], rtol=1e-5)
    off = abs(0.1) + abs(0.2) + abs(0.9 - 1) + abs(1.1 - 1) + abs(0.7 - 1)
    assert found.error == pytest.approx(off / 3, rel=1e-5)


def test_it_finds_a_recommender_and_nothing_in_a_log_without_selection() -> None:
    gains = {}
    for name, recommender in (("recommended", Recommender()), ("popular", None)):
        log = tsdr.simulate(
            0.0, 120, 40, 8, recommender=recommender, population=Population(answers=(20, 25)), seed=3
        ).log
        sequences = Sequences.from_log(log, window=25)
        split = Folds.by_student(sequences.student, 3, seed=1)[0]
        train, validation, test = (sequences.select(part) for part in (split.train, split.validation, split.test))
        fitted = fit_selection(train, validation)
        gains[name] = float((marginal_log_loss(fitted, test) + at_observed(fitted, test)).mean())
        assert calibration(fitted, test).error < 0.3
    # One standard error of either gain is about 0.02 and 0.002; the recommender's true policy gains 0.5 or so.
    assert gains["recommended"] > 0.1
    assert gains["popular"] < 0.01
