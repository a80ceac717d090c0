"""Messy files: all faults are told, what is asked for is dropped and accounted for, statuses in words are read."""

from pathlib import Path

import pytest

from tsdr import InputError
from tsdr.cleaning import clean
from tsdr.log import UnreadableError

COLUMNS = {"student": "user", "concept": "skill", "correct": "outcome", "time": "when"}
STATUSES = {"PASSED": "right", "FAILED": "wrong", "DISMISSED": "skipped"}
ROWS = """user,skill,outcome,when,device
ann,x,PASSED,2024-05-01,web
ann,y,FAILED,2024-05-02,web
ann,,odd,2024-05-03,web
bob,x,DISMISSED,2024-05-01,ios
bob,x,odd,2024-05-02,ios
bob,y,PASSED,05.03.24,ios
bob,y,PASSED,2024-05-04,ios
bob,y,PASSED,2024-05-04,ios
,y,PASSED,2024-05-04,ios
"""


@pytest.fixture
def messy(tmp_path: Path) -> Path:
    (tmp_path / "messy.csv").write_text(ROWS)
    return tmp_path / "messy.csv"


def test_every_fault_of_a_file_is_told(messy: Path) -> None:
    with pytest.raises(UnreadableError, match=r"row 9.*'user'.*; 3 more faults: `tsdr inspect`") as refused:
        clean(messy, COLUMNS, statuses=STATUSES)  # type: ignore[arg-type]
    assert [fault.column for fault in refused.value.faults] == ["student", "concept", "correct", "time"]
    with pytest.raises(UnreadableError) as refused:
        clean(messy)
    assert [fault.column for fault in refused.value.faults] == ["student", "concept", "correct"]


def test_what_is_dropped_is_asked_for_and_accounted_for(messy: Path) -> None:
    drop = ["student", "concept", "correct", "time", "copies"]
    found = clean(messy, COLUMNS, statuses=STATUSES, drop=drop)  # type: ignore[arg-type]
    assert found.read == 9
    # a row with two faults counts once, for the first of them
    assert found.dropped == {"student": 1, "concept": 1, "correct": 1, "time": 1, "copies": 1}
    assert found.read - sum(found.dropped.values()) == len(found.log) == 4
    assert found.unused == ["device"]
    assert found.log.frame["correct"].to_list() == [1, 0, None, 1]
    assert found.log.skipped_offers == 1
    with pytest.raises(UnreadableError) as refused:
        clean(messy, COLUMNS, statuses=STATUSES, drop=["student", "correct"])  # type: ignore[arg-type]
    assert [fault.column for fault in refused.value.faults] == ["concept", "time"]
    with pytest.raises(InputError, match="nothing called 'device' to drop"):
        clean(messy, COLUMNS, drop=["device"])


def test_a_file_without_rows_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("student,concept,correct\n")
    with pytest.raises(InputError, match="has a header and no rows"):
        clean(tmp_path / "log.csv")
