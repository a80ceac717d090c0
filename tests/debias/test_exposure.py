import numpy as np
import pytest
import torch
from torch import Tensor

import tsdr
from tsdr import Sequences, build_backbone
from tsdr.debias.exposure import RandomExposureObjective, expose
from tsdr.simulator import Simulation
from tsdr.training.options import TrainingOptions
from tsdr.training.trainer import fit
from tsdr.truth import true_probability

TRAINING = TrainingOptions(device="cpu", max_epochs=4, learning_rate=0.02, stop_by="auc")


@pytest.fixture(scope="module")
def simulation() -> Simulation:
    return tsdr.simulate(gamma=0.8, students=300, questions=24, concepts=6, seed=2)


def targets(sequences: Sequences) -> Tensor:
    assert sequences.batch.target is not None
    return sequences.batch.target


def test_targets_are_uniform_and_answers_follow_the_truth(simulation: Simulation) -> None:
    sequences = Sequences.from_log(simulation.log)
    exposed = expose(sequences, simulation.truth, seed=1)
    batch, target, mask = exposed.batch, targets(exposed), exposed.batch.mask
    counts = np.bincount(target[mask].numpy(), minlength=6)
    expected = mask.sum().item() / 6
    assert (np.abs(counts - expected) < 5 * np.sqrt(expected)).all()
    chance = true_probability(sequences, simulation.truth).gather(1, target[mask][:, None])[:, 0].double()
    answers = batch.correct[mask].double()
    for low, high in ((0.0, 0.5), (0.5, 0.7), (0.7, 0.85), (0.85, 1.0)):
        band = (chance >= low) & (chance < high)
        error = float((chance * (1 - chance))[band].sum().sqrt())
        assert abs(float(answers[band].sum() - chance[band].sum())) < 5 * error
    for read in ("concept", "question", "response"):
        assert torch.equal(getattr(batch, read), getattr(sequences.batch, read)), "the histories stay as they were"


def test_the_same_seed_draws_the_same_and_selection_keeps_it(simulation: Simulation) -> None:
    sequences = Sequences.from_log(simulation.log)
    first, second, other = (expose(sequences, simulation.truth, seed) for seed in (1, 1, 2))
    assert torch.equal(first.batch.correct, second.batch.correct)
    assert not torch.equal(targets(first), targets(other))
    some = first.select(first.student[5:9])
    assert torch.equal(targets(some), targets(first)[5:9])


def test_it_learns_from_the_drawn_answers(simulation: Simulation) -> None:
    sequences = expose(Sequences.from_log(simulation.log, window=20), simulation.truth, seed=1)
    train, validation = sequences.select(sequences.student[:240]), sequences.select(sequences.student[240:])
    torch.manual_seed(0)
    model = build_backbone("dkt", n_concepts=6, n_questions=24, d=16)
    objective = RandomExposureObjective(model, TRAINING)
    epochs = fit(objective, train, validation, TRAINING)
    assert epochs[-1].loss < epochs[0].loss
    assert epochs[-1].best_score > 0.55
    assert objective.validate(validation) == pytest.approx(epochs[-1].best_score)
