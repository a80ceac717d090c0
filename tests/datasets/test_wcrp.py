from pathlib import Path

import pytest

from conftest import RealLogs
from tsdr import InputError
from tsdr.datasets import load, prepare


def write(folder: Path, answers: str, labels: str) -> Path:
    (folder / "spanish_dataset.txt").write_text(answers)
    (folder / "spanish_expert_labels.txt").write_text(labels)
    return folder


def test_lines_in_order_and_labels_by_line(tmp_path: Path) -> None:
    raw = write(tmp_path, "8 0 1\n8 2 0\n8 0 1\n\n9 1 1\n8 7 1\n8 1 2\n", "5\n6\n5\n")
    account = prepare("spanish", raw, tmp_path / "log.parquet", minimum=1)
    assert account.read == 6
    assert account.dropped == {"item without an expert label": 1, "answer is neither 0 nor 1": 1}
    assert load("spanish", raw, minimum=1).frame.rows() == [
        ("8", "0", "5", 1, 0),
        ("8", "2", "5", 0, 1),
        ("8", "0", "5", 1, 2),
        ("9", "1", "6", 1, 3),
    ]


def test_a_byte_order_mark_is_no_part_of_a_name_and_an_empty_file_is_refused(tmp_path: Path) -> None:
    raw = write(tmp_path, "\ufeff8 0 1\r\n8 1 0\r\n", "\ufeff5\r\n6\r\n")
    assert load("spanish", raw, minimum=1).frame.select("student", "concept").rows() == [("8", "5"), ("8", "6")]
    with pytest.raises(InputError, match="student item correct"):
        load("spanish", write(tmp_path, "", "5\n"))


def test_a_file_of_another_shape_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="student item correct"):
        load("spanish", write(tmp_path, "8,0,1\n8,2,0\n", "5\n"))


def test_the_real_sample_is_its_canonical_log(real_raw: Path, real_logs: RealLogs) -> None:
    ours, canonical = load("spanish", real_raw / "wcrp"), real_logs.read("spanish_37users")
    assert len(ours) == len(canonical) == 103_561
    assert ours.frame.select("student", "question", "concept", "correct").equals(
        canonical.frame.select("student", "question", "concept", "correct")
    )
