import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

import tsdr
from tsdr import Sequences
from tsdr.debias.building import new_objective
from tsdr.debias.objective import JointObjective
from tsdr.judging.bound import bound_terms
from tsdr.methods import options_of
from tsdr.simulator import Simulation
from tsdr.training.epoch import Epoch
from tsdr.training.options import TrainingOptions
from tsdr.training.trainer import fit
from tsdr.truth import true_probability, true_propensity

TRAINING = TrainingOptions(device="cpu", max_epochs=3, learning_rate=0.01)


@pytest.fixture(scope="module")
def simulation() -> Simulation:
    return tsdr.simulate(gamma=0.8, students=60, questions=24, concepts=6, seed=2)


@pytest.fixture(scope="module")
def sequences(simulation: Simulation) -> Sequences:
    return Sequences.from_log(simulation.log, window=10)


def test_the_true_propensity_of_a_step_sums_to_one(simulation: Simulation, sequences: Sequences) -> None:
    total = true_propensity(sequences, simulation.truth).sum(1)
    np.testing.assert_allclose(total, 1, atol=1e-5)


@pytest.mark.parametrize("method", ["naive", "tsdr-unweighted", "tsdr", "tsdr-own"])
def test_the_terms_are_what_a_loop_over_cells_says(method: str, simulation: Simulation, sequences: Sequences) -> None:
    options = options_of(method)
    objective = new_objective("dkt", sequences, {"d": 8}, TRAINING, options, sequences)
    assert isinstance(objective, JointObjective)
    for batch in sequences.batches(16, torch.Generator().manual_seed(0)):
        objective.step(batch)
    terms = bound_terms(objective, sequences, simulation.truth, seed=5)

    true, propensity = (f(sequences, simulation.truth) for f in (true_probability, true_propensity))
    batch = sequences.batch
    answers = torch.bernoulli(true, generator=torch.Generator().manual_seed(5))[batch.place]
    propensity = propensity[batch.place]
    every = torch.arange(6).expand(*batch.mask.shape, -1)
    with torch.no_grad():
        history = objective.model.eval().encode(batch)
        success = objective.model.answer(history, every).double().sigmoid()
        state = objective.model.summary(history)
        teacher = objective.imputation
        pseudo = teacher.answer(teacher.encode(batch), every).double().sigmoid() if teacher else None
    bias, spread, cells = 0.0, 0.0, 0
    for i in range(len(sequences)):
        for t in range(1, 10):
            if not batch.mask[i, t]:
                continue
            for c in range(6):
                r, p, hat = float(answers[i, t, c]), float(propensity[i, t, c]), float(success[i, t, c])
                error = -r * math.log(hat) - (1 - r) * math.log(1 - hat)
                imputed = 0.0
                if pseudo is not None:
                    told = float(pseudo[i, t, c])
                    imputed = -told * math.log(hat) - (1 - told) * math.log(1 - hat)
                weight = 1.0
                if objective.propensity is not None:
                    estimated = objective.propensity(state[i : i + 1, t : t + 1], torch.tensor([[c]]))
                    weight = min(2.0, max(0.5, 1 / (6 * float(estimated.detach()))))
                bias += abs((1 - p * 6 * weight) * (error - imputed))
                spread += ((error - imputed) * 6 * weight) ** 2
                cells += 1
    assert terms["bias_term"] == pytest.approx(bias / cells, rel=1e-4)
    assert terms["variance_term"] == pytest.approx(math.sqrt(math.log(2 / 0.05) / 2 * spread) / cells, rel=1e-4)
    assert ("smoothness" in terms) == (method == "tsdr-own"), "it is of the imputation model that learns along"


def test_watching_does_not_change_what_is_learned(simulation: Simulation, sequences: Sequences) -> None:
    train, held_out = sequences.select(sequences.student[:40]), sequences.select(sequences.student[40:])

    def run(watched: bool) -> list[Epoch]:
        options = options_of("tsdr", imputation="both")
        objective = new_objective("simplekt", train, {"d": 16}, TRAINING, options, held_out)
        assert isinstance(objective, JointObjective)
        watch: Callable[[], dict[str, float]] = dict
        if watched:
            watch = lambda: bound_terms(objective, held_out, simulation.truth)  # noqa: E731
        return fit(objective, train, held_out, TRAINING, watch=watch)

    watched, plain = run(True), run(False)
    assert [epoch.loss for epoch in watched] == [epoch.loss for epoch in plain]
    assert all(epoch.watched["complexity"] > 0 for epoch in watched)
    assert [epoch.watched for epoch in plain] == [{}, {}, {}]
