"""A folder of records: what is written is read back, plain or gzipped, and nothing is written twice."""

import gzip
import json
from pathlib import Path

import pytest

from tsdr.errors import InputError
from tsdr.methods import NAIVE
from tsdr.records.collection import collect
from tsdr.records.folder import RecordFolder, read_record
from tsdr.records.run import Record


def record(fold: int = 0, auc: float = 0.5) -> Record:
    return Record(
        dataset="log",
        backbone="dkt",
        method=NAIVE,
        options={"window": 50, "tuned": {"smoothness": [0.1, 1.0]}, "debias": {}},
        fold=fold,
        seed=1,
        metrics={"auc": auc, "acc": float("nan")},
        per_student={"auc": 0.6},
        by_student={"student": [0.0, 1.0], "auc_influence": [0.25, None]},
        watched=[{"loss": 1.0}, {"loss": 0.5}],
        students={"test": 2},
        scored=7,
        epochs=2,
        best_epoch=1,
        seconds=1.5,
        peak_memory_mib=3.0,
        versions={"tsdr": "0"},
    )


def gzipped(path: Path) -> Path:
    """What gzip makes of a file."""
    there = path.with_name(f"{path.name}.gz")
    there.write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    return there


def test_what_is_written_is_read_back_and_a_list_takes_a_line(tmp_path: Path) -> None:
    folder = RecordFolder(tmp_path)
    folder.write(record())
    (path,) = tmp_path.iterdir()
    expected = json.loads(record().model_dump_json())
    assert json.loads(path.read_text()) == expected
    assert '  "auc_influence": [0.25,null]' in path.read_text().splitlines()
    assert '  "student": [0.0,1.0],' in path.read_text().splitlines()
    found = folder.find(record())
    assert found is not None
    assert json.loads(found.model_dump_json()) == expected


def test_gzipped_records_are_found_and_not_written_again(tmp_path: Path) -> None:
    folder = RecordFolder(tmp_path / "study")
    folder.write(record(0))
    folder.write(record(1))
    zipped = gzipped(tmp_path / "study" / record(1).file_name())
    folder.write(record(1, auc=0.9))
    assert sorted(path.name for path in folder.folder.iterdir()) == sorted([record(0).file_name(), zipped.name])
    found = folder.find(record(1))
    assert found is not None
    assert found.metrics["auc"] == 0.5
    assert sorted(run.fold for run in folder) == [0, 1]
    assert sorted(run.fold for run in collect(tmp_path).records) == [0, 1]


@pytest.mark.parametrize("damage", [lambda content: content[: len(content) // 2], lambda content: b"{}" + content])
def test_a_damaged_gzipped_record_is_told(damage: object, tmp_path: Path) -> None:
    folder = RecordFolder(tmp_path)
    folder.write(record())
    zipped = gzipped(tmp_path / record().file_name())
    assert callable(damage)
    zipped.write_bytes(damage(zipped.read_bytes()))
    with pytest.raises(InputError, match="is not a record"):
        read_record(zipped)
