"""Whole histories, from a log to a model: what is in view is one thing, and what counts another."""

from pathlib import Path

import numpy as np
import pytest

import tsdr
from tsdr import InputError
from tsdr.judging.crossval import run_fold
from tsdr.judging.experiment import Experiment, View, plan_folds
from tsdr.records.folder import RecordFolder
from tsdr.records.run import Record
from tsdr.simulator import Simulation
from tsdr.training.options import TrainingOptions

QUICK = TrainingOptions(device="cpu", max_epochs=3, seed=3)


@pytest.fixture(scope="module")
def simulation() -> Simulation:
    return tsdr.simulate(gamma=0.8, students=120, questions=30, concepts=5, seed=3)


def judged(simulation: Simulation, folder: Path, window: object, method: str, backbone: str = "dkt") -> Record:
    experiment = Experiment.of_log(
        "simulated",
        simulation.log,
        RecordFolder(folder),
        simulation=simulation,
        folds=2,
        view=View(window, scored=29, learned="all"),  # type: ignore[arg-type]
    )
    return run_fold(experiment, plan_folds(experiment, backbone=backbone, training=QUICK, method=method)[0])


@pytest.mark.parametrize("method", ["naive", "tsdr", "tsdr-own", "random-exposure"])
def test_windows_are_judged_by_the_same_answers(simulation: Simulation, tmp_path: Path, method: str) -> None:
    short, whole = (judged(simulation, tmp_path, window, method) for window in (30, "all"))
    assert short.by_student is not None
    assert whole.by_student is not None
    for name in ("student", "answers", "cells"):
        assert short.by_student[name] == whole.by_student[name]
    assert short.options["window"] == 30
    assert (short.options["learned"], whole.options["window"], whole.options["scored"]) == ("all", "all", 29)
    assert short.file_name() != whole.file_name()


def test_counts_knows_more_of_the_same_answers_from_whole_histories(simulation: Simulation, tmp_path: Path) -> None:
    short, whole = (judged(simulation, tmp_path, window, "naive", "counts") for window in (30, "all"))
    less, more = (np.array((record.by_student or {})["true_bce"], float) for record in (short, whole))
    gain = less - more
    assert gain.mean() > 2 * gain.std() / np.sqrt(len(gain))


def test_a_model_of_whole_histories_is_fitted_saved_and_asked(simulation: Simulation, tmp_path: Path) -> None:
    model = tsdr.fit(simulation.log, backbone="dkt", method="naive", window="all", training=QUICK)
    model.save(tmp_path / "bundle")
    again = tsdr.load(tmp_path / "bundle")
    assert again.window == "all"
    predicted = again.predict_log(simulation.log)["success"]
    assert predicted.null_count() == 0
    with pytest.raises(InputError, match="counts, dkt"):
        tsdr.fit(simulation.log, backbone="simplekt", window="all", training=QUICK)


def test_a_diagnosis_follows_the_window_of_the_model(simulation: Simulation) -> None:
    model = tsdr.fit(simulation.log, backbone="counts", method="naive", window="all", training=QUICK)
    found = tsdr.diagnose(simulation.log, model)
    assert found.subject.window == "all"
    assert found.subject.answers == len(simulation.log)
