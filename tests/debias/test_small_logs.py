"""Where there are few students, debiasing must not do harm."""

import pytest

import tsdr
from tsdr import Folds, Sequences, TrainingOptions
from tsdr.debias.building import new_objective
from tsdr.judging.risk import true_risk
from tsdr.methods import options_of
from tsdr.training.trainer import fit

MARGIN = 0.005  # by two of these logs tsdr was 0.012 and 0.023 behind, when three students could target the imputation


@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5])
def test_tsdr_is_not_behind_naive_on_a_small_log(seed: int) -> None:
    simulation = tsdr.simulate(gamma=0.8, students=60, questions=40, concepts=6, seed=seed)
    sequences = Sequences.from_log(simulation.log)
    split = Folds.by_student(sequences.student, 2, seed=1)[0]
    train, validation, test = (sequences.select(part) for part in (split.train, split.validation, split.test))
    training = TrainingOptions(device="cpu", max_epochs=40)
    risk = {}
    for method in ("naive", "tsdr"):
        objective = new_objective("dkt", train, {}, training, options_of(method), validation)
        fit(objective, train, validation, training)
        risk[method] = true_risk(objective.model, test, simulation.truth).metrics["true_bce"]
    assert risk["tsdr"] < risk["naive"] + MARGIN
