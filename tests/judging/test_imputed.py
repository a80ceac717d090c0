"""What is imputed against the truth, and what is wrong on purpose."""

from pathlib import Path

import numpy as np
import pytest
import torch

import tsdr
from tsdr import InputError, Sequences, TrainingOptions
from tsdr.backbones.counts import Counts
from tsdr.debias.building import new_objective
from tsdr.debias.crippled import SHIFT
from tsdr.debias.objective import JointObjective
from tsdr.experiments.logs import Simulated
from tsdr.judging.crossval import run_fold
from tsdr.judging.experiment import plan_folds
from tsdr.judging.imputed import mean_errors
from tsdr.methods import options_of
from tsdr.records.folder import RecordFolder
from tsdr.simulator import Simulation
from tsdr.truth import true_probability, with_known_exposure

TRAINING = TrainingOptions(device="cpu", max_epochs=1)


@pytest.fixture(scope="module")
def simulation() -> Simulation:
    return tsdr.simulate(0.8, students=240, questions=60, concepts=5, seed=4)


@pytest.fixture(scope="module")
def sequences(simulation: Simulation) -> Sequences:
    return Sequences.from_log(simulation.log)


def targeted(sequences: Sequences, simulation: Simulation, **changes: object) -> JointObjective:
    """Targeted with known exposure, hardly clipped, and not trained."""
    known = with_known_exposure(sequences, simulation, upside_down=changes.get("propensities") == "wrong")
    options = options_of("tsdr", **{"clip": (0.01, 100.0), "propensities": "true", **changes})
    objective = new_objective("dkt", known, {"d": 8}, TRAINING, options)
    assert isinstance(objective, JointObjective)
    objective.begin_epoch()
    return objective


def test_errors_are_those_of_a_loop_over_cells(sequences: Sequences, simulation: Simulation) -> None:
    few = sequences.select(sequences.student[:60])
    objective = targeted(sequences, simulation)
    found = mean_errors(objective, few, simulation.truth)
    imputation, batch = objective.imputation, few.batch
    assert imputation is not None
    every = torch.arange(5).expand(*batch.mask.shape, -1)
    pseudo = imputation.answer(imputation.encode(batch), every).sigmoid()
    true = true_probability(few, simulation.truth)[batch.place]
    logged, imputed = [], []
    for c in range(5):
        cells = [(i, t) for i in range(60) for t in range(1, batch.mask.shape[1]) if batch.mask[i, t]]
        truth = np.mean([float(true[i, t, c]) for i, t in cells])
        answers = [float(batch.correct[i, t]) for i, t in cells if batch.concept[i, t] == c]
        logged.append(np.mean(answers) - truth)
        imputed.append(np.mean([float(pseudo[i, t, c]) for i, t in cells]) - truth)
    for name, errors in (("logged", logged), ("imputed", imputed)):
        assert found[f"{name}_mean_error"] == pytest.approx(np.sqrt(np.mean(np.square(errors))), rel=1e-4)
        assert found[f"{name}_mean_bias"] == pytest.approx(np.mean(errors), rel=1e-4, abs=1e-6)


def test_means_are_right_if_propensities_or_imputation_are() -> None:
    """Three standard errors, as drawing students anew has them; with both wrong the means are off by more."""
    simulation = tsdr.simulate(0.8, students=600, questions=60, concepts=5, seed=4)
    sequences = Sequences.from_log(simulation.log)
    both_right = mean_errors(targeted(sequences, simulation), sequences, simulation.truth)
    crippled = mean_errors(targeted(sequences, simulation, crippled=True), sequences, simulation.truth)
    both_wrong = mean_errors(
        targeted(sequences, simulation, crippled=True, propensities="wrong"), sequences, simulation.truth
    )
    assert abs(both_right["imputed_mean_bias"]) < 3 * both_right["imputed_mean_bias_noise"]
    assert abs(crippled["imputed_mean_bias"]) < 3 * crippled["imputed_mean_bias_noise"]
    assert abs(both_wrong["imputed_mean_bias"]) > 4 * both_wrong["imputed_mean_bias_noise"]
    assert both_wrong["imputed_mean_error"] > 2 * crippled["imputed_mean_error"]


def test_without_targeting_a_crippled_imputation_stays_wrong(sequences: Sequences, simulation: Simulation) -> None:
    plain = targeted(sequences, simulation, crippled=True, targeted=False)
    found = mean_errors(plain, sequences, simulation.truth)
    assert found["imputed_mean_bias"] > 0.05, "one logit too much"
    assert "imputed_mean_noise" not in found


def test_what_is_crippled_learned_nothing_and_says_too_much(sequences: Sequences, simulation: Simulation) -> None:
    imputation = targeted(sequences, simulation, crippled=True).imputation
    assert imputation is not None
    (counts,) = imputation.fitted
    assert isinstance(counts, Counts)
    of_questions = counts.question.weight.abs().max()
    assert of_questions < 0.3, "answers that were dealt out anew say nothing of questions"
    batch = sequences.batch
    said = imputation.of_observed(imputation.encode(batch), batch)[..., 0]
    torch.testing.assert_close(said, counts(batch) + SHIFT, atol=1e-4, rtol=0)
    again = imputation.lesson(batch)
    assert int(again.correct.sum()) == int(batch.correct.sum())
    assert torch.equal(again.response, batch.response)
    assert not torch.equal(again.correct, batch.correct)
    assert not again.correct[~batch.mask].any(), "padding stays as it was"


def test_records_tell_of_it_and_known_propensities_take_a_simulated_log(tmp_path: Path) -> None:
    log = Simulated(0.0, 90, 20, 4, recommended=True)
    tested = log.experiment(RecordFolder(tmp_path), 2, 1)
    training = TRAINING.model_copy(update={"seed": 1})
    planned = plan_folds(
        tested, backbone="dkt", options={"d": 8}, training=training, method="tsdr:propensities=wrong:crippled=true"
    )
    record = run_fold(tested, planned[0])
    assert record.metrics["imputed_mean_error"] > 0
    assert record.dataset == "recommended-gamma0-90x20x4"
    with pytest.raises(InputError, match="takes a simulated log"):
        tsdr.fit(tsdr.simulate(students=60, questions=10, concepts=3).log, method="tsdr:propensities=true")
