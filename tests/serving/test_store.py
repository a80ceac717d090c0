"""The same for SQLite and for PostgreSQL: every event once, in order, all or none."""

import os
import shutil
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
import sqlalchemy
from postgres import backends, postgres_server

from tsdr import InputError, read_log
from tsdr.serving.databases import HeldError, StoreError, without_password
from tsdr.serving.store import SCHEMA, Added, Answer, ConflictError, KeptSession, Offer, Store, Student, _tables

OFFER = Offer(answers=0, concept="c", success=0.6, propensity=0.05, explored=True, target=0.7, explore=0.1)


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    with postgres_server() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'students.db'}"
        return
    server: str = request.getfixturevalue("postgres")
    yield server
    engine = sqlalchemy.create_engine(server.replace("postgresql", "postgresql+psycopg"))
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("DROP TABLE IF EXISTS sessions, offers, answers, students, tsdr_store"))
    engine.dispose()


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    opened = Store(url)
    yield opened
    opened.close()


def answers(*events: int, time: float | None = 5.0) -> list[Answer]:
    return [Answer(f"e{event}", f"q{event}", f"c{event % 3}", event % 2, time) for event in events]


def found(store: Store, student: str, count: int = 1000) -> list[Answer]:
    known = store.find(student)
    assert known is not None
    return store.latest(known, count)


def added(store: Store, student: str, new: list[Answer]) -> tuple[int, int]:
    """How many answers were new, and how many there are now."""
    told = store.add(student, new)
    return told.answers, told.student.answers


def test_answers_come_back_in_order_and_each_event_once(store: Store) -> None:
    assert store.find("ada") is None
    assert added(store, "ada", answers(3, 1)) == (2, 2)
    assert added(store, "ada", answers(1, 2, 2)) == (1, 3)
    assert added(store, "ada", answers(3)) == (0, 3)
    assert found(store, "ada") == answers(3, 1, 2)
    assert found(store, "ada", 2) == answers(1, 2)
    assert added(store, "ben", answers(3)) == (1, 1)
    assert store.count() == 2


def test_skipped_offers_stand_among_answers_and_are_counted_apart(store: Store) -> None:
    skips = [Answer("s1", "q2", "c2", None, 6.0), Answer("s2", None, "c0", None, 8.0)]
    told = [*answers(1), skips[0], *answers(3, time=7.0), skips[1]]
    assert store.add("ada", told) == Added(2, 2, Student(1, "ada", 2, 2))
    assert found(store, "ada") == told
    assert found(store, "ada", 2) == told[2:]
    known = store.find("ada")
    assert known is not None
    assert store.latest(known, 2, 3) == told[1:3]
    assert store.concepts(known) == {"c1": 1, "c0": 1}
    assert added(store, "ada", told) == (0, 2)
    with pytest.raises(ConflictError):
        store.add("ada", [Answer("s1", "q2", "c2", 1, 6.0)])  # skipped, it was not answered
    log = store.log()
    assert log.frame["skipped"].to_list() == [False, True, False, True]
    assert log.frame["correct"].to_list() == [1, None, 1, None]


def test_a_store_from_before_skips_and_answered_offers_were_kept_is_brought_up(url: str) -> None:
    engine = sqlalchemy.create_engine(url.replace("postgresql", "postgresql+psycopg"))
    Store(url).close()
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("DROP TABLE tsdr_store"))
        for table, column in (("students", "skips"), ("answers", "offer"), ("offers", "among")):
            connection.execute(sqlalchemy.text(f"ALTER TABLE {table} DROP COLUMN {column}"))
        connection.execute(sqlalchemy.text("INSERT INTO students (id, answers, seen) VALUES ('ada', 1, 5)"))
        connection.execute(sqlalchemy.text("INSERT INTO answers VALUES (1, 0, 'e1', 'q1', 'c1', 1, 5)"))
    engine.dispose()
    store = Store(url)
    assert found(store, "ada") == answers(1)
    assert store.add("ada", [Answer("s", "q1", "c1", None, 6.0)]) == Added(0, 1, Student(1, "ada", 1, 1))
    offer = store.offer("ada", replace(OFFER, among=["c"]))
    assert store.add("ada", [Answer("o", "q1", "c", 1, 7.0, offer)]).answers == 1
    store.close()


def test_an_event_with_another_content_is_refused_and_nothing_of_it_kept(store: Store) -> None:
    store.add("ada", answers(1))
    for other in (
        [Answer("e1", "q1", "c1", 0, 5.0)],
        [*answers(7), Answer("e1", "other", "c1", 1, 5.0)],
        [*answers(8), Answer("e8", "q8", "c0", 1, 5.0)],
    ):
        with pytest.raises(ConflictError):
            store.add("ada", other)
    assert found(store, "ada") == answers(1)
    with pytest.raises(ConflictError):
        store.add("new", [*answers(8), Answer("e8", "q8", "c0", 1, 5.0)])
    assert store.find("new") is None
    assert added(store, "ada", answers(1, time=99.0)) == (0, 1)  # dated anew, it says the same


def test_an_answer_without_a_time_gets_the_store_s(store: Store) -> None:
    store.add("ada", answers(1, time=None))
    (answer,) = found(store, "ada")
    assert answer.time is not None
    assert answer.time > 1.7e9


def test_names_are_data_whatever_they_are(store: Store) -> None:
    names = ["'; DROP TABLE answers; --", '" OR ""="', "%", "_", "../../etc/passwd", "日本語 😀", "a" * 200]
    for name in names:
        assert added(store, name, [Answer(name, name, name, 1, 1.0)]) == (1, 1)
    for name in names:
        assert found(store, name) == [Answer(name, name, name, 1, 1.0)]
    assert store.count() == len(names)


def test_a_student_is_forgotten_whole(store: Store) -> None:
    store.add("ada", answers(1, 2))
    store.add("ben", answers(1))
    store.offer("ada", OFFER)
    before = store.find("ada")
    assert store.delete("ada")
    assert not store.delete("ada")
    assert store.find("ada") is None
    assert store.offers().height == 0
    assert found(store, "ben") == answers(1)
    store.add("ada", answers(5))
    after = store.find("ada")
    assert before is not None
    assert after is not None
    assert after.number > before.number  # nobody takes the new student for the old one
    assert found(store, "ada") == answers(5)


def test_offers_are_kept_with_their_propensity(store: Store) -> None:
    first, second = store.offer("ada", OFFER), store.offer("ada", OFFER)
    assert second > first
    kept = store.offers().drop("time").row(0, named=True)
    assert kept == {"offer": first, "student": "ada", "event": None} | vars(OFFER) | {"correct": None}
    assert found(store, "ada") == []


def test_offers_are_kept_with_what_came_of_them(store: Store) -> None:
    """The first event that names an offer is what it led to: an answer or a skip; of others nothing is known."""
    right, skipped, left, of_ben = (store.offer(student, OFFER) for student in ("ada", "ada", "ada", "ben"))
    said = [
        Answer("1", "q", "c", 1, 1.0, right),
        Answer("2", "r", "c", 0, 2.0, right),
        Answer("3", "q", "c", None, 3.0),
    ]
    store.add("ada", said)
    store.add("ada", [replace(said[2], event="4", offer=skipped), replace(said[0], offer=None)])
    outcomes = store.offers().select("offer", "event", "correct").rows()
    assert outcomes == [(right, "1", 1), (skipped, "4", None), (left, None, None), (of_ben, None, None)]
    assert found(store, "ada")[0].offer == right, "sent again without it, it still answers the offer"
    for wrong, why in ((of_ben, "was not made to this student"), (10**15, "was not made"), (left, "was of 'c'")):
        with pytest.raises(InputError, match=f"event '5': offer {wrong} {why}"):
            store.add(
                "ada", [Answer("6", "q", "c", 1), Answer("5", "q", "d" if wrong == left else "c", 1, offer=wrong)]
            )
    assert len(found(store, "ada")) == 4


def test_the_store_is_a_log(store: Store) -> None:
    store.add("ada", [Answer("1", "q", "c", 1, 20.0), Answer("2", None, "c", 0, 10.0)])
    store.add("ben", [Answer("1", "q", "d", 1, 1.0)])
    columns = ("student", "question", "concept", "correct")
    assert store.log().frame.select(columns).rows() == [
        ("ada", "q", "c", 1),
        ("ada", "no question: c", "c", 0),  # not the question "c", if there is one
        ("ben", "q", "d", 1),
    ]
    store.delete("ada")
    store.delete("ben")
    store.add("cy", [Answer("1", None, "c", 1, 1.0)])
    assert store.log().frame.select(columns).rows() == [("cy", "c", "c", 1)]


def test_a_clock_that_was_set_back_does_not_change_the_order(store: Store, tmp_path: Path) -> None:
    told = [Answer(f"e{i}", "q", "c", int(i < 5), 1000.0 - 10 * i) for i in range(10)]
    for answer in told:
        store.add("ada", [answer])
    store.log().write(tmp_path / "log.parquet")
    for log in (store.log(), read_log(tmp_path / "log.parquet")):
        assert log.frame["correct"].to_list() == [1] * 5 + [0] * 5
        assert log.frame["acknowledged"].to_list() == list(range(10))
        assert log.frame["time"].to_list() == [answer.time for answer in told]


def test_those_seen_last_come_first(store: Store) -> None:
    for student in ("ada", "ben", "cy", "ada"):
        store.add(student, answers(1))
    assert [student.id for student in store.recent(2)] == ["ada", "cy"]


def test_two_writers_to_the_same_student_lose_and_double_nothing(url: str) -> None:
    """Each of four writers, on connections of its own, sends its own answers and those that all of them send."""
    writers, each, failures = 4, 30, []

    def write(writer: int) -> None:
        try:
            own = Store(url)
            for i in range(each):
                own.add("ada", [Answer(f"w{writer}-{i}", "q", "c", 1, 1.0)])
                own.add("ada", [Answer(f"shared-{i}", "q", "c", 1, 1.0)])
            own.close()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    store = Store(url)
    events = [answer.event for answer in found(store, "ada")]
    assert len(events) == len(set(events)) == (writers + 1) * each
    for prefix in (*(f"w{writer}" for writer in range(writers)), "shared"):
        own = [int(event.split("-")[1]) for event in events if event.startswith(f"{prefix}-")]
        assert own == list(range(each))
    assert store.find("ada") == Student(store.recent(1)[0].number, "ada", (writers + 1) * each, 0)
    store.close()


def test_two_that_create_the_tables_at_once_both_succeed(url: str) -> None:
    failures = []

    def create() -> None:
        try:
            Store(url).close()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=create) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.parametrize(
    "bad", ["students.db", "sqlite://", "sqlite:///:memory:", "mysql://x/y", "sqlite:////nowhere/at/all.db", "a b c"]
)
def test_what_is_no_store_is_refused(bad: str) -> None:
    with pytest.raises(InputError, match="store"):
        Store(bad)


def test_a_file_that_is_no_store_is_refused_and_left_alone(tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("these are notes " * 100)
    with pytest.raises(InputError, match="cannot be used as a store"):
        Store(f"sqlite:///{other}")
    assert other.read_text() == "these are notes " * 100


def test_a_server_that_cannot_be_reached_is_refused_without_its_password() -> None:
    for url in ("postgresql://ada:secret@127.0.0.1:1/none", "postgresql://ada:secret@127.0.0.1:port/none"):
        with pytest.raises(InputError, match="store") as refusal:
            Store(url)
        assert "secret" not in str(refusal.value)
        assert "secret" not in without_password(url)


def test_a_store_of_a_newer_schema_and_what_is_none_are_refused(url: str, tmp_path: Path) -> None:
    Store(url).close()
    served = Store.served(url)
    served.add("ada", answers(1))
    engine = sqlalchemy.create_engine(url.replace("postgresql", "postgresql+psycopg"))
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("UPDATE tsdr_store SET version = 99"))
    with pytest.raises(InputError, match="schema 99, and this tsdr knows those up to"):
        Store(url)
    with pytest.raises(StoreError, match="restart it with the other tsdr"):
        served.check()
    served.close()
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("DROP TABLE tsdr_store"))
        connection.execute(sqlalchemy.text("ALTER TABLE offers ADD COLUMN price INTEGER"))
    with pytest.raises(InputError, match=r"holds something else .its table 'offers'"):
        Store(url)
    engine.dispose()


def test_a_file_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "other.db") as other:
        other.execute("CREATE TABLE books (title TEXT)")
    with pytest.raises(InputError, match="'books' is not one of a store"):
        Store(f"sqlite:///{tmp_path / 'other.db'}")
    with sqlite3.connect(tmp_path / "other.db") as other:
        assert other.execute("SELECT name FROM sqlite_master").fetchall() == [("books",)]


def test_a_session_is_kept_for_its_bundle_its_student_and_no_fewer_events(store: Store) -> None:
    three = store.add("ada", answers(1, 2, 3)).student
    store.keep_session(three, "one", b"by three")
    assert store.kept_session(three, "one") == KeptSession(3, b"by three")
    assert store.kept_session(three, "another") is None
    assert store.kept_session(replace(three, answers=2), "one") is None
    four = store.add("ada", answers(4)).student
    assert store.kept_session(four, "one") == KeptSession(3, b"by three")
    store.keep_session(four, "one", b"by four")
    assert store.kept_session(four, "one") == KeptSession(4, b"by four")
    store.delete("ada")
    store.keep_session(four, "one", b"of nobody")
    assert store.kept_session(four, "one") is None
    assert store.kept_session(store.add("ada", answers(1)).student, "one") is None


def test_keeping_a_session_waits_for_nobody_and_is_no_trouble(url: str) -> None:
    Store(url).close()
    store = Store.served(url)
    known = store.add("ada", answers(1)).student
    with store._database.writing() as connection:
        store._hold(connection, "ada")
        begun = time.monotonic()
        with pytest.raises(HeldError):
            store.keep_session(known, "one", b"...")
        assert time.monotonic() - begun < 1.0  # another write waits for 1.5 s
    store.check()
    store.keep_session(known, "one", b"...")
    store.close()


def test_the_schema_has_the_version_that_it_says() -> None:
    """Who changes the tables raises SCHEMA, so that older stores are brought up, and writes the new columns here."""
    columns = {table.name: " ".join(table.columns.keys()) for table in _tables.sorted_tables}
    assert (SCHEMA, columns) == (
        2,
        {
            "students": "number id answers skips seen",
            "answers": "student place event question concept correct time offer",
            "offers": "number student answers concept success propensity explored target explore time among",
            "sessions": "student bundle events kept",
        },
    )


def unlink(path: Path) -> None:
    path.unlink()


def replace_by_a_copy(path: Path) -> None:
    shutil.copy(path, f"{path}.copy")
    os.replace(f"{path}.copy", path)


@pytest.mark.parametrize(("attack", "part"), [(unlink, ""), (replace_by_a_copy, ""), (unlink, "-wal")])
def test_nothing_is_acknowledged_once_the_file_is_another(
    attack: Callable[[Path], None], part: str, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'students.db'}"
    Store(url).close()
    store = Store.served(url)
    store.add("ada", answers(1))
    store.check()
    attack(tmp_path / f"students.db{part}")
    for use in (lambda: store.add("ada", answers(2)), store.check, lambda: store.find("ada")):
        with pytest.raises(StoreError, match=r"gone|replaced"):
            use()
    assert not part or (tmp_path / "students.db").exists()


def test_a_file_that_is_moved_and_brought_back_is_served_again(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'students.db'}"
    Store(url).close()
    store = Store.served(url)
    store.add("ada", answers(1))
    (tmp_path / "students.db").rename(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="gone"):
        store.add("ada", answers(2))
    assert not (tmp_path / "students.db").exists()  # nobody makes a new one
    (tmp_path / "elsewhere").rename(tmp_path / "students.db")
    store.add("ada", answers(2))
    store.check()
    assert found(store, "ada") == answers(1, 2)
    store.close()


def test_no_wait_for_a_file_that_another_process_holds_is_long(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'students.db'}"
    Store(url).close()
    store = Store.served(url)
    store.add("ada", answers(1))
    other = sqlite3.connect(tmp_path / "students.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    begin = time.monotonic()
    store.check()  # it is held at this moment, which says nothing
    assert time.monotonic() < begin + 1
    with pytest.raises(HeldError):
        store.add("ada", answers(2))
    assert time.monotonic() < begin + 4
    assert found(store, "ada") == answers(1)
    with pytest.raises(HeldError):
        store.check()
    other.execute("ROLLBACK")
    store.check()
    assert added(store, "ada", answers(2)) == (1, 2)
    other.close()
    store.close()


def test_no_wait_for_a_row_that_another_process_holds_is_long(postgres: str) -> None:
    Store(postgres).close()
    store = Store.served(postgres)
    store.add("ada", answers(1))
    with psycopg.connect(postgres) as other:
        other.execute("SELECT * FROM students WHERE id = 'ada' FOR UPDATE")
        begin = time.monotonic()
        with pytest.raises(HeldError):
            store.add("ada", answers(2))
        store.add("ben", answers(2))
        store.check()
        assert time.monotonic() < begin + 4
        assert found(store, "ada") == answers(1)
    assert added(store, "ada", answers(2)) == (1, 2)
    store.delete("ada")
    store.delete("ben")
    store.close()


def test_a_server_that_is_frozen_is_given_up_and_taken_up_again(postgres: str) -> None:
    Store(postgres).close()
    store = Store.served(postgres)
    store.add("ada", answers(1))
    frozen = backends(postgres)
    begin = time.monotonic()
    for process in frozen:
        os.kill(process, signal.SIGSTOP)
    try:
        for _ in range(5):
            with pytest.raises(StoreError, match="does not answer"):
                store.add("ada", answers(2))
        assert time.monotonic() < begin + 4.5, "only the first waits"
    finally:
        for process in frozen:
            os.kill(process, signal.SIGCONT)
    time.sleep(1.1)
    store.check()
    assert added(store, "ada", answers(2))[1] == 2
    store.delete("ada")
    store.close()


@contextmanager
def read_only(url: str, store: Store) -> Iterator[None]:
    """The database of a store refuses whatever would change it, as by its own settings or on such a disk."""
    if url.startswith("postgresql"):
        with psycopg.connect(url, autocommit=True) as other:
            other.execute("ALTER ROLE CURRENT_USER SET default_transaction_read_only = on")
            store.close()  # it is new connections that the setting is for
            try:
                yield
            finally:
                other.execute("ALTER ROLE CURRENT_USER RESET default_transaction_read_only")
    else:
        engine = store._database._engine
        store.close()

        def refuse(connection: sqlite3.Connection, record: object) -> None:
            connection.execute("PRAGMA query_only = ON")

        sqlalchemy.event.listen(engine, "connect", refuse)
        yield
        sqlalchemy.event.remove(engine, "connect", refuse)
    store.close()


def test_a_store_that_can_be_read_only_says_so_and_is_read(url: str) -> None:
    store = Store(url)
    store.add("ada", answers(1))
    with read_only(url, store):
        for use in (store.check, lambda: store.add("ada", answers(2)), store.check):
            with pytest.raises(StoreError, match="can be read only"):
                use()
        assert found(store, "ada") == answers(1)
    store.check()
    assert added(store, "ada", answers(2)) == (1, 2)
    store.close()


def test_a_table_that_is_missing_is_found_out(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'students.db'}"
    store = Store(url)
    store.add("ada", answers(1))
    store.close()
    with sqlite3.connect(tmp_path / "students.db") as other:
        other.execute("DROP TABLE offers")
    served = Store.served(url)
    with pytest.raises(StoreError, match="tables are not those"):
        served.check()
    assert found(served, "ada") == answers(1)
    served.close()
