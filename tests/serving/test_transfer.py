"""Logs into a store, as exports come: over and over, overlapping, in parts, beside a service that writes as well."""

from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from fastapi.testclient import TestClient

from served import random_model
from tsdr import InputError, Log, read_log
from tsdr.serving.app import create_app
from tsdr.serving.store import Answer, Store
from tsdr.serving.transfer import collect, enroll

HEADER = "student,question,concept,correct,time"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'students.db'}"


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    opened = Store(url)
    yield opened
    opened.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def export(folder: Path, *rows: str, header: str = HEADER) -> Log:
    """A file of a platform, as it is read."""
    (folder / "export.csv").write_text("\n".join([header, *rows]))
    return read_log(folder / "export.csv")


def came_to(log: Log, url: str) -> tuple[int, int, int]:
    """The new answers, the new skips and the known rows of all students."""
    became = list(enroll(log, url))
    assert sum(map(sum, became)) == len(log), "every row is accounted for"
    return sum(s.answers for s in became), sum(s.skips for s in became), sum(s.known for s in became)


def events(store: Store, student: str) -> list[Answer]:
    known = store.find(student)
    return [] if known is None else store.latest(known, known.events)


def test_two_answers_of_one_second_split_over_two_exports_are_both_taken(folder: Path, url: str, store: Store) -> None:
    first = export(folder, "ada,q1,c,1,2024-05-01 10:00:00", "ada,q2,c,0,2024-05-01 10:00:05")
    assert came_to(first, url) == (2, 0, 0)
    second = export(folder, "ada,q3,d,1,2024-05-01 10:00:05", "ada,q4,d,1,2024-05-01 10:00:06")
    assert came_to(second, url) == (2, 0, 0)
    zoned = ("ada,q3,d,1,2024-05-01T10:00:05Z", "ada,q2,c,0,2024-05-01T10:00:05Z", "ada,q5,c,1,2024-05-02T00:00:00Z")
    overlapping = export(folder, *zoned)
    assert came_to(overlapping, url) == (1, 0, 2)
    assert [answer.question for answer in events(store, "ada")] == ["q1", "q2", "q3", "q4", "q5"]


def test_answers_that_are_alike_are_counted(folder: Path, url: str) -> None:
    """Days for times: the same question was answered right three times on one day."""
    row = "ada,q1,c,1,2024-05-01"
    assert came_to(export(folder, row), url) == (1, 0, 0)
    assert came_to(export(folder, row, row, row), url) == (2, 0, 1)
    assert came_to(export(folder, row, row), url) == (0, 0, 2)


def test_what_was_posted_and_comes_by_a_nightly_export_counts_once(folder: Path, url: str, store: Store) -> None:
    """By the platform's ids; and without them, if it was posted with the time that the export has."""
    client = TestClient(create_app(random_model("dkt"), store))
    for i in (1, 2):
        sent = {
            "event": f"a{i}",
            "question": "q1",
            "concept": "c03",
            "correct": i % 2,
            "time": f"2024-05-01T10:00:0{i}Z",
        }
        assert client.post("/students/ada/answers", json=sent).json()["answers"] == i
    rows = [f"ada,q1,c03,{i % 2},2024-05-01 10:00:0{i}" for i in (1, 2, 3)]
    named = export(folder, *(f"{row},a{i}" for i, row in enumerate(rows, 1)), header=f"{HEADER},event")
    assert came_to(named, url) == (1, 0, 2)
    assert came_to(named, url) == came_to(export(folder, *rows), url) == (0, 0, 3)
    assert client.post("/students/ada/answers", json=sent | {"event": "a3", "correct": 1}).json()["added"] == 0
    assert client.get("/students/ada/mastery").json()["answers"] == 3


def test_ids_that_come_later_are_of_answers_that_came_without(folder: Path, url: str) -> None:
    rows = [f"ada,q1,c,1,2024-05-01 10:00:0{i // 2}" for i in range(4)]
    assert came_to(export(folder, *rows), url) == (4, 0, 0)
    named = export(folder, *(f"{row},{i}" for i, row in enumerate(rows * 2)), header=f"{HEADER},event")
    assert came_to(named, url) == (4, 0, 4)
    assert came_to(named, url) == (0, 0, 8)


def test_a_file_with_a_conflict_is_not_taken_and_its_row_is_named(folder: Path, url: str, store: Store) -> None:
    header = f"{HEADER},event"
    came_to(export(folder, "ada,q1,c,1,2024-05-01,a1", header=header), url)
    wrong = [
        "aaa,q1,c,1,2024-05-01,x",
        "zoe,q2,c,1,2024-05-02,a1",
        "ada,q1,c,0,2024-05-01,a1",
        "ben,q1,c,1,2024-05-02,a1",
    ]
    with pytest.raises(InputError, match=r"row 3 .*student 'ada': event 'a1' is known already.*nothing") as refusal:
        came_to(export(folder, *wrong, header=header), url)
    assert str(folder / "export.csv") in str(refusal.value)
    assert store.count() == 1
    twice = ["ben,q1,c,1,2024-05-01,b1", "cy,q1,c,1,2024-05-01,c1", "cy,q1,d,1,2024-05-03,c1"]
    with pytest.raises(InputError, match=r"row 3 .*student 'cy': event 'c1'"):
        came_to(export(folder, *twice, header=header), url)
    with pytest.raises(InputError, match=r"row 2 .*student 'ben': has no event \(2 rows"):
        came_to(export(folder, "ben,q1,c,1,1,b1", "ben,q1,c,1,1,", "ben,q2,c,1,1,", header=header), url)
    assert store.count() == 1


def test_rows_without_times_are_known_by_their_place(folder: Path, url: str, store: Store) -> None:
    header = "student,concept,correct"
    assert came_to(export(folder, "ada,c,1", "ada,c,1", header=header), url) == (2, 0, 0)
    assert came_to(export(folder, "ada,c,1", "ada,c,1", "ada,d,0", header=header), url) == (1, 0, 2)
    with pytest.raises(InputError, match=r"row 2 .*student 'ada': .*rows are known by their place"):
        came_to(export(folder, "ada,c,1", "ada,d,0", header=header), url)
    assert len(events(store, "ada")) == 3


def test_skips_are_taken_and_counted(folder: Path, url: str) -> None:
    rows = ["ada,q1,c,1,1,0", "ada,q2,c,,2,1", "ben,q1,c,,1,1", "ben,q2,c,0,5,0"]
    log = export(folder, *rows, header=f"{HEADER},skipped")
    assert came_to(log, url) == (2, 2, 0)
    assert came_to(log, url) == (0, 0, 4)


def test_an_interrupted_call_is_made_again(folder: Path, url: str, store: Store) -> None:
    log = export(folder, *(f"s{s},q1,c,1,2024-05-0{i}" for s in range(4) for i in range(1, 4)))
    for _ in enroll(log, url):
        break
    assert store.count() == 1
    assert came_to(log, url) == (9, 0, 3)


def test_a_store_goes_into_another_with_its_events(folder: Path, url: str, store: Store) -> None:
    """And then a client that sends the same again finds it known there, too."""
    sent = [
        Answer("a1", "q1", "c", 1, 1.7e9),
        Answer("a2", None, "d", 0, 1.7e9 + 1),
        Answer("a3", "q1", "c", None, 1.7e9 + 2),
    ]
    store.add("ada", sent)
    collect(url, folder)
    other = f"sqlite:///{folder / 'other.db'}"
    assert came_to(read_log(folder / "log.parquet"), other) == (2, 1, 0)
    moved = Store(other)
    assert events(moved, "ada") == sent
    assert moved.add("ada", sent).answers == 0
    moved.close()
    assert pl.read_parquet(folder / "log.parquet")["event"].to_list() == ["a1", "a2", "a3"]
