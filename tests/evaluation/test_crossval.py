from pathlib import Path

import pytest

import tsdr
from tsdr import Folds, InputError, Sequences
from tsdr.evaluation.crossval import cross_validate, cross_validate_baselines
from tsdr.evaluation.records import Record, RecordFolder
from tsdr.training.trainer import Epoch, TrainingOptions

OPTIONS = TrainingOptions(max_epochs=3, device="cpu")


@pytest.fixture(scope="module")
def sequences() -> Sequences:
    return Sequences.from_log(tsdr.simulate(students=90, questions=30, concepts=5, seed=1).log, window=12)


def run(sequences: Sequences, folder: Path, **more: object) -> list[Record]:
    folds = Folds.by_student(sequences.student, 3, seed=OPTIONS.seed)
    records = cross_validate(
        sequences,
        folds,
        dataset="simulated",
        backbone="dkt",
        options={"d": 8},
        training=OPTIONS,
        records=RecordFolder(folder),
        **more,  # type: ignore[arg-type]
    )
    return list(records)


def test_every_fold_has_a_record_and_is_not_run_again(sequences: Sequences, tmp_path: Path) -> None:
    records = run(sequences, tmp_path)
    assert [record.fold for record in records] == [0, 1, 2]
    assert sum(record.students["test"] for record in records) == 90
    assert sum(record.scored for record in records) == int(sequences.batch.mask[:, 1:].sum())
    assert all(0 < record.metrics["auc"] < 1 for record in records)
    files = {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("*.json")}
    assert len(files) == 3
    epochs: list[tuple[int, Epoch]] = []
    again = run(sequences, tmp_path, on_epoch=lambda fold, epoch: epochs.append((fold, epoch)))
    assert again == records
    assert not epochs
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("*.json")} == files


def test_a_run_that_is_stopped_goes_on_to_the_same_records(sequences: Sequences, tmp_path: Path) -> None:
    def stop(fold: int, epoch: Epoch) -> None:
        if (fold, epoch.number) == (1, 2):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(sequences, tmp_path / "stopped", on_epoch=stop)
    assert len(list((tmp_path / "stopped").glob("*.json"))) == 1
    epochs: list[tuple[int, int]] = []
    resumed = run(sequences, tmp_path / "stopped", on_epoch=lambda fold, epoch: epochs.append((fold, epoch.number)))
    assert epochs[0] == (1, 3), "the stopped fold goes on after its last whole epoch"
    whole = run(sequences, tmp_path / "whole")
    assert [record.metrics for record in resumed] == [record.metrics for record in whole]
    assert not list((tmp_path / "stopped" / ".checkpoints").glob("*"))


def test_baselines_are_recorded_on_the_same_folds(sequences: Sequences, tmp_path: Path) -> None:
    folds = Folds.by_student(sequences.student, 3, seed=42)
    records = list(cross_validate_baselines(sequences, folds, dataset="simulated", records=RecordFolder(tmp_path)))
    assert len(records) == 9
    models = run(sequences, tmp_path)
    for fold in range(3):
        scored = {record.scored for record in [*records, *models] if record.fold == fold}
        assert len(scored) == 1
    assert len(list(RecordFolder(tmp_path))) == 12


def test_a_spoilt_record_is_named(sequences: Sequences, tmp_path: Path) -> None:
    records = run(sequences, tmp_path)
    path = tmp_path / records[0].file_name()
    path.write_text(path.read_text()[:50])
    with pytest.raises(InputError, match=f"{path.name}.*remove it to run it again"):
        run(sequences, tmp_path)
