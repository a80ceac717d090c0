"""The best possible predictor: against brute force, calibrated, and not to be passed."""

from itertools import product

import numpy as np
import polars as pl
import pytest
import torch

import tsdr
from tsdr import InputError, Population, Recommender, Sequences, Simulation
from tsdr.backbones.counts import Counts
from tsdr.judging.limit import limit
from tsdr.judging.risk import over_all_cells
from tsdr.simulator import success_probability
from tsdr.truth import true_probability


@pytest.fixture(scope="module")
def simulation() -> Simulation:
    return tsdr.simulate(0.8, students=600, questions=40, concepts=5, seed=4)


@pytest.fixture(scope="module")
def sequences(simulation: Simulation) -> Sequences:
    return Sequences.from_log(simulation.log, window=30)


def entropy(said: np.ndarray, true: np.ndarray) -> np.ndarray:
    said = np.clip(said, 1e-9, 1 - 1e-9)
    return -(true * np.log(said) + (1 - true) * np.log(1 - said))


def test_the_posterior_is_that_of_students_who_happen_to_answer_alike() -> None:
    """A million masteries drawn, and those kept that would have given the student's answers."""
    simulation = tsdr.simulate(0.0, students=3, questions=6, concepts=2, seed=1, population=Population(answers=(6, 6)))
    sequences = Sequences.from_log(simulation.log)
    found = limit(simulation, sequences)
    truth, population = simulation.truth, simulation.truth.population
    code = {name: i for i, name in enumerate(truth.bank.question.tolist())}
    rng = np.random.default_rng(0)
    for row, student in enumerate(sequences.student):
        mastery = rng.beta(*population.initial_mastery, size=(2, 1_000_000))
        kept = np.ones(mastery.shape[1], bool)
        answers = simulation.log.frame.filter(pl.col("student") == student).iter_rows(named=True)
        for step, answer in enumerate(answers):
            question = code[answer["question"]]
            for concept in range(2 if step else 0):  # nothing is scored before the first answer
                of = truth.bank.difficulty[truth.bank.concept == concept]
                mean = success_probability(mastery[concept][kept][:, None], of, population).mean()
                error = 4 * 0.5 / np.sqrt(kept.sum())
                assert abs(found.success[5 * row + step - 1, concept] - mean) < error
            concept = truth.bank.concept[question]
            success = success_probability(mastery[concept], truth.bank.difficulty[question], population)
            kept &= (rng.random(len(success)) < success) == bool(answer["correct"])
            mastery[concept] += answer["correct"] * population.learning_rate * (1 - mastery[concept])
        assert kept.sum() > 500


@pytest.mark.parametrize("skips", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_what_it_says_is_what_is_true_on_average(
    simulation: Simulation, sequences: Sequences, whole: bool, skips: bool
) -> None:
    """Among cells that it gives about as much, the mean truth is as much: within 4 standard errors over students."""
    student = sequences.student_of_scored().numpy()
    said = limit(simulation, sequences, whole=whole, skips=skips).success
    true = true_probability(sequences, simulation.truth)[sequences.scored].numpy().astype(float)
    for low in (0.3, 0.45, 0.6, 0.7, 0.8, 0.9):
        band = (said >= low) & (said < low + 0.1)
        off = np.bincount(student, ((true - said) * band).sum(1))
        error = np.sqrt((off**2).sum())
        # The stages at which windows begin are few, and nodes are means of several students: hence the allowance.
        allowed = 4 * error + (0.0 if whole else 0.005 * band.sum())
        assert abs(off.sum()) < allowed, low


def test_more_evidence_is_not_worse(simulation: Simulation, sequences: Sequences) -> None:
    student = sequences.student_of_scored().numpy()
    true = true_probability(sequences, simulation.truth)[sequences.scored].numpy().astype(float)
    risk = {}
    for whole, skips in product((False, True), repeat=2):
        said = limit(simulation, sequences, whole=whole, skips=skips).success
        risk[whole, skips] = np.bincount(student, entropy(said, true).mean(1))
    for less, more in (((False, False), (False, True)), ((False, False), (True, False)), ((True, False), (True, True))):
        gain = risk[less] - risk[more]
        assert gain.mean() > -2 * gain.std() / np.sqrt(len(gain)), (less, more)
    assert risk[False, False].mean() > 1.01 * risk[True, False].mean(), "half of the answers are worth something"


@pytest.mark.parametrize(("window", "allowed"), [(200, 0.0), (30, 0.001)])
def test_nothing_trained_is_better(simulation: Simulation, window: int, allowed: float) -> None:
    """Not the strongest model that we have, though it was trained on these very students.

    With whole histories: not at all. A window starts from the population's mastery at one of a few stages, and a model
    may tell them apart more finely: so it may be ahead, by a tenth of a percent.
    """
    sequences = Sequences.from_log(simulation.log, window=window)
    torch.manual_seed(0)
    model = Counts(5, 40)
    model.prepare(sequences)
    true = true_probability(sequences, simulation.truth)[sequences.scored].numpy().astype(float)
    best = entropy(limit(simulation, sequences).success, true).mean()
    assert entropy(over_all_cells(model, sequences), true).mean() > (1 - allowed) * best


def test_a_recommender_that_goes_by_the_history_has_a_limit_and_one_that_knows_the_truth_has_none() -> None:
    drawn = {
        estimate: tsdr.simulate(
            0.0,
            students=40,
            questions=20,
            concepts=4,
            recommender=Recommender(estimate=estimate),
        )
        for estimate in ("history", "truth")
    }
    assert limit(drawn["history"], Sequences.from_log(drawn["history"].log)).success.max() < 1
    with pytest.raises(InputError, match="no limit"):
        limit(drawn["truth"], Sequences.from_log(drawn["truth"].log))
