import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tsdr import InputError
from tsdr.datasets import load, prepare
from tsdr.datasets.account import Account

QUIZ = "https://school.example/quiz/1"
SKILLED = {"https://school.example/skill": "k"}
COUNTED = "grade, which counts with its answer"
Event = dict[str, Any]


def item(question: str, **more: Any) -> Event:
    return {"id": f"{QUIZ}/items/{question}", "type": "AssessmentItem", "isPartOf": {"id": QUIZ}} | more


def attempt(question: str, student: str = "u") -> str:
    return f"{QUIZ}/items/{question}/users/{student}/attempts/1"


def event(action: str, question: str, minute: int, student: str = "u", **more: Any) -> Event:
    said: Event = {
        "@context": "http://purl.imsglobal.org/ctx/caliper/v1p2",
        "id": f"urn:uuid:{student}-{question}-{action}-{minute}",
        "type": "AssessmentItemEvent",
        "actor": {"id": f"https://school.example/users/{student}", "type": "Person"},
        "action": action,
        "object": item(question),
        "eventTime": f"2024-05-01T10:{minute:02}:00.000Z",
    }
    if action == "Completed":
        response = {"type": "FillinBlankResponse", "attempt": {"id": attempt(question, student), "type": "Attempt"}}
        said["generated"] = response | {"id": f"{attempt(question, student)}/response", "values": ["x"]}
    return said | more


def grade(of: Any, given: Any, maximum: Any, minute: int = 59, **more: Any) -> Event:
    return {
        "id": f"urn:uuid:grade-{json.dumps(of)}-{minute}",
        "type": "GradeEvent",
        "actor": {"id": "https://school.example/autograder", "type": "SoftwareApplication"},
        "action": "Graded",
        "object": of,
        "generated": {"type": "Score", "scoreGiven": given, "maxScore": maximum},
        "eventTime": f"2024-05-01T10:{minute:02}:00.000Z",
    } | more


def prepared(folder: Path, *events: Event) -> Account:
    (folder / "events.jsonl").write_text("\n".join(map(json.dumps, events)))
    return prepare("caliper", folder, folder / "log.parquet", minimum=1)


def said(folder: Path) -> list[tuple[Any, ...]]:
    frame = load("caliper", folder, minimum=1).frame
    columns = [name for name in ("question", "concept", "correct") if name in frame.columns]
    return [(str(question).rpartition("/")[2], *more) for question, *more in frame.select(columns).rows()]


def test_answers_get_the_grades_of_their_attempts_and_skips_are_skipped_offers(tmp_path: Path) -> None:
    account = prepared(
        tmp_path,
        grade(attempt("q1"), 1, 1.0),  # before its answer, and by a plain id
        event("Started", "q1", 0),
        event("Completed", "q1", 1),
        event("Skipped", "q2", 2, generated={"id": attempt("q2"), "type": "Attempt", "count": 1}),
        event("Completed", "q3", 3),
        grade({"id": attempt("q3"), "type": "Attempt", "assignable": item("q3")}, 0, 2),
        event("Completed", "q4", 4),
        grade({"id": attempt("q4"), "type": "Attempt"}, 1.5, 2),
        event("Completed", "q5", 5),
        event("Completed", "q1", 6, student="v"),
        grade(attempt("q1", "v"), 1, 1),
        grade(f"{QUIZ}/users/u/attempts/1", 3, 5),  # of the whole quiz
        {"type": "NavigationEvent", "action": "NavigatedTo", "actor": "u", "object": QUIZ},
        {"type": "Person", "id": "https://school.example/users/u"},
    )
    assert account.read == 14
    assert account.dropped == {
        COUNTED: 4,
        "action other than Completed or Skipped": 1,
        "no grade": 1,
        "grade of no answer that is here": 1,
        "event other than of an item or a grade": 2,
    }
    assert account.notes == {
        "a skip or an empty response, kept as a skipped offer": 1,
        "a part of the score, taken for a wrong answer": 1,
    }
    u, v = "https://school.example/users/u", "https://school.example/users/v"
    assert load("caliper", tmp_path, minimum=1).frame.rows() == [
        (u, f"{QUIZ}/items/q1", QUIZ, 1, datetime(2024, 5, 1, 10, 1), False),
        (u, f"{QUIZ}/items/q2", QUIZ, None, datetime(2024, 5, 1, 10, 2), True),
        (u, f"{QUIZ}/items/q3", QUIZ, 0, datetime(2024, 5, 1, 10, 3), False),
        (u, f"{QUIZ}/items/q4", QUIZ, 0, datetime(2024, 5, 1, 10, 4), False),
        (v, f"{QUIZ}/items/q1", QUIZ, 1, datetime(2024, 5, 1, 10, 6), False),
    ]


def test_the_names_of_caliper_1_0(tmp_path: Path) -> None:
    caliper = "http://purl.imsglobal.org/caliper/v1"
    action = "http://purl.imsglobal.org/vocab/caliper/v1/action#"
    objectives = [{"@id": "https://school.example/objectives/2", "@type": f"{caliper}/LearningObjective"}]
    thing = {"@id": "q1", "@type": f"{caliper}/AssessmentItem", "alignedLearningObjective": objectives}
    whole = {"@id": "urn:attempt:1", "@type": f"{caliper}/Attempt", "assignable": thing, "count": 1}
    common = {"@type": f"{caliper}/AssessmentItemEvent", "actor": {"@id": "u"}}
    account = prepared(
        tmp_path,
        common | {"action": f"{action}Completed", "object": whole, "eventTime": "2015-09-15T10:15:00.000Z"},
        common | {"action": f"{action}Skipped", "object": thing, "eventTime": "2015-09-15T10:16:00.000Z"},
        {
            "@type": f"{caliper}/OutcomeEvent",
            "action": f"{action}Graded",
            "object": whole,
            "generated": {"@type": f"{caliper}/Result", "normalScore": 3.0, "totalScore": 3.0, "maxResultScore": 3},
            "eventTime": "2015-09-15T11:05:01.000Z",
        },
    )
    assert account.dropped == {COUNTED: 1}
    objective = "https://school.example/objectives/2"
    assert said(tmp_path) == [("q1", objective, 1), ("q1", objective, None)]


def test_a_grade_of_several_items_at_once_is_of_none_of_them(tmp_path: Path) -> None:
    """An attempt at a whole quiz: only a grade that says which item, or whose answer, it is of can be given to one."""
    quiz = "urn:attempt:quiz"
    given: Event = {"generated": {"type": "Response", "attempt": quiz}}
    account = prepared(
        tmp_path,
        event("Completed", "q0", 0, extensions={"correct": True}),
        event("Completed", "q1", 1, **given),
        event("Skipped", "q2", 2, generated={"id": quiz, "type": "Attempt"}),
        grade(quiz, 5, 5),
    )
    assert account.dropped == {"no grade": 1, "grade of no answer that is here": 1}
    account = prepared(
        tmp_path,
        event("Completed", "q1", 1, **given),
        event("Completed", "q2", 2, **given),
        event("Completed", "q2", 2, student="v", **given),
        grade(quiz, 5, 5),
        grade({"id": quiz, "assignable": item("q1")["id"]}, 1, 1),
        grade({"id": quiz, "assignable": item("q2")["id"]}, 1, 1),
        grade({"id": quiz, "assignable": item("q2"), "assignee": "https://school.example/users/v"}, 0, 1),
    )
    assert account.dropped == {COUNTED: 2, "grade of no answer that is here": 2, "no grade": 1}
    assert said(tmp_path) == [("q1", QUIZ, 1), ("q2", QUIZ, 0)]


def test_the_last_grade_is_of_the_last_answer_in_an_attempt(tmp_path: Path) -> None:
    account = prepared(
        tmp_path,
        event("Completed", "q1", 5),
        event("Completed", "q1", 5),  # the same event again
        event("Completed", "q1", 3),
        event("Completed", "q1", 1, extensions={"correct": False}),  # judged by itself
        grade(attempt("q1"), 1, 1, minute=50),
        grade(attempt("q1"), 0, 1, minute=40),
    )
    assert account.dropped == {
        COUNTED: 2,
        "answer that another one replaced in the same attempt": 1,
        "the same event twice": 1,
    }
    assert load("caliper", tmp_path, minimum=1).frame.select("correct", "time").rows() == [
        (0, datetime(2024, 5, 1, 10, 1)),
        (1, datetime(2024, 5, 1, 10, 5)),
    ]


@pytest.mark.parametrize(
    ("more", "correct"),
    [
        ({"extensions": {"https://school.example/ns#isCorrect": True}}, 1),
        ({"extensions": {"correct": "false"}}, 0),
        ({"generated": {"type": "Response", "extensions": {"bb:success": 1}}}, 1),
        ({"generated": {"type": "Score", "scoreGiven": 4, "maxScore": 4}}, 1),
        ({"generated": {"type": "Score", "scoreGiven": 4, "maxScore": 0}, "object": item("q1", maxScore=5)}, 0),
        ({"generated": {"type": "Score", "scoreGiven": 4}}, "score without a maximum"),
        ({"generated": {"type": "Score", "scoreGiven": True, "maxScore": 1}}, "no grade"),
        ({"generated": {"type": "Score", "scoreGiven": 10**400, "maxScore": float("nan")}}, "no grade"),
        ({"extensions": {"correct": "perhaps"}}, "no grade"),
        ({"generated": "urn:response:1"}, "no grade"),
        ({"generated": ["urn:response:1"], "extensions": "none"}, "no grade"),
    ],
)
def test_an_answer_may_say_itself_whether_it_is_right(more: Event, correct: int | str, tmp_path: Path) -> None:
    other = event("Completed", "q0", 0, extensions={"correct": True})
    account = prepared(tmp_path, other, event("Completed", "q1", 1, **more))
    if isinstance(correct, str):
        assert account.dropped == {correct: 1}
    else:
        assert said(tmp_path)[1] == ("q1", QUIZ, correct)


def test_an_empty_response_is_a_skip_unless_it_was_graded(tmp_path: Path) -> None:
    def answered(question: str, minute: int, **response: Any) -> Event:
        return event("Completed", question, minute, generated={"attempt": attempt(question)} | response)

    account = prepared(
        tmp_path,
        answered("q1", 1, values=["", None]),
        answered("q2", 2, value=""),
        answered("q3", 3, values=[]),
        grade(attempt("q3"), 0, 1),
        answered("q4", 4, value="0"),
        answered("q5", 5),
        answered("q6", 6, value=False),
        grade(attempt("q6"), 1, 1),
    )
    assert account.dropped == {COUNTED: 2, "no grade": 2}
    assert account.notes == {
        "a skip or an empty response, kept as a skipped offer": 2,
        "an empty response, judged wrong where it was given": 1,
    }
    assert said(tmp_path) == [("q1", QUIZ, None), ("q2", QUIZ, None), ("q3", QUIZ, 0), ("q6", QUIZ, 1)]


@pytest.mark.parametrize(
    ("things", "concept"),
    [
        ([item("q1", extensions={"x:kc": ["b", "a"]}, keywords=["w"], learningObjectives=[{"id": "o"}])], "a~~b"),
        ([item("q1", keywords=["w"], learningObjectives=[{"id": "o2"}, "o1"])], "o1~~o2"),
        ([item("q1", keywords=["w", ""], learningObjectives=[])], "w"),
        ([item("q1", isPartOf="quiz")], "quiz"),
        ([item("q1", isPartOf="quiz"), item("q1", keywords=["w"]), item("q1", keywords=["v"])], "v~~w"),
        ([item("q1", keywords=["w"]), item("q1")["id"]], "w"),
    ],
)
def test_an_item_has_the_concepts_of_the_best_kind_that_any_event_gives(
    things: list[Any], concept: str, tmp_path: Path
) -> None:
    answers = [
        event("Completed", "q1", minute, object=thing, extensions={"correct": True})
        for minute, thing in enumerate(things)
    ]
    prepared(tmp_path, *answers)
    assert set(said(tmp_path)) == {("q1", concept, 1)}


def test_items_that_are_described_by_themselves_or_in_other_events(tmp_path: Path) -> None:
    account = prepared(
        tmp_path,
        event("Skipped", "q1", 1, object=item("q1")["id"]),
        event("Completed", "q2", 2, object=item("q2")["id"], extensions=SKILLED),
        event("Completed", "q3", 3, object=item("q3")["id"], extensions={"correct": True}),
        item("q1", keywords=["w"]),
        event("Started", "q3", 3, extensions=SKILLED),
        grade({"id": attempt("q2"), "assignable": item("q2", maxScore=2)}, 2, None),
        event("Skipped", "q4", 4, object=item("q4")["id"]),
    )
    assert account.dropped["no concept"] == 1
    assert said(tmp_path) == [("q1", "w", None), ("q2", "k", 1), ("q3", "k", 1)]


def test_lines_envelopes_lists_and_whole_files(tmp_path: Path) -> None:
    events = [event("Completed", f"q{i}", i, extensions={"correct": i % 2 == 0}) for i in range(7)]
    envelope = {"sensor": "urn:sensor", "sendTime": "2024-05-01T11:00:00Z", "dataVersion": "v1p2"}
    (tmp_path / "lines.json").write_text(
        "\n" + json.dumps(events[0]) + "\n\n" + json.dumps(envelope | {"data": [events[1]]})
    )
    (tmp_path / "pretty.json").write_text("\ufeff" + json.dumps(envelope | {"data": events[2:4]}, indent=2))
    (tmp_path / "list.json").write_text(json.dumps([events[4]], indent=2))
    (tmp_path / "one.ndjson").write_text(json.dumps([events[5]]))
    (tmp_path / "more.jsonl").write_text(json.dumps(envelope | {"data": [events[6], events[0]]}) + "\n{broken\n7\n")
    (tmp_path / "empty.json").write_text("\n")
    account = prepare("caliper", tmp_path, tmp_path / "log.parquet", minimum=1)
    assert account.read == 10
    assert account.dropped == {
        "the same event twice": 1,
        "line that is not JSON": 1,
        "line that is not an event": 1,
    }
    assert [row[2] for row in said(tmp_path)] == [1, 0, 1, 0, 1, 0, 1]


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"actor": {}}, "no actor or item"),
        ({"actor": True}, "no actor or item"),
        ({"object": None}, "no actor or item"),
        ({"object": {"type": "Attempt", "id": "a"}}, "no actor or item"),
        ({"object": {"id": "q9"}}, "no concept"),
        ({"eventTime": "yesterday"}, "no eventTime"),
        ({"eventTime": None}, "no eventTime"),
        ({"action": ["Skipped"]}, "action other than Completed or Skipped"),
        ({"type": ["AssessmentItemEvent"]}, "event other than of an item or a grade"),
        ({"actor": "\ud800"}, "line that is not JSON"),
        ({"type": "GradeEvent", "action": "Graded"}, "grade without an attempt or a score"),
    ],
)
def test_a_strange_event_is_counted_and_does_no_harm(more: Event, reason: str, tmp_path: Path) -> None:
    good = event("Completed", "q1", 1, extensions={"correct": True})
    account = prepared(tmp_path, good, event("Skipped", "q2", 2) | more)
    assert (account.read, account.dropped, account.counts.interactions) == (2, {reason: 1}, 1)


def test_a_file_that_is_cut_off_is_a_sentence(tmp_path: Path) -> None:
    whole = json.dumps({"data": [event("Skipped", "q1", 1)]}, indent=2)
    (tmp_path / "events.json").write_text(whole[:-20])
    with pytest.raises(InputError, match=r"no row of caliper is left; dropped: \d+ line that is not JSON"):
        prepare("caliper", tmp_path, tmp_path / "log.parquet")
