"""The service as its clients see it: what it answers, what it refuses, and what it says of nobody else."""

import asyncio
import json
import shutil
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import polars as pl
import pytest
import schemathesis
import sqlalchemy
from fastapi import FastAPI
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, settings

import tsdr
from served import VOCABULARY, random_bundle, random_log, random_model
from tsdr import InputError, Vocabulary
from tsdr.defaults import Extent
from tsdr.models.model import Model, load
from tsdr.serving.app import create_app
from tsdr.serving.databases import HeldError
from tsdr.serving.guard import LARGEST_BODY, Turns
from tsdr.serving.messages import MOST_ANSWERS
from tsdr.serving.store import Answer, Store, Student
from tsdr.serving.students import PAGE, Students
from tsdr.serving.transfer import collect

MODEL = random_model("simplekt")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(f"sqlite:///{tmp_path / 'students.db'}")
    yield opened
    opened.close()


@pytest.fixture
def client(store: Store) -> Iterator[TestClient]:
    with TestClient(create_app(MODEL, store)) as opened:
        yield opened


def answer(event: object, concept: str = "c03", correct: object = 1, **more: object) -> dict[str, Any]:
    return {"event": str(event), "question": "q01", "concept": concept, "correct": correct} | more


def is_problem(response: Any, status: int) -> str:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["status"] == status
    return str(response.json()["detail"])


def test_mastery_is_that_of_a_session_whoever_wrote(client: TestClient, store: Store) -> None:
    """Answers come one by one, in lists and through another process's store; each look is up to date."""
    session, other = MODEL.session(), TestClient(create_app(MODEL, store))
    rows = random_log(students=3).frame.filter(pl.col("student") == "s2").rows(named=True)
    for place, row in enumerate(rows):
        sent = answer(place, row["concept"], row["correct"], question=row["question"])
        sender = (client, other)[place % 3 == 0]
        added = sender.post("/students/s2/answers", json=[sent] if place % 2 else sent)
        assert added.json() == {"added": 1, "answers": place + 1, "skips": 0, "unknown_concepts": []}
        session.observe(row["question"], row["concept"], row["correct"])
        if place % 4 == 0:
            found = client.get("/students/s2/mastery").json()
            assert found["answers"] == place + 1
            assert found["mastery"] == pytest.approx(session.mastery(), abs=1e-5)
    rebuilt = TestClient(create_app(MODEL, store)).get("/students/s2/mastery").json()
    assert rebuilt["mastery"] == pytest.approx(session.mastery(), abs=1e-5)


def test_a_student_who_is_not_known_has_no_answers_and_leaves_no_trace(client: TestClient, store: Store) -> None:
    found = client.get("/students/nobody/mastery").json()
    assert found["answers"] == 0
    assert found["mastery"] == pytest.approx(MODEL.session().mastery())
    assert store.count() == 0


def test_concepts_that_the_model_does_not_know_are_passed_over_by_every_process(store: Store) -> None:
    """They come by a log that was enrolled, or from the time of another model."""
    session, held = MODEL.session(), TestClient(create_app(MODEL, store))
    for i in range(8):
        store.add("ada", [Answer(f"known {i}", "q01", f"c{i:02}", i % 2)])
        session.observe("q01", f"c{i:02}", i % 2)
        for j in range(3):
            store.add("ada", [Answer(f"new {i} {j}", "q01", "of another model", 1)])
        seen = held.get("/students/ada/mastery").json()
        assert seen["answers"] == 4 * (i + 1)
        assert seen["mastery"] == pytest.approx(session.mastery(), abs=1e-5)
        rebuilt = TestClient(create_app(MODEL, store)).get("/students/ada/mastery").json()
        assert rebuilt == seen | {"mastery": pytest.approx(session.mastery(), abs=1e-5)}
    page = held.get("/?student=ada").text
    assert page.count('<th scope="col" title=') == 32
    assert page.split("<tbody>")[1].split("</tr>")[0].count("<td") == 33  # one more: before the first
    assert page.count('class="own"') == 8


@pytest.mark.parametrize(("name", "window"), [("simplekt", 8), ("dkt", "all")])
def test_skips_are_stored_and_read_in_their_order(store: Store, name: str, window: Extent) -> None:
    """In lists with answers, by one process and another: mastery is that of a session, whoever is asked."""
    model = random_model(name, window, skips=True)
    session, client, other = model.session(), *(TestClient(create_app(model, store)) for _ in range(2))
    rows = random_log(students=3, most=40, skips=0.4).frame.filter(pl.col("student") == "s2").rows(named=True)
    sent = [
        {"event": str(i), "question": row["question"], "concept": row["concept"]}
        | ({"skipped": True} if row["skipped"] else {"correct": row["correct"]})
        for i, row in enumerate(rows)
    ]
    for at in range(0, len(rows), 3):
        (client, other)[at % 2].post("/students/s2/answers", json=sent[at : at + 3])
        for row in rows[at : at + 3]:
            if row["skipped"]:
                session.skip(row["question"], row["concept"])
            else:
                session.observe(row["question"], row["concept"], row["correct"])
        found = client.get("/students/s2/mastery").json()
        assert (found["answers"], found["answers"] + found["skips"]) == (session.answers, len(sent[: at + 3]))
        assert found["mastery"] == pytest.approx(session.mastery(), abs=1e-5)
    again = client.post("/students/s2/answers", json=sent)
    counts = {"answers": found["answers"], "skips": found["skips"]}
    assert again.json() == {"added": 0, "unknown_concepts": []} | counts
    rebuilt = TestClient(create_app(model, store)).get("/students/s2/mastery").json()
    assert rebuilt["mastery"] == pytest.approx(session.mastery(), abs=1e-5)
    before = client.post("/predict", json={"history": [without_event(one) for one in sent]}).json()["predictions"]
    assert {one["concept"]: one["success"] for one in before} == pytest.approx(found["mastery"], abs=1e-5)
    skip = {"event": "one more", "concept": "c03", "skipped": True}
    assert client.post("/students/s2/answers", json=skip).json()["added"] == 1
    assert client.get("/students/s2/mastery").json()["mastery"]["c03"] != found["mastery"]["c03"]
    page = client.get("/?student=s2").text
    assert page.count('<td class="name skipped">skipped</td>') == sum(row["skipped"] for row in rows) + 1
    columns = page.split("<tbody>")[1].split("</tr>")[0]
    assert columns.count("<td") == len(rows) + 2  # before the first, and after each


def test_what_stands_behind_a_mastery_is_told_and_little_evidence_comes_last(store: Store) -> None:
    learned_from = tuple(5 if i == 3 else 100 + i for i in range(len(MODEL.concepts)))
    client = TestClient(create_app(Model(replace(MODEL.bundle, training_answers=learned_from)), store))
    sent = [answer(i) | {"concept": concept} for i, concept in enumerate(["c03", "c04", "c04"])]
    client.post("/students/ada/answers", json=sent)
    found = client.get("/students/ada/mastery").json()
    assert found["in_view"] == 3
    assert found["evidence"]["c04"] == {"answers": 2, "skips": 0, "training_answers": 104, "little": False}
    assert {concept for concept, behind in found["evidence"].items() if not behind["little"]} == {"c04"}
    history = [without_event(one) for one in sent]
    predicted = client.post("/predict", json={"history": history, "targets": [{"concept": "c03"}]}).json()
    assert predicted["predictions"][0]["evidence"] == found["evidence"]["c03"]
    for path in ("/", "/?student=ada"):
        page = client.get(path).text
        table = page.split('id="class"' if path == "/" else 'id="now"')[1].split("<tbody>")[1].split("</tbody>")[0]
        rows = table.split("<tr")[1:]
        assert "c04" in rows[0]
        assert ["little evidence" in row for row in rows] == [False] + [True] * 10


def test_a_page_says_how_many_of_the_answers_are_in_view(client: TestClient) -> None:
    client.post("/students/ada/answers", json=[answer(i) for i in range(30)])
    found = client.get("/students/ada/mastery").json()
    assert found["in_view"] < found["answers"] == 30
    assert sum(behind["answers"] for behind in found["evidence"].values()) == found["in_view"]
    assert f"30 answers known, {found['in_view']} of them in view of the model" in client.get("/?student=ada").text


def without_event(sent: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in sent.items() if name != "event"}


def test_a_skip_has_no_answer_and_an_answer_is_no_skip(client: TestClient) -> None:
    for wrong in ({"correct": 1, "skipped": True}, {"skipped": False}, {}, {"skipped": "yes"}, {"correct": 2}):
        detail = is_problem(client.post("/students/ada/answers", json={"event": "1", "concept": "c03"} | wrong), 422)
        assert "skipped" in detail or "correct" in detail
    assert client.get("/students/ada/mastery").json()["answers"] == 0


def test_a_model_that_does_not_read_skips_keeps_them_and_says_so(client: TestClient) -> None:
    client.post("/students/ada/answers", json=[answer(1), {"event": "2", "concept": "c03", "skipped": True}])
    session = MODEL.session()
    session.observe("q01", "c03", 1)
    with pytest.warns(UserWarning, match="trained without skipped offers"):
        found = client.get("/students/ada/mastery").json()
    assert (found["answers"], found["skips"]) == (1, 1)
    assert found["mastery"] == pytest.approx(session.mastery(), abs=1e-5)
    assert found["evidence"]["c03"]["skips"] == 0  # what was not read is no evidence


def test_students_who_are_no_longer_held_are_read_again(store: Store) -> None:
    students = Students(MODEL, store, held=1)
    for student in ("ada", "ben", "ada", "ben"):
        students.add(student, [Answer(f"e{students.mastery(student).answers}", None, "c03", int(student == "ada"))])
    one, other = MODEL.session(), MODEL.session()
    for _ in range(2):
        one.observe(None, "c03", 1)
        other.observe(None, "c03", 0)
    assert students.mastery("ada").success == pytest.approx(one.mastery_of_all().tolist(), abs=1e-6)
    assert students.mastery("ben").success == pytest.approx(other.mastery_of_all().tolist(), abs=1e-6)


def test_a_long_history_is_read_once_by_a_bundle_whoever_asks(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("hybrid", "dkt"):
        random_model(name, "all").save(tmp_path / name)
    model, other = (load(tmp_path / name) for name in ("hybrid", "dkt"))
    rng = np.random.default_rng(3)
    drawn = [Answer(f"e{i}", None, f"c{rng.integers(11):02}", int(rng.integers(2))) for i in range(3 * PAGE)]
    alone = model.session()
    for given in drawn:
        alone.observe(None, given.concept, int(given.correct or 0))
    store.add("ada", drawn[:-3])
    assert Students(model, store).mastery("ada").answers == len(drawn) - 3
    read: list[int] = []
    latest = store.latest

    def counted(known: Student, count: int, before: int | None = None) -> list[Answer]:
        read.append(count)
        return latest(known, count, before)

    monkeypatch.setattr(store, "latest", counted)
    store.add("ada", drawn[-3:])
    after_restart = Students(model, store).mastery("ada")
    assert read == [3]
    assert (after_restart.answers, after_restart.in_view) == (len(drawn), len(drawn))
    assert after_restart.success == pytest.approx(tuple(alone.mastery().values()), abs=1e-5)
    assert Students(other, store).mastery("ada").answers == len(drawn)
    assert sum(read[1:]) >= len(drawn)


def test_an_event_counts_once_and_may_not_change(client: TestClient) -> None:
    for _ in range(3):
        client.post("/students/ada/answers", json=answer(1))
    assert client.post("/students/ada/answers", json=[answer(1, correct=True), answer(2)]).json()["answers"] == 2
    assert "known already" in is_problem(client.post("/students/ada/answers", json=answer(1, correct=0)), 409)
    assert client.get("/students/ada/mastery").json()["answers"] == 2


def test_a_deleted_student_is_new_again_to_every_process(client: TestClient, store: Store) -> None:
    other = TestClient(create_app(MODEL, store))
    client.post("/students/ada/answers", json=[answer(i) for i in range(5)])
    assert other.get("/students/ada/mastery").json()["answers"] == 5
    assert client.delete("/students/ada").status_code == 204
    assert other.get("/students/ada/mastery").json() == client.get("/students/nobody/mastery").json()
    client.post("/students/ada/answers", json=[answer(i, "c05", 0) for i in range(5)])
    session = MODEL.session()
    for _ in range(5):
        session.observe("q01", "c05", 0)
    assert other.get("/students/ada/mastery").json()["mastery"] == pytest.approx(session.mastery(), abs=1e-5)
    is_problem(client.delete("/students/nobody"), 404)


def test_concepts_that_the_model_does_not_know_are_stored_named_and_given_back(
    client: TestClient, store: Store, tmp_path: Path
) -> None:
    """A platform that adds a topic loses none of its answers, and a model that is trained later knows of them."""
    sent = [
        answer(1),
        answer(2, "new topic"),
        answer(3, "new topic", 0),
        {"event": "4", "concept": "x", "skipped": True},
    ]
    added = client.post("/students/ada/answers", json=sent).json()
    assert added == {"added": 4, "answers": 3, "skips": 1, "unknown_concepts": ["new topic", "x"]}
    assert client.post("/students/ada/answers", json=sent[1]).json()["added"] == 0
    session = MODEL.session()
    session.observe("q01", "c03", 1)
    found = client.get("/students/ada/mastery").json()
    assert (found["answers"], found["mastery"]) == (3, pytest.approx(session.mastery(), abs=1e-5))
    history = [without_event(one) for one in sent]
    told = client.post("/predict", json={"history": history, "targets": [{"concept": "c03"}]}).json()
    assert told["unknown_concepts"] == ["new topic", "x"]
    assert told["predictions"][0]["success"] == pytest.approx(found["mastery"]["c03"], abs=1e-5)
    is_problem(client.post("/predict", json={"targets": [{"concept": "new topic"}]}), 422)
    given_back = collect(f"sqlite:///{tmp_path / 'students.db'}", tmp_path)[0].frame
    assert given_back["concept"].to_list() == ["c03", "new topic", "new topic", "x"]
    assert given_back["event"].to_list() == ["1", "2", "3", "4"]
    concepts = (*VOCABULARY.concepts, "new topic", "x")
    later = Model(random_bundle("simplekt", vocabulary=Vocabulary(concepts, VOCABULARY.questions)))
    session = later.session()
    for one in sent[:3]:
        session.observe("q01", one["concept"], one["correct"])
    found = TestClient(create_app(later, store)).get("/students/ada/mastery").json()
    assert found["mastery"] == pytest.approx(session.mastery(), abs=1e-5)


def test_what_is_offered_is_among_what_is_asked_for(client: TestClient, store: Store) -> None:
    free = client.get("/students/ada/next", params={"explore": 0}).json()
    for said in ({"concepts": "c03,c05, new"}, {"concepts": ["c05", "c03", "new"]}):
        found = client.get("/students/ada/next", params={"explore": 0.5, "count": 11} | said).json()
        assert {row["concept"] for row in found["ranking"]} == {"c03", "c05"}
        assert sum(row["propensity"] for row in found["ranking"]) == pytest.approx(1)
        assert found["ranking"][0]["propensity"] == pytest.approx(0.5 + 0.5 / 2)
        assert found["unknown_concepts"] == ["new"]
    assert "none of these concepts" in is_problem(client.get("/students/ada/next", params={"concepts": "new"}), 422)
    kept = store.offers()
    assert kept["among"].to_list() == [None, ["c03", "c05"], ["c03", "c05"]]
    assert kept["concept"][0] == free["next"]["concept"]


def test_a_concept_with_a_comma_in_its_name_can_be_asked_for(store: Store) -> None:
    names = ("Addition, whole numbers", *VOCABULARY.concepts[1:])
    model = Model(random_bundle("simplekt", vocabulary=Vocabulary(names, VOCABULARY.questions)))
    client = TestClient(create_app(model, store))
    found = client.get("/students/ada/next", params={"concepts": [names[0], "c01,c02"]}).json()
    assert {row["concept"] for row in found["ranking"]} == {names[0], "c01", "c02"}


def test_an_answer_names_the_offer_that_it_answers(client: TestClient, store: Store) -> None:
    offer, of_ben = (client.get(f"/students/{student}/next").json()["next"] for student in ("ada", "ben"))
    sent = answer(1, offer["concept"], offer=offer["offer"])
    assert client.post("/students/ada/answers", json=[sent]).json()["added"] == 1
    assert store.offers()["event"].to_list() == ["1", None]
    wrong = answer(2, of_ben["concept"], offer=of_ben["offer"])
    assert "not made to this student" in is_problem(client.post("/students/ada/answers", json=wrong), 422)
    other = answer(2, next(name for name in MODEL.concepts if name != offer["concept"]), offer=offer["offer"])
    assert f"was of '{offer['concept']}'" in is_problem(client.post("/students/ada/answers", json=other), 422)
    assert client.get("/students/ada/mastery").json()["answers"] == 1


def test_answers_are_listed_page_by_page(client: TestClient) -> None:
    sent = [answer(i, "new" if i == 3 else "c03", i % 2, time=1.7e9 + i) for i in range(7)]
    sent[5] = {"event": "5", "question": "q01", "concept": "c03", "skipped": True, "time": 1.7e9 + 5}
    client.post("/students/ada/answers", json=sent)
    found, after = [], 0
    while after is not None:
        page = client.get("/students/ada/answers", params={"after": after, "count": 3}).json()
        assert (page["answers"], page["skips"]) == (6, 1)
        found += page["events"]
        after = page["next"]
    assert [row["number"] for row in found] == list(range(1, 8))
    filled = [{"correct": None, "skipped": False, "offer": None} | one for one in sent]
    assert [{name: value for name, value in row.items() if name != "number"} for row in found] == filled
    beyond = client.get("/students/ada/answers", params={"after": 7}).json()
    assert (beyond["events"], beyond["next"]) == ([], None)
    nobody = client.get("/students/nobody/answers").json()
    assert nobody == {"answers": 0, "skips": 0, "events": [], "next": None}
    for wrong in ({"after": -1}, {"count": 0}, {"count": 1001}, {"after": 1 << 40}):
        is_problem(client.get("/students/ada/answers", params=wrong), 422)


@pytest.mark.parametrize(
    "path", ["/students/ada/next?concept=c03", "/students/ada/mastery?count=3", "/metrics?x=1", "/openapi.json?x="]
)
def test_a_parameter_that_there_is_not_is_refused(path: str, client: TestClient, store: Store) -> None:
    assert "there is no parameter" in is_problem(client.get(path), 422)
    assert store.offers().height == 0


def test_the_model_is_replaced_while_it_serves(store: Store, tmp_path: Path) -> None:
    """The new one answers from all that is stored; one that cannot be served is refused, and the old one stays."""
    folder, answers = tmp_path / "mine", [answer(1), answer(2, "new topic")]
    MODEL.save(folder)
    client = TestClient(create_app(tsdr.load(folder), store, folder=folder))
    client.post("/students/ada/answers", json=answers)
    old, before = client.get("/students/ada/mastery").json()["mastery"], client.get("/health").json()["bundle"]
    assert before["name"] == "mine"
    assert str(tsdr.load(folder).bundle.digest).startswith(before["weights"])
    same = client.post("/model").json()
    assert same == {"bundle": before, "changed": False}
    (folder / "bundle.json").write_text("{}")
    assert "is not a bundle" in is_problem(client.post("/model"), 422)
    assert client.get("/students/ada/mastery").json()["mastery"] == old
    shutil.rmtree(folder)
    new = Model(random_bundle("dkt", vocabulary=Vocabulary((*VOCABULARY.concepts, "new topic"), VOCABULARY.questions)))
    new.with_diagnosis({"verdict": "no diagnosis"}).save(folder)
    assert "diagnosis cannot be read" in is_problem(client.post("/model"), 422)
    assert client.get("/health").json()["bundle"] == before
    new.save(folder)
    renewed = client.post("/model").json()
    assert renewed["changed"]
    assert renewed["bundle"] == client.get("/health").json()["bundle"] != before
    session = new.session()
    for one in answers:
        session.observe(one["question"], one["concept"], one["correct"])
    assert client.get("/students/ada/mastery").json()["mastery"] == pytest.approx(session.mastery(), abs=1e-5)
    for page in (client.get("/").text, client.get("/?student=ada").text):
        assert f"dkt, 12 concepts, bundle mine ({renewed['bundle']['weights']})" in page
    assert client.post("/students/ada/answers", json=answer(3, "new topic")).json()["unknown_concepts"] == []


def test_a_service_without_a_folder_keeps_its_model(client: TestClient) -> None:
    assert "no folder" in is_problem(client.post("/model"), 422)
    assert client.get("/health").json()["bundle"]["name"] is None


def test_predict_needs_no_student(client: TestClient, store: Store) -> None:
    session = MODEL.session()
    session.observe("q01", "c03", 1)
    history = [{"question": "q01", "concept": "c03", "correct": True}]
    targets = [{"question": "q02", "concept": "c05"}, {"concept": "c06"}]
    found = client.post("/predict", json={"history": history, "targets": targets}).json()["predictions"]
    wanted = [session.predict("q02", "c05"), session.predict(None, "c06")]
    assert [row["success"] for row in found] == pytest.approx(wanted, abs=1e-6)
    every = client.post("/predict", json={"history": history}).json()["predictions"]
    assert {row["concept"]: row["success"] for row in every} == pytest.approx(session.mastery(), abs=1e-6)
    assert store.count() == 0


def test_offers_follow_their_propensities_and_are_stored(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """With 400 offers at an exploration share of 0.5, each share lies within four standard errors of its chance."""
    monkeypatch.setattr("tsdr.serving.students.SystemRandom", lambda: Random(7))
    client = TestClient(create_app(MODEL, store))
    client.post("/students/ada/answers", json=answer(1))
    offers, n = [], 400
    for _ in range(n):
        found = client.get("/students/ada/next", params={"target": 0.6, "explore": 0.5, "count": 11}).json()
        offers.append(found["next"])
    mastery = client.get("/students/ada/mastery").json()["mastery"]
    ranked = [row["concept"] for row in found["ranking"]]
    assert ranked == sorted(mastery, key=lambda concept: abs(mastery[concept] - 0.6))
    chance = {row["concept"]: row["propensity"] for row in found["ranking"]}
    assert sum(chance.values()) == pytest.approx(1)
    assert chance[ranked[0]] == pytest.approx(0.5 + 0.5 / 11)
    for concept, p in chance.items():
        share = sum(offer["concept"] == concept for offer in offers) / n
        assert abs(share - p) < 4 * (p * (1 - p) / n) ** 0.5, concept
    assert all(offer["propensity"] == pytest.approx(chance[offer["concept"]]) for offer in offers)
    kept = store.offers()
    assert kept["concept"].to_list() == [offer["concept"] for offer in offers]
    assert kept["propensity"].to_list() == pytest.approx([offer["propensity"] for offer in offers])
    best = client.get("/students/ada/next", params={"target": 0.6, "explore": 0}).json()["next"]
    assert (best["concept"], best["propensity"], best["explored"]) == (ranked[0], 1.0, False)


BAD_ANSWERS: dict[str, Any] = {
    "a concept with a space behind it": answer(1, "nothing "),
    "one of a list": [answer(1), answer(2, "no\0thing")],
    "an offer that was not made": answer(1, offer=7),
    "an offer that is none": answer(1, offer=True),
    "a number too large for an offer": answer(1, offer=1 << 63),
    "no event": {"concept": "c03", "correct": 1},
    "empty event": answer(""),
    "blank event": answer("  "),
    "correct is 2": answer(1, correct=2),
    "correct is text": answer(1, correct="1"),
    "correct is missing": {"event": "1", "concept": "c03"},
    "concept is a number": answer(1, correct=1) | {"concept": 3},
    "more than is asked": answer(1, admin=True),
    "too long": answer("x" * 201),
    "a zero byte": answer("a\0b"),
    "not a time": answer(1, time="yesterday"),
    "no answer at all": [],
    "too many": [answer(i) for i in range(MOST_ANSWERS + 1)],
    "a list of lists": [[answer(1)]],
    "a word": "answer",
    "nothing": None,
}


@pytest.mark.parametrize("bad", BAD_ANSWERS)
def test_bad_answers_are_refused_and_leave_no_trace(bad: str, client: TestClient, store: Store) -> None:
    assert is_problem(client.post("/students/ada/answers", json=BAD_ANSWERS[bad]), 422)
    assert store.count() == 0


@pytest.mark.parametrize("body", [b"{", b"\xff\xfe", b'{"event": "\\ud800", "concept": "c03", "correct": 1}', b""])
def test_what_cannot_be_read_is_refused(body: bytes, client: TestClient, store: Store) -> None:
    response = client.post("/students/ada/answers", content=body, headers={"content-type": "application/json"})
    assert response.status_code in (400, 422)
    assert response.headers["content-type"] == "application/problem+json"
    assert store.count() == 0


def test_what_is_too_large_is_refused_with_and_without_a_length(client: TestClient, store: Store) -> None:
    large = b" " * (LARGEST_BODY + 1)
    is_problem(client.post("/students/ada/answers", content=large), 413)
    is_problem(client.post("/students/ada/answers", content=iter([large[:1000]] * 2000)), 413)
    assert store.count() == 0


@pytest.mark.parametrize(
    "path",
    [
        "/students/../../etc/passwd",
        "/students/%2e%2e%2fx/mastery",
        "/students//mastery",
        "/students/a%00b/mastery",
        "/students/Jos%E9/mastery",
        "/students/%20ada/mastery",
        "/x",
    ],
)
def test_paths_lead_nowhere_else(path: str, client: TestClient, store: Store) -> None:
    response = client.get(path)
    assert 400 <= response.status_code < 500
    assert response.headers["content-type"] == "application/problem+json"
    assert store.count() == 0


def test_sql_in_an_id_is_a_name_like_any_other(client: TestClient, store: Store) -> None:
    client.post("/students/ada/answers", json=answer(1))
    evil = "x'; DELETE FROM students; --"
    assert client.post(f"/students/{evil}/answers", json=answer(1)).json()["added"] == 1
    assert client.delete("/students/' OR '1'='1").status_code == 404
    assert client.get("/students/ada/mastery").json()["answers"] == 1
    assert store.count() == 2


def test_limits_of_what_is_asked_next(client: TestClient, store: Store) -> None:
    for bad in ({"target": 1.1}, {"explore": -0.1}, {"count": 0}, {"count": 10_000}, {"target": "nan"}):
        is_problem(client.get("/students/ada/next", params=bad), 422)
    assert store.count() == 0


def test_nothing_of_another_student_is_in_any_answer(client: TestClient) -> None:
    client.post("/students/secret-name/answers", json=answer("secret-event", question="secret-question"))
    said = [
        client.post("/students/ada/answers", json=answer("secret-event", correct=0)).text,
        client.post("/students/ada/answers", json=answer("secret-event", correct=1)).text,
        client.get("/students/ada/mastery").text,
        client.get("/students/ada/next").text,
        client.get("/students/ada/answers").text.replace('"secret-event"', ""),  # her own is called so, too
        client.get("/metrics").text,
        client.get("/health").text,
        client.delete("/students/ada").text,
        client.get("/students/ada/mastery").text,
    ]
    assert not any("secret" in text.replace("event 'secret-event'", "") for text in said)


def test_with_a_token_everything_but_health_asks_for_it(store: Store) -> None:
    client = TestClient(create_app(MODEL, store, token="open sesame"), follow_redirects=False)
    assert client.get("/health").status_code == 200
    reads = ("/students/ada/mastery", "/students/ada/answers", "/students/ada/next", "/metrics", "/openapi.json")
    for path in reads:
        is_problem(client.get(path), 401)
        is_problem(client.get(path, headers={"authorization": "Bearer wrong"}), 401)
        for scheme in ("Bearer", "bearer"):
            assert client.get(path, headers={"authorization": f"{scheme} open sesame"}).status_code == 200
    is_problem(client.post("/students/eve/answers", json=answer(1)), 401)
    is_problem(client.post("/predict", json={}), 401)
    is_problem(client.post("/model"), 401)
    is_problem(client.delete("/students/ada"), 401)
    for path in ("/", "/log", "/?student=ada"):
        assert client.get(path).headers["location"] == "/sign-in"
    assert client.post("/", data={"student": "eve", "event": "1", "concept": "c03", "correct": "1"}).status_code == 303
    assert store.find("eve") is None
    assert client.post("/sign-in", data={"token": "wrong"}).status_code == 401
    entered = client.post("/sign-in", data={"token": "open sesame"})
    assert "HttpOnly" in entered.headers["set-cookie"]
    assert "SameSite=strict" in entered.headers["set-cookie"]
    assert client.get("/").status_code == 200


def test_the_interface_is_a_page_of_its_own_behind_the_token(store: Store) -> None:
    client = TestClient(create_app(MODEL, store, token="open sesame"), follow_redirects=False)
    assert client.get("/docs").headers["location"] == "/sign-in"
    page = client.get("/docs", headers={"authorization": "Bearer open sesame"}).text
    described = client.get("/openapi.json", headers={"authorization": "Bearer open sesame"}).json()
    for path, methods in described["paths"].items():
        assert all(f"{method.upper()} {path}</code>" in page for method in methods)
    assert "concepts</code>" in page
    assert "list of string or null, if any" in page
    assert "<script" not in page
    client.post("/sign-in", data={"token": "open sesame"})
    assert client.get("/docs").status_code == 200


def test_odd_tokens(client: TestClient, store: Store) -> None:
    for token, why in (("日本", "ASCII"), ("a\nb", "printable"), ("a ", "space"), ("x" * 1001, "1,000 characters")):
        with pytest.raises(InputError, match=why):
            create_app(MODEL, store, token=token)
    entered = client.post("/sign-in", data={"token": "日本"}, follow_redirects=False)
    assert entered.status_code == 303  # there is nothing to sign in to
    assert "set-cookie" not in entered.headers


def test_those_who_look_whether_it_lives_may_ask_for_the_head_alone(client: TestClient) -> None:
    assert client.head("/health").status_code == client.head("/").status_code == 200


def test_other_sites_and_other_names_are_refused(store: Store) -> None:
    client = TestClient(create_app(MODEL, store, hosts={"127.0.0.1", "[::1]"}), base_url="http://127.0.0.1:8000")
    assert client.get("/health").status_code == 200
    assert client.get("/health", headers={"host": "[::1]:8000"}).status_code == 200
    is_problem(client.get("/health", headers={"host": "evil.example:8000"}), 421)
    form = {"student": "eve", "event": "1", "concept": "c03", "correct": "1"}
    for headers in (
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
    ):
        is_problem(client.post("/", data=form, headers=headers), 403)
        if "origin" not in headers or headers["origin"] != "null":
            is_problem(client.get("/students/eve/next", headers=headers), 403)
    is_problem(client.get("/", headers={"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}), 403)
    assert store.count() == 0
    left_for_it = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert client.get("/", headers=left_for_it).status_code == 200
    same = {"sec-fetch-site": "same-origin", "origin": "http://127.0.0.1:8000"}
    assert client.post("/", data=form, headers=same).status_code == 200
    assert store.count() == 1


def test_a_store_that_is_gone_is_told_by_every_route_and_by_health(store: Store, tmp_path: Path) -> None:
    client = TestClient(create_app(MODEL, store))
    client.post("/students/ada/answers", json=answer(1))
    (tmp_path / "students.db").rename(tmp_path / "elsewhere.db")
    form = {"student": "ada", "event": "2", "concept": "c03", "correct": "1"}
    for response in (
        client.post("/students/ada/answers", json=answer(2)),
        client.get("/students/ada/mastery"),
        client.post("/", data=form),
        client.get("/health"),
    ):
        assert "students.db of the store is gone" in is_problem(response, 503)
        assert int(response.headers["retry-after"]) > 0
    (tmp_path / "elsewhere.db").rename(tmp_path / "students.db")
    assert client.post("/students/ada/answers", json=answer(2)).json()["answers"] == 2
    assert client.get("/health").status_code == 200


def test_a_store_that_can_be_read_only_is_told_by_health_and_is_read(tmp_path: Path) -> None:
    Store(url := f"sqlite:///{tmp_path / 'students.db'}").close()
    store = Store.served(url)

    def refuse(connection: sqlite3.Connection, record: object) -> None:
        connection.execute("PRAGMA query_only = ON")

    engine = store._database._engine
    client = TestClient(create_app(MODEL, store))
    client.post("/students/ada/answers", json=answer(1))
    store.close()
    sqlalchemy.event.listen(engine, "connect", refuse)
    for response in (client.get("/health"), client.post("/students/ada/answers", json=answer(2))):
        assert "the store can be read only" in is_problem(response, 503)
    assert client.get("/students/ada/mastery").json()["answers"] == 1
    sqlalchemy.event.remove(engine, "connect", refuse)
    store.close()
    assert client.post("/students/ada/answers", json=answer(2)).json()["answers"] == 2
    assert client.get("/health").status_code == 200


def test_one_student_s_turn_is_not_waited_for_by_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tsdr.serving.guard.TURN_SECONDS", 0.1)

    async def try_all() -> list[str]:
        turns, ended = Turns(2), asyncio.Event()
        served = []

        async def ask(student: str, ends: bool) -> None:
            try:
                async with turns.of(student):
                    served.append(student)
                    if not ends:
                        await ended.wait()
            except HeldError:
                served.append(f"not {student}")

        held = asyncio.create_task(ask("ada", ends=False))
        await asyncio.sleep(0)
        await asyncio.gather(*(ask("ada", ends=True) for _ in range(3)), ask("ben", ends=True))
        ended.set()
        await held
        await ask("ada", ends=True)
        return served

    assert asyncio.run(try_all()) == ["ada", "ben", "not ada", "not ada", "not ada", "ada"]


def test_measures_are_in_the_format_of_prometheus(client: TestClient) -> None:
    client.post("/students/ada/answers", json=[answer(1), answer(2)])
    client.get("/students/ada/mastery")
    text = client.get("/metrics").text
    assert "tsdr_answers_stored_total 2.0" in text
    assert 'tsdr_requests_total{method="GET",route="/students/{student}/mastery",status="200"} 1.0' in text
    assert "ada" not in text


def test_requests_are_logged_by_their_route_and_name_nobody(
    client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", logger="tsdr.access"):
        client.post("/students/ada/answers", json=answer(1))
        client.get("/students/ada/next?concept=c03")
        client.get("/nothing/ada")
    said = [record.getMessage() for record in caplog.records if record.name == "tsdr.access"]
    assert [line.split()[:3] for line in said] == [
        ["POST", "/students/{student}/answers", "200"],
        ["GET", "/students/{student}/next", "422"],
        ["GET", "none", "404"],
    ]
    assert "ada" not in str(said)


def test_no_page_of_it_asks_another_host_for_anything(client: TestClient) -> None:
    response = client.get("/")
    assert "default-src 'none'" in response.headers["content-security-policy"]
    assert "http" not in response.text.replace("http-equiv", "")
    assert "<script" not in response.text


def test_names_are_escaped_on_the_page(client: TestClient) -> None:
    evil = "<img src=x onerror=alert(1)>"
    sent = client.post("/", data={"student": evil, "event": "1", "concept": "c03", "correct": "1", "question": evil})
    assert sent.status_code == 200
    for page in (client.get("/").text, client.get("/", params={"student": evil}).text, sent.text):
        assert "<img" not in page
        assert "&lt;img" in page


def test_the_page_says_what_is_wrong_with_an_answer(client: TestClient, store: Store) -> None:
    refused = client.post("/", data={"student": "ada", "event": "1", "concept": "nothing", "correct": "1"})
    assert refused.status_code == 422
    assert "does not know the concept" in refused.text
    assert store.count() == 0


def schema_app() -> FastAPI:
    import tempfile

    folder = tempfile.mkdtemp(prefix="tsdr-schema-")
    return create_app(MODEL, Store(f"sqlite:///{folder}/students.db"))


APP = schema_app()
SCHEMA = schemathesis.openapi.from_dict(json.loads(json.dumps(APP.openapi())))
SCHEMA.app = APP


@SCHEMA.parametrize()
@settings(max_examples=40, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
def test_nothing_that_the_description_allows_or_forbids_brings_it_down(case: Any) -> None:
    response = case.call()
    assert response.status_code < 500
    case.validate_response(response, checks=[schemathesis.checks.not_a_server_error])


def test_the_class_page_says_what_a_model_of_counts_has_found_out(store: Store) -> None:
    for name, told in (("counts", True), ("simplekt", False)):
        with TestClient(create_app(random_model(name), store)) as opened:
            page = opened.get("/").text
        assert ("What the model has found out" in page) == told
        assert ("after one right" in page) == told
