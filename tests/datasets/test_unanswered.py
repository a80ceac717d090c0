"""Offers that were shown and not answered: one option says what becomes of them, whatever the source."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tsdr import read_log
from tsdr.datasets import Unanswered, load, prepare
from tsdr.datasets.account import Account
from tsdr.datasets.interactions import Preparation, one_row_an_offer, ruled

# A right answer, a skip, a wrong answer, a skip, and a right answer: the same five offers, in every format.
SAID = [True, None, False, None, True]


def slepemapy(folder: Path) -> str:
    answers = {True: "10", False: "11", None: ""}
    rows = [f"{i};u;10;{answers[said]};1;2015-01-01 10:0{i}:00" for i, said in enumerate(SAID)]
    (folder / "answer.csv").write_text("\n".join(["id;user;place_asked;place_answered;type;inserted", *rows]))
    return '"I don\'t know"'


def ednet(folder: Path) -> str:
    answers = {True: "a", False: "b", None: ""}
    rows = [f"{i},{i},q1,{answers[said]}" for i, said in enumerate(SAID)]
    (folder / "u1.csv").write_text("\n".join(["timestamp,solving_id,question_id,user_answer", *rows]))
    (folder / "questions.csv").write_text("question_id,correct_answer,tags\nq1,a,5\n")
    return "no answer"


def datashop(folder: Path) -> str:
    results = {True: "CORRECT", False: "HINT", None: ""}
    rows = [f"u\t2011-01-02 10:0{i}:00\tP{i}\t{results[said]}\tk" for i, said in enumerate(SAID)]
    (folder / "export.txt").write_text("\n".join(["Anon Student Id\tTime\tProblem Name\tOutcome\tKC (M)", *rows]))
    return "no result"


def xapi(folder: Path) -> str:
    statements: list[dict[str, Any]] = [
        {
            "actor": {"name": "u"},
            "verb": {"id": "skipped" if said is None else "answered"},
            "object": {"id": f"q{i}", "definition": {"extensions": {"skill": "k"}}},
            "timestamp": f"2024-05-01T10:0{i}:00Z",
        }
        | ({} if said is None else {"result": {"success": said}})
        for i, said in enumerate(SAID)
    ]
    (folder / "statements.jsonl").write_text("\n".join(map(json.dumps, statements)))
    return "a skip or an empty response"


def caliper(folder: Path) -> str:
    events: list[dict[str, Any]] = [
        {
            "type": "AssessmentItemEvent",
            "actor": "u",
            "action": "Skipped" if said is None else "Completed",
            "object": {"id": f"q{i}", "keywords": ["k"]},
            "eventTime": f"2024-05-01T10:0{i}:00Z",
            "extensions": {"correct": said},
        }
        for i, said in enumerate(SAID)
    ]
    (folder / "events.jsonl").write_text("\n".join(map(json.dumps, events)))
    return "a skip or an empty response"


@pytest.mark.parametrize("write", [slepemapy, ednet, datashop, xapi, caliper], ids=lambda write: write.__name__)
def test_one_option_holds_for_every_source(write: Callable[[Path], str], tmp_path: Path) -> None:
    what, name = write(tmp_path), write.__name__

    def prepared(rule: Unanswered) -> Account:
        return prepare(name, tmp_path, tmp_path / f"{rule}.parquet", minimum=1, unanswered=rule)

    default = load(name, tmp_path, minimum=1)
    account = prepared("skipped")
    assert read_log(tmp_path / "skipped.parquet") == default
    assert default.frame["correct"].to_list() == [1, None, 0, None, 1]
    assert default.frame["skipped"].to_list() == [False, True, False, True, False]
    assert account.notes[f"{what}, kept as a skipped offer"] == 2
    assert (account.read, account.dropped, account.counts.interactions, account.skipped) == (5, {}, 3, 2)

    account = prepared("wrong")
    wrong = read_log(tmp_path / "wrong.parquet").frame
    assert wrong["correct"].to_list() == [1, 0, 0, 0, 1]
    assert "skipped" not in wrong.columns
    assert account.notes[f"{what}, taken for a wrong answer"] == 2
    assert (account.dropped, account.skipped) == ({}, 0)

    account = prepared("drop")
    left = read_log(tmp_path / "drop.parquet").frame
    assert left.equals(default.answered.drop("skipped"))
    assert (account.read, account.dropped) == (5, {what: 2})


def test_a_table_without_unanswered_offers_has_no_column_of_them() -> None:
    rows = pl.DataFrame({"correct": [1, 0]}, schema={"correct": pl.Int8})
    for rule in ("skipped", "wrong", "drop"):
        account = Account("x")
        options = Preparation(unanswered=rule)
        assert ruled(rows, account, options, pl.col("correct").is_null(), "blank").equals(rows)
        assert (account.dropped, account.notes) == ({}, {})


def test_the_earliest_row_of_an_offer_stands_for_it_in_its_place() -> None:
    rows = pl.DataFrame(
        {
            "student": ["a", "a", "a", "b", "a", "b"],
            "view": [None, None, "1", None, None, None],
            "correct": [None, None, None, 1, None, None],
            "time": [3, 1, 2, 1, 1, 2],
            "row": [0, 1, 2, 3, 4, 5],
        }
    )
    account = Account("x", read=6)
    left = one_row_an_offer(rows, account, pl.col("correct").is_null(), ["student", "view"], "a view")
    assert left["row"].to_list() == [1, 2, 3], "an absent view is one view"
    assert account.dropped == {
        "no answer, in another row of a view that is answered": 1,
        "no answer, in another row of a view without one": 2,
    }
