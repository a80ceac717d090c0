import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tsdr.datasets import load, prepare

ANSWERED = "http://adlnet.gov/expapi/verbs/answered"


def statement(student: str, question: str, success: bool | None, when: str, **more: Any) -> dict[str, Any]:
    said: dict[str, Any] = {
        "actor": {"account": {"name": student, "homePage": "https://school.example"}},
        "verb": {"id": ANSWERED},
        "object": {"id": question, "definition": {"extensions": {"https://school.example/skill": ["b", "a"]}}},
        "timestamp": when,
    }
    if success is not None:
        said["result"] = {"success": success}
    return said | more


def test_statements(tmp_path: Path) -> None:
    category = {"contextActivities": {"category": [{"id": "algebra"}], "parent": [{"id": "course"}]}}
    said = [
        statement("u", "q1", True, "2024-05-01T10:00:00Z"),
        statement("u", "q2", False, "2024-05-01T11:00:00.5+02:00", object={"id": "q2"}, context=category),
        statement("u", "q1", True, "2024-05-01T12:00:00Z", verb={"id": "http://adlnet.gov/expapi/verbs/viewed"}),
        statement("u", "q1", None, "2024-05-01T12:00:00Z"),
        statement("u", "q3", True, "2024-05-01T12:00:00Z", object={"id": "q3"}),
        statement("u", "q1", True, "yesterday"),
        statement("u", "q1", True, "2024-05-01T12:00:00Z", actor={}),
        statement("v", "q1", None, "2024-05-01T13:00:00Z", verb={"id": "http://id.tincanapi.com/verb/skipped"}),
        statement("v", "q1", True, "2024-05-01T14:00:00", actor={"mbox": "mailto:v@school.example"}),
    ]
    lines = [*(json.dumps(one) for one in said), "{not json", "", "[1]"]
    (tmp_path / "statements.jsonl").write_text("\n".join(lines))
    account = prepare("xapi", tmp_path, tmp_path / "log.parquet", minimum=1)
    assert account.read == 11
    assert account.dropped == {
        "line that is not JSON": 1,
        "line that is not a statement": 1,
        "no actor or object": 1,
        "no concept": 1,
        "no result.success": 1,
        "no timestamp": 1,
        "verb other than answered": 1,
        "student with fewer than 1 answers": 1,
    }
    assert load("xapi", tmp_path, minimum=1).frame.rows() == [
        ("https://school.example u", "q2", "algebra", 0, datetime(2024, 5, 1, 9, 0, 0, 500_000), False),
        ("https://school.example u", "q1", "a~~b", 1, datetime(2024, 5, 1, 10), False),
        ("mailto:v@school.example", "q1", "a~~b", 1, datetime(2024, 5, 1, 14), False),
    ]


def test_one_concept_a_question_and_a_statement_once(tmp_path: Path) -> None:
    def with_skill(*skill: str | None) -> dict[str, Any]:
        return {"id": "q1", "definition": {"extensions": {"https://school.example/skill": list(skill)}}}

    first = statement("u", "q1", True, "2024-05-01T10:00:00Z", object=with_skill("b", "", None), id="s1")
    second = statement("u", "q1", False, "2024-05-01T11:00:00Z", object=with_skill("a"), id="s2")
    (tmp_path / "one.jsonl").write_text("\ufeff" + json.dumps(first) + "\n")
    (tmp_path / "two.ndjson").write_text("\n".join(map(json.dumps, (first, second))) + "\n")
    account = prepare("xapi", tmp_path, tmp_path / "log.parquet", minimum=1)
    assert (account.read, account.dropped) == (3, {"the same statement twice": 1})
    assert load("xapi", tmp_path, minimum=1).frame["concept"].to_list() == ["a~~b", "a~~b"]


@pytest.mark.parametrize(
    "line",
    [
        json.dumps(
            {"verb": {"id": ANSWERED}, "object": {"id": "q", "definition": {"extensions": ["x"]}}, "actor": "me"}
        ),
        '{"verb": ' + "9" * 5000 + "}",
        '{"actor": {"name": "\\ud800"}, "verb": {"id": "answered"}}',
        "[" * 100_000,
        "null",
    ],
)
def test_a_strange_line_is_counted_and_does_no_harm(line: str, tmp_path: Path) -> None:
    good = json.dumps(statement("u", "q1", True, "2024-05-01T10:00:00Z"))
    (tmp_path / "statements.jsonl").write_text(f"{line}\n{good}\n")
    account = prepare("xapi", tmp_path, tmp_path / "log.parquet", minimum=1)
    assert (account.read, sum(account.dropped.values()), account.counts.interactions) == (2, 1, 1)


def test_an_answer_that_says_nothing_is_a_skip_unless_it_was_judged(tmp_path: Path) -> None:
    def answered(question: str, **result: Any) -> str:
        return json.dumps(statement("u", question, None, "2024-05-01T10:00:00Z", result=result))

    lines = [
        answered("q0", success=True, response=""),
        answered("q1", success=False, response=" "),
        answered("q2", response=""),
        answered("q3", completion=False),
        answered("q4", completion=False, response="7"),
        answered("q5", completion=True),
        answered("q6", response="", success=None),
        json.dumps(statement("u", "q7", True, "2024-05-01T10:00:00Z", verb={"id": "https://w3id.org/verbs#skipped"})),
    ]
    (tmp_path / "statements.jsonl").write_text("\n".join(lines))
    account = prepare("xapi", tmp_path, tmp_path / "log.parquet", minimum=1)
    assert account.dropped == {"no result.success": 2}
    assert account.notes == {
        "a skip or an empty response, kept as a skipped offer": 4,
        "an empty response, judged wrong where it was given": 1,
    }
    said = load("xapi", tmp_path, minimum=1).frame.select("question", "correct", "skipped").rows()
    assert said == [("q0", 1, False), ("q1", 0, False), *((f"q{i}", None, True) for i in (2, 3, 6, 7))]


def test_a_file_of_a_stores_answer_is_unpacked(tmp_path: Path) -> None:
    said = [statement("u", f"q{i}", True, f"2024-05-01T1{i}:00:00Z") for i in range(3)]
    (tmp_path / "page.json").write_text(json.dumps({"statements": said[:2], "more": ""}, indent=2))
    (tmp_path / "list.json").write_text(json.dumps([said[2], 7]))
    account = prepare("xapi", tmp_path, tmp_path / "log.parquet", minimum=1)
    assert (account.read, account.dropped) == (4, {"line that is not a statement": 1})
    assert account.counts.questions == 3
