import numpy as np
import pytest
import torch
from sklearn import metrics as sk
from torch import Tensor

import tsdr
from tsdr import InputError, Sequences
from tsdr.backbones.dkt import DKT
from tsdr.backbones.recurrent import States
from tsdr.judging.risk import true_risk
from tsdr.simulator import Simulation
from tsdr.truth import true_probability


@pytest.fixture(scope="module")
def simulation() -> Simulation:
    return tsdr.simulate(gamma=0.8, students=40, questions=24, concepts=6, seed=2)


@pytest.fixture(scope="module")
def sequences(simulation: Simulation) -> Sequences:
    return Sequences.from_log(simulation.log, window=15)


class Says(DKT):
    """A model that says what it is told, for every concept alike."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__(logits.shape[-1], 1)
        self.said = logits

    def answer_rows(self, history: States, concept: Tensor, question: Tensor | None, steps: Tensor) -> Tensor:
        return self.said[steps[0, 0] : steps[0, 0] + steps.shape[1]].expand(len(concept), -1, -1).gather(2, concept)


def test_the_truth_of_a_step_is_that_of_the_answer_that_it_is(simulation: Simulation, sequences: Sequences) -> None:
    probability = true_probability(sequences, simulation.truth)[sequences.batch.place]
    for row, student in enumerate(sequences.student):
        index = simulation.truth.student.tolist().index(student)
        length = int(simulation.truth.length[index])
        expected = simulation.truth.probability[index, max(0, length - 15) : length]
        np.testing.assert_array_equal(probability[row, : len(expected)], expected)


def test_a_model_that_knows_nothing_is_as_far_off_as_a_loop_says(simulation: Simulation, sequences: Sequences) -> None:
    said = torch.randn(15, 6, generator=torch.Generator().manual_seed(0))
    risk = true_risk(Says(said), sequences, simulation.truth, seed=3)
    entropy, squared, predicted, true = [], [], [], []
    probability = true_probability(sequences, simulation.truth)[sequences.batch.place].double()
    for row in range(len(sequences)):
        for step in range(1, 15):
            for concept in range(6):
                p, q = float(said[step, concept].double().sigmoid()), float(probability[row, step, concept])
                entropy.append(-q * np.log(p) - (1 - q) * np.log(1 - p))
                squared.append((p - q) ** 2)
                predicted.append(p)
                true.append(q)
    assert risk.metrics["true_bce"] == pytest.approx(np.mean(entropy), rel=1e-6)
    assert risk.metrics["true_rmse"] == pytest.approx(np.sqrt(np.mean(squared)), rel=1e-6)
    drawn = np.random.default_rng(3).random((len(true) // 6, 6)).ravel() < np.array(true)
    assert risk.metrics["true_auc"] == pytest.approx(sk.roc_auc_score(drawn, predicted))
    high = np.array(true) >= 0.8
    assert risk.bias["0.8 to 1"] == pytest.approx(np.mean((np.array(predicted) - true)[high]), rel=1e-6)
    assert sum(np.array(risk.by_student["cells"], float)) == len(true)
    assert sum(np.array(risk.by_student["true_bce"], float)) == pytest.approx(sum(entropy))
    assert sum(np.array(risk.by_student["true_squared_error"], float)) == pytest.approx(sum(squared))
    assert sum(np.array(risk.by_student["true_auc_influence"], float)) == pytest.approx(
        0, abs=1e-7
    )  # rounded to seven digits


def test_a_truth_of_another_simulation_is_refused(sequences: Sequences) -> None:
    with pytest.raises(InputError, match="different simulations"):
        true_probability(sequences, tsdr.simulate(students=5, questions=24, concepts=6).truth)
