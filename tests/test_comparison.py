"""The one path in Python, and that the command line takes the same."""

import fcntl
import inspect
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

import tsdr
from tsdr import InputError, TrainingOptions
from tsdr.cli import models
from tsdr.comparison import compare
from tsdr.diagnosis.findings import Diagnosis

TRAINING = TrainingOptions(max_epochs=2, device="cpu")
SMALL = {"d": 8}


@pytest.fixture(scope="module")
def simulation() -> tsdr.Simulation:
    return tsdr.simulate(0.8, students=60, questions=20, concepts=4)


def test_one_model_goes_from_training_to_disk_to_answers(simulation: tsdr.Simulation, tmp_path: Path) -> None:
    model = tsdr.fit(simulation.log, backbone="dkt", options=SMALL, window=10, training=TRAINING)
    found = tsdr.diagnose(simulation.log, model)
    assert isinstance(found, Diagnosis)
    assert found.subject.own_model
    model.with_diagnosis(found.model_dump(mode="json")).save(tmp_path / "model")
    loaded = tsdr.load(tmp_path / "model")
    assert isinstance(model, tsdr.Model)
    assert isinstance(loaded, tsdr.Model)
    assert loaded.bundle.diagnosis == found.model_dump(mode="json")
    assert loaded.predict_log(simulation.log).equals(model.predict_log(simulation.log))
    assert model.session().mastery() == loaded.session().mastery()
    model.save(tmp_path / "model")
    assert tsdr.load(tmp_path / "model").bundle.diagnosis is None, "a diagnosis of another model does not stay behind"


def test_methods_are_compared_once_and_shown(simulation: tsdr.Simulation, tmp_path: Path) -> None:
    shared = {"backbone": "dkt", "options": SMALL, "folds": 2, "window": 10, "training": TRAINING, "out": tmp_path}
    found = compare(simulation, **shared)  # type: ignore[arg-type]
    assert len(found.records) == 2 * (2 + 4 + 1 + 2), "means, limits, counts, and two methods"
    assert {str(record.method) for record in found.records} == {"baseline", "naive", "tsdr"}
    assert {record.dataset for record in found.records} == {"simulated-gamma0.8"}
    assert all(record.has_truth for record in found.records)
    again = compare(simulation, methods=["tsdr"], **shared)  # type: ignore[arg-type]
    assert again.records == [
        record for record in found.records if (record.backbone, str(record.method)) != ("dkt", "naive")
    ]
    console = Console(record=True, width=140)
    found.show(console)
    shown = console.export_text()
    for part in ("counts", "true_bce", "change against naive", "best possible"):
        assert part in shown


def test_several_workers_come_to_the_same_numbers(simulation: tsdr.Simulation, tmp_path: Path) -> None:
    shared = {"backbone": "dkt", "methods": ["naive"], "options": SMALL, "folds": 2, "training": TRAINING}
    console = Console(record=True, width=140)
    alone = compare(simulation, out=tmp_path / "alone", **shared)  # type: ignore[arg-type]
    found = compare(simulation, out=tmp_path / "two", workers=2, console=console, **shared)  # type: ignore[arg-type]
    assert {record.file_name(): record.metrics for record in found.records} == {
        record.file_name(): record.metrics for record in alone.records
    }
    assert "dkt naive seed 42 fold 1: AUC" in console.export_text()


def test_a_second_command_in_a_folder_says_so(simulation: tsdr.Simulation, tmp_path: Path) -> None:
    with (tmp_path / ".running").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(InputError, match="another command is running in this folder"):
            compare(simulation, backbone="dkt", options=SMALL, training=TRAINING, out=tmp_path)
    assert not list(tmp_path.glob("*.json"))


@pytest.mark.parametrize(
    ("command", "function"),
    [(models.fit_command, tsdr.fit), (models.compare_command, tsdr.compare), (models.evaluate_command, tsdr.compare)],
)
def test_the_command_line_has_pythons_defaults(command: Callable[..., None], function: Callable[..., object]) -> None:
    written = inspect.signature(command).parameters
    ours = inspect.signature(function).parameters
    shared = [name for name in written if name in ours and name not in ("log", "out", "name", "resume")]
    assert {"backbone", "window", "minimum"} <= set(shared)
    for name in shared:
        expected = ours[name].default
        assert written[name].default == (",".join(expected) if isinstance(expected, tuple) else expected), name
    for option in ("seed", "device", "stop_by"):
        assert written[option].default == getattr(TrainingOptions(), option)
    assert "tsdr" in (written["method"] if "method" in written else written["methods"]).default
