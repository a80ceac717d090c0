"""Answers and offers of students, in SQLite or PostgreSQL: durable once acknowledged, every event once, in order.

A student is a row with a number of its own and a count of answers and skips; whoever writes for a student holds that
row until the transaction ends, so that both are numbered without a gap, in the order in which they were acknowledged.
A student who was deleted and comes back has another number.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import polars as pl
import sqlalchemy as sql
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection

from tsdr.errors import InputError
from tsdr.log import Log
from tsdr.serving.databases import COMMAND, SERVICE, Database

SCHEMA = (
    2  # the version of the tables; raised with every change of them, for a new column can be left out or has a value
)
NO_QUESTION = "no question: "  # before a concept, where it stands in for a question in a log that has questions
_SKIPPED = 2  # in the place of an answer, so that stores from before skips were kept need no change there


class _Correct(sql.TypeDecorator[int]):
    """Whether an answer was right, or nothing for an offer that was skipped, in a column that always has a number."""

    impl = sql.Integer
    cache_ok = True

    def process_bind_param(self, value: int | None, dialect: Any) -> int:
        """As it is stored."""
        return _SKIPPED if value is None else value

    def process_result_value(self, value: int | None, dialect: Any) -> int | None:
        """As it was given."""
        return None if value == _SKIPPED else value


_NUMBER = sql.BigInteger().with_variant(sql.Integer, "sqlite")
_tables = sql.MetaData()
_students = sql.Table(
    "students",
    _tables,
    sql.Column("number", _NUMBER, primary_key=True, autoincrement=True),
    sql.Column("id", sql.Text, nullable=False, unique=True),
    sql.Column("answers", sql.Integer, nullable=False),
    sql.Column("skips", sql.Integer, nullable=False, server_default="0"),
    sql.Column("seen", sql.Float, nullable=False, index=True),
    sqlite_autoincrement=True,  # a number is never given again
)
_answers = sql.Table(
    "answers",
    _tables,
    sql.Column("student", _NUMBER, sql.ForeignKey(_students.c.number, ondelete="CASCADE"), primary_key=True),
    sql.Column("place", sql.Integer, primary_key=True),
    sql.Column("event", sql.Text, nullable=False),
    sql.Column("question", sql.Text),
    sql.Column("concept", sql.Text, nullable=False),
    sql.Column("correct", _Correct, nullable=False),
    sql.Column("time", sql.Float, nullable=False),
    sql.Column("offer", _NUMBER),
    sql.UniqueConstraint("student", "event"),
    sqlite_with_rowid=False,  # a student's answers lie side by side
)
_offers = sql.Table(
    "offers",
    _tables,
    sql.Column("number", _NUMBER, primary_key=True, autoincrement=True),
    sql.Column("student", _NUMBER, sql.ForeignKey(_students.c.number, ondelete="CASCADE"), nullable=False, index=True),
    sql.Column("answers", sql.Integer, nullable=False),
    sql.Column("concept", sql.Text, nullable=False),
    sql.Column("success", sql.Float, nullable=False),
    sql.Column("propensity", sql.Float, nullable=False),
    sql.Column("explored", sql.Boolean, nullable=False),
    sql.Column("target", sql.Float, nullable=False),
    sql.Column("explore", sql.Float, nullable=False),
    sql.Column("time", sql.Float, nullable=False),
    sql.Column("among", sql.JSON(none_as_null=True)),
)
# What sessions came to know, so that they need not read a long history anew: of no use to any other bundle.
_sessions = sql.Table(
    "sessions",
    _tables,
    sql.Column("student", _NUMBER, sql.ForeignKey(_students.c.number, ondelete="CASCADE"), primary_key=True),
    sql.Column("bundle", sql.Text, nullable=False),
    sql.Column("events", sql.Integer, nullable=False),
    sql.Column("kept", sql.LargeBinary, nullable=False),
)


_STUDENT = _students.c.number, _students.c.id, _students.c.answers, _students.c.skips


class ConflictError(InputError):
    """An event that is known already, with another content."""

    def __init__(self, event: str) -> None:
        super().__init__(f"event {event!r} is known already, with another content")
        self.event = event


@dataclass(frozen=True)
class Answer:
    """An answer of a student, or an offer that was skipped, which has no `correct`.

    `event` is the client's name for it, `time` in seconds since 1970, `offer` the number of the one that it answers.
    """

    event: str
    question: str | None
    concept: str
    correct: int | None
    time: float | None = None
    offer: int | None = None

    def says_the_same_as(self, other: "Answer") -> bool:
        """Whether both are the same, dated and explained as they may be."""
        return (self.question, self.concept, self.correct) == (other.question, other.concept, other.correct)


@dataclass(frozen=True)
class Offer:
    """A concept that a student with so many `answers` was offered, and how likely that offer was.

    It was drawn from the concepts that it was `among`; from all of the model's, where nothing is said.
    """

    answers: int
    concept: str
    success: float
    propensity: float
    explored: bool
    target: float
    explore: float
    among: list[str] | None = None


@dataclass(frozen=True)
class Student:
    """Who is known: a number, the id, and how many answers and skipped offers there are."""

    number: int
    id: str
    answers: int
    skips: int

    @property
    def events(self) -> int:
        """All of them: the place of the next one."""
        return self.answers + self.skips


@dataclass(frozen=True)
class KeptSession:
    """What a session knew by so many events of a student, as it gave it to be kept."""

    events: int
    content: bytes


@dataclass(frozen=True)
class Added:
    """How many of the events that came were new, answers and skipped offers, and what the student has now."""

    answers: int
    skips: int
    student: Student


class Store:
    """What a service knows of its students. Threads and processes may share it."""

    def __init__(self, url: str) -> None:
        self._database = Database(url, _tables, SCHEMA, COMMAND)
        self._database.bring_up()

    @classmethod
    def served(cls, url: str) -> "Store":
        """The store of a service that has been brought up before; that it cannot be reached is told by each request."""
        store = cls.__new__(cls)
        store._database = Database(url, _tables, SCHEMA, SERVICE)
        return store

    def add(self, student: str, answers: Sequence[Answer]) -> Added:
        """Append answers and skipped offers, all or none.

        An event that is known already is not added again; if it comes with another content, `ConflictError` is raised.
        An offer that is answered was made to this student, of this concept.
        """
        with self._database.writing() as connection:
            held = self._hold(connection, student)
            now = time.time()  # while the student is held: times are in the order of places
            known = self._events(connection, held.number, [answer.event for answer in answers])
            new: dict[str, Answer] = {}
            for answer in answers:
                before = known.get(answer.event) or new.get(answer.event)
                if before is None:
                    new[answer.event] = answer
                elif not before.says_the_same_as(answer):
                    raise ConflictError(answer.event)
            self._check_offers(connection, held.number, new.values())
            if new:
                rows = [
                    asdict(answer)
                    | {
                        "student": held.number,
                        "place": place,
                        "time": now if answer.time is None else answer.time,
                    }
                    for place, answer in enumerate(new.values(), start=held.events)
                ]
                connection.execute(sql.insert(_answers), rows)
            skips = sum(answer.correct is None for answer in new.values())
            now_has = replace(held, answers=held.answers + len(new) - skips, skips=held.skips + skips)
            if new:
                count = {"answers": now_has.answers, "skips": now_has.skips}
                connection.execute(sql.update(_students).where(_students.c.number == held.number).values(count))
        return Added(len(new) - skips, skips, now_has)

    def find(self, student: str) -> Student | None:
        """A student, if known."""
        with self._database.reading() as connection:
            row = connection.execute(sql.select(*_STUDENT).where(_students.c.id == student)).one_or_none()
        return None if row is None else Student(*row)

    def latest(self, student: Student, count: int, before: int | None = None) -> list[Answer]:
        """The latest of the events that `student` is said to have, or of those `before` a place; the oldest first."""
        end = student.events if before is None else before
        places = _answers.c.place >= end - count, _answers.c.place < end
        query = (
            sql.select(*(_answers.c[field.name] for field in fields(Answer)))
            .where(_answers.c.student == student.number, *places)
            .order_by(_answers.c.place)
        )
        with self._database.reading() as connection:
            return [Answer(*row) for row in connection.execute(query)]

    def concepts(self, student: Student) -> dict[str, int]:
        """How many of the answers that `student` is said to have are on each concept."""
        query = (
            sql.select(_answers.c.concept, sql.func.count())
            .where(_answers.c.student == student.number, _answers.c.place < student.events)
            .where(_answers.c.correct.in_((0, 1)))
            .group_by(_answers.c.concept)
        )
        with self._database.reading() as connection:
            return {concept: count for concept, count in connection.execute(query)}

    def offer(self, student: str, offer: Offer) -> int:
        """Keep an offer; gives its number."""
        with self._database.writing() as connection:
            held = self._hold(connection, student)
            values = asdict(offer) | {"student": held.number, "time": time.time()}
            number: int = connection.execute(
                sql.insert(_offers).values(values).returning(_offers.c.number)
            ).scalar_one()
        return number

    def kept_session(self, student: Student, bundle: str) -> KeptSession | None:
        """What a session of this bundle had come to know by some of the events that `student` is said to have."""
        query = sql.select(_sessions.c.events, _sessions.c.kept).where(
            _sessions.c.student == student.number,
            _sessions.c.bundle == bundle,
            _sessions.c.events <= student.events,
        )
        with self._database.reading() as connection:
            row = connection.execute(query).one_or_none()
        return None if row is None else KeptSession(*row)

    def keep_session(self, student: Student, bundle: str, kept: bytes) -> None:
        """Keep what a session of a bundle knows by all events that `student` is said to have, in place of earlier.

        It can be done without: it waits for nobody, and a student who is gone meanwhile stays gone.
        """
        is_there = sql.update(_students).where(_students.c.number == student.number)
        with self._database.writing(waits=False) as connection:
            if not connection.execute(is_there.values(seen=_students.c.seen)).rowcount:
                return
            connection.execute(sql.delete(_sessions).where(_sessions.c.student == student.number))
            row = {"student": student.number, "bundle": bundle, "events": student.events, "kept": kept}
            connection.execute(sql.insert(_sessions).values(row))

    def delete(self, student: str) -> bool:
        """Forget a student, with every answer and offer; whether there was one."""
        with self._database.writing() as connection:
            return connection.execute(sql.delete(_students).where(_students.c.id == student)).rowcount > 0

    def recent(self, count: int) -> list[Student]:
        """The students who were seen last."""
        query = sql.select(*_STUDENT).order_by(_students.c.seen.desc(), _students.c.number.desc()).limit(count)
        with self._database.reading() as connection:
            return [Student(*row) for row in connection.execute(query)]

    def check(self) -> None:
        """Raise `StoreError`, which says why, if nothing can be stored now."""
        self._database.check()

    def count(self) -> int:
        """How many students are known."""
        with self._database.reading() as connection:
            number: int = connection.execute(sql.select(sql.func.count()).select_from(_students)).scalar_one()
        return number

    def log(self) -> Log:
        """All answers, as a log to learn from, and the offers that were skipped, if there are any.

        They are in the order in which they were acknowledged, whatever the clock said, which `time` has.
        """
        query = sql.select(_students.c.id, *(_answers.c[name] for name in list(_LOG)[1:]))
        query = query.select_from(_answers.join(_students)).order_by(_students.c.id, _answers.c.place)
        found = self._table(query, _LOG).rename({"place": "acknowledged"})
        if found["correct"].has_nulls():
            found = found.with_columns(skipped=pl.col("correct").is_null())
        if found["question"].is_null().all():
            return Log(found.drop("question"))  # then each concept stands in for its questions
        return Log(found.with_columns(pl.col("question").fill_null(NO_QUESTION + pl.col("concept"))))

    def offers(self) -> pl.DataFrame:
        """All offers, with the propensity of each, and the first event that names it with what came of it."""
        offered = (_offers.c[name] for name in list(_OFFERS)[2:])
        columns = (_offers.c.number, _students.c.id, *offered)
        query = sql.select(*columns).select_from(_offers.join(_students)).order_by(_offers.c.number)
        answering = sql.select(_answers.c.offer, _answers.c.event, _answers.c.correct)
        answering = answering.where(_answers.c.offer.is_not(None)).order_by(_answers.c.student, _answers.c.place)
        answers = self._table(answering, {"offer": pl.Int64} | _OUTCOME).unique("offer", keep="first")
        return self._table(query, _OFFERS).join(answers, "offer", "left", maintain_order="left")

    def close(self) -> None:
        """Let go of all connections."""
        self._database.close()

    def _hold(self, connection: Connection, student: str) -> Student:
        """Make sure that a student is there, and that nobody else writes for them until the transaction ends."""
        now = time.time()
        insert: Any = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}[connection.dialect.name]
        held = (
            insert(_students)
            .values(id=student, answers=0, seen=now)
            .on_conflict_do_update(index_elements=["id"], set_={"seen": now})
            .returning(*_STUDENT)
        )
        return Student(*connection.execute(held).one())

    def _events(self, connection: Connection, student: int, events: Sequence[str]) -> dict[str, Answer]:
        query = sql.select(*(_answers.c[field.name] for field in fields(Answer))).where(
            _answers.c.student == student, _answers.c.event.in_(events)
        )
        return {row.event: Answer(*row) for row in connection.execute(query)}

    def _check_offers(self, connection: Connection, student: int, answers: Iterable[Answer]) -> None:
        """Refuse answers to offers that were not made to this student, or were of another concept."""
        answered = [answer.offer for answer in answers if answer.offer is not None]
        query = sql.select(_offers.c.number, _offers.c.concept).where(
            _offers.c.student == student, _offers.c.number.in_(answered)
        )
        made = {number: concept for number, concept in connection.execute(query)} if answered else {}
        for answer in answers:
            if answer.offer is not None and made.get(answer.offer) != answer.concept:
                was = f"was of {made[answer.offer]!r}" if answer.offer in made else "was not made to this student"
                raise InputError(f"event {answer.event!r}: offer {answer.offer} {was}; name the one that it answers")

    def _table(self, query: sql.Select[Any], schema: dict[str, Any]) -> pl.DataFrame:
        with self._database.reading() as connection:
            return pl.DataFrame([tuple(row) for row in connection.execute(query)], schema=schema, orient="row")


_LOG = {
    "student": pl.String,
    "question": pl.String,
    "concept": pl.String,
    "correct": pl.Int64,
    "time": pl.Float64,
    "event": pl.String,
    "place": pl.Int64,
}
_OFFERS = {
    "offer": pl.Int64,
    "student": pl.String,
    "answers": pl.Int64,
    "concept": pl.String,
    "success": pl.Float64,
    "propensity": pl.Float64,
    "explored": pl.Boolean,
    "target": pl.Float64,
    "explore": pl.Float64,
    "time": pl.Float64,
    "among": pl.List(pl.String),
}
_OUTCOME = {"event": pl.String, "correct": pl.Int64}
