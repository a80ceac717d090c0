from datetime import datetime
from pathlib import Path

import pytest

from tsdr import InputError
from tsdr.datasets import load, prepare

HEADER = "Row\tAnon Student Id\tProblem Name\tStep Name\tFirst Transaction Time\tCorrect First Attempt\tKC(Default)"


def write(folder: Path, rows: list[str], header: str = HEADER, name: str = "algebra_2005_2006_train.txt") -> Path:
    (folder / name).write_text("\n".join([header, *rows]) + "\n")
    return folder


def test_steps_are_questions_and_their_components_one_concept(tmp_path: Path) -> None:
    raw = write(
        tmp_path,
        [
            "1\ta\tP1\tS1\t2005-09-09 12:24:35.0\t1\tx~~y",
            "2\ta\tP1\tS2\t2005-09-09 12:20:00.0\t0\ty",
            "3\ta\tP2\tS1\t\t1\tz",
            "4\tb\tP1\tS1\t2005-09-10 08:00:00.0\t0\ty~~w",
            "5\tb\tP3\tS1\t2005-09-10 08:01:00.0\t1\t",
            "6\tb\tP2\tS1\t2005-09-10 08:02:00.0\t\tz",
        ],
    )
    account = prepare("algebra05", raw, tmp_path / "log.parquet", minimum=1)
    assert account.read == 6
    assert account.dropped == {"no answer to the first attempt": 1, "no knowledge component": 1}
    assert account.notes == {"no time, so the place in the file stands for it": 1}
    assert load("algebra05", raw, minimum=1).frame.rows() == [
        ("a", "P1 / S2", "y", 0, datetime(2005, 9, 9, 12, 20)),
        ("a", "P2 / S1", "z", 1, datetime(2005, 9, 9, 12, 20)),
        ("a", "P1 / S1", "w~~x~~y", 1, datetime(2005, 9, 9, 12, 24, 35)),
        ("b", "P1 / S1", "w~~x~~y", 0, datetime(2005, 9, 10, 8)),
    ]


def test_blank_times_everywhere_leave_the_order_of_the_file(real_raw: Path, tmp_path: Path) -> None:
    account = prepare(
        "datashop", real_raw / "kddcup" / "kddcup2010_course_test.csv", tmp_path / "log.parquet", minimum=1
    )
    assert account.read == 1140
    assert account.dropped == {"no answer to the first attempt": 474, "no knowledge component": 172}
    assert account.notes == {"no time, so the place in the file stands for it": 494}


def test_the_real_sample_of_steps(real_raw: Path, tmp_path: Path) -> None:
    sample = real_raw / "kddcup" / "ct_first6000_as_kddcup_tab.txt"
    account = prepare("algebra05", sample, tmp_path / "log.parquet", minimum=1)
    assert (account.read, account.dropped, account.counts.interactions) == (6000, {}, 6000)


def test_a_datashop_export_of_transactions(tmp_path: Path) -> None:
    header = "Anon Student Id\tTime\tProblem Name\tStep Name\tAttempt At Step\tOutcome\tKC (Unique)\tKC (Other)"
    raw = write(
        tmp_path,
        [
            "a\t2011-01-02 10:00:00\tP\tS\t1\tINCORRECT\tk\to",
            "a\t2011-01-02 10:00:05\tP\tS\t2\tCORRECT\tk\to",
            "a\t2011-01-02 10:01:00\tP\tT\t1\tHINT\tk\to",
            "b\t2011-01-02 10:02:00\tP\tT\t1\tCORRECT\tk\to",
        ],
        header,
        "export.txt",
    )
    account = prepare("datashop", raw, tmp_path / "log.parquet", minimum=1)
    assert account.dropped == {"later attempt at the step": 1}
    assert account.notes == {"a hint, taken for a wrong answer": 1}
    frame = load("datashop", raw, minimum=1).frame
    assert frame.select("student", "question", "concept", "correct").rows() == [
        ("a", "P / S", "k", 0),
        ("a", "P / T", "k", 0),
        ("b", "P / T", "k", 1),
    ]


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    write(tmp_path, ["1\ta\t1"], "Row\tAnon Student Id\tOutcome")
    with pytest.raises(InputError, match="none of the columns First Transaction Time, Time"):
        load("datashop", tmp_path)
    write(tmp_path, ["a\t1\t2"], "Anon Student Id\tOutcome\tTime")
    with pytest.raises(InputError, match="no column of knowledge components"):
        load("datashop", tmp_path)
