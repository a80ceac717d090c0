"""Logs into a store, and a store into a log."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from tsdr.errors import InputError
from tsdr.log import Log
from tsdr.serving.messages import MOST_ANSWERS, NAME, STUDENT, checked
from tsdr.serving.store import NO_QUESTION, Answer, ConflictError, Store
from tsdr.tables import write_table

LARGEST_SECONDS = 2e10  # the year 2603
_OWN = "log-"  # begins the events of rows that came without one


class Enrolled(NamedTuple):
    """What became of a student's rows: answers and skipped offers that were new, and rows that were known already."""

    answers: int
    skips: int
    known: int


def enroll(log: Log, url: str) -> Iterator[Enrolled]:
    """Store the answers and skipped offers of a log, student by student; what is known already is not added again.

    Where the log has the platform's `event` ids, they say what is known. Without them it is as many rows of the same
    time, question, concept and outcome as the store has already, whoever brought them; and in a log without times, the
    row in the same place. The whole log is held against the store before anything of it is stored, and a call that was
    interrupted is made again.
    """
    for column, kind in (("student", STUDENT), ("question", NAME), ("event", NAME)):
        for name in log.frame[column].unique().drop_nulls() if column in log.frame.columns else ():
            checked(kind, name, column)
    told = _as_stored(log)
    students = told.partition_by("student", maintain_order=True)
    store = Store(url)
    try:
        for part in students:
            for _ in _new(store, part, log.source):
                pass
        for part in students:
            yield _add(store, part, log.source)
    finally:
        store.close()


def _as_stored(log: Log) -> pl.DataFrame:
    """The rows of a log with their numbers, questions where there are any, and events where they are known by them."""
    told = log.frame.with_columns(row=log.rows, seconds=pl.Series(map(_seconds, log.frame["time"]), dtype=pl.Float64))
    stands_in = pl.col("question") == NO_QUESTION + pl.col("concept")
    if (told["question"] == told["concept"]).all():  # a log without questions
        stands_in = pl.lit(True)
    told = told.with_columns(question=pl.when(~stands_in).then("question"))
    place = pl.int_range(pl.len()).over("student")
    if "event" in told.columns:
        nameless = told.filter(pl.col("event").is_null())
        if nameless.height:
            row, student = nameless["row"][0], nameless["student"][0]
            more = f" ({nameless.height:,} rows are like that)" if nameless.height > 1 else ""
            raise InputError(
                f"{log.source}: row {row} after the header, student {student!r}: has no event{more}; give every row "
                "one of its own, or leave the column out"
            )
        return told
    if told["time"].dtype.is_integer() and told.select((pl.col("time") == place).all()).item():  # there were no times
        return told.with_columns(event=pl.format(_OWN + "{}-0", place))
    return told.with_columns(event=pl.lit(None, pl.String))


def _new(store: Store, part: pl.DataFrame, source: str) -> Iterator[tuple[int, Answer]]:
    """The rows of a student that the store does not have, with their numbers; refused if one says something else."""
    student = part["student"][0]
    known = store.find(student)
    stored = [] if known is None else store.latest(known, known.events)
    by_event = {answer.event: answer for answer in stored}
    # A row without an event may be any of what is stored; one with an event, any that came without one.
    nameless = part["event"].is_null().all()
    left = Counter(_content(answer) for answer in stored if nameless or answer.event.startswith(_OWN))
    seen = Counter[tuple[Any, ...]]()
    columns = ("row", "event", "question", "concept", "correct", "seconds")
    for row, event, *told in part.select(columns).iter_rows():
        answer = Answer(event or "", *told)
        content = _content(answer)
        seen[content] += 1
        before = by_event.get(answer.event)
        if before is not None and not before.says_the_same_as(answer):
            raise _conflict(source, row, student, answer.event, "nothing of this log was stored")
        if before is not None:
            continue
        if left[content]:
            left[content] -= 1
            continue
        answer = answer if event else replace(answer, event=_own_event(content, seen[content]))
        by_event[answer.event] = answer
        yield row, answer


def _add(store: Store, part: pl.DataFrame, source: str) -> Enrolled:
    """Store what is new of a student."""
    new = list(_new(store, part, source))
    answers = skips = 0
    for at in range(0, len(new), MOST_ANSWERS):
        some = new[at : at + MOST_ANSWERS]
        try:
            added = store.add(part["student"][0], [answer for _, answer in some])
        except ConflictError as error:  # it has come in since the log was held against the store
            row = next(row for row, answer in some if answer.event == error.event)
            raise _conflict(source, row, part["student"][0], error.event, "those before it were stored") from error
        answers, skips = answers + added.answers, skips + added.skips
    return Enrolled(answers, skips, part.height - answers - skips)


def _content(answer: Answer) -> tuple[Any, ...]:
    return answer.time, answer.question, answer.concept, answer.correct


def _own_event(content: tuple[Any, ...], number: int) -> str:
    """A name for the so-manieth answer of the same content: the same in every export that has it."""
    return f"{_OWN}{hashlib.sha256(json.dumps(content).encode()).hexdigest()[:24]}-{number}"


def _conflict(source: str, row: int, student: str, event: str, otherwise: str) -> InputError:
    own = (
        "without times, rows are known by their place: give the log times, or the platform's events"
        if event.startswith(_OWN)
        else "an event has one content for good: correct the row, or give it an event of its own"
    )
    return InputError(
        f"{source}: row {row} after the header, student {student!r}: event {event!r} is known already, with another "
        f"content; {own} ({otherwise})"
    )


def collect(url: str, folder: Path) -> tuple[Log, pl.DataFrame]:
    """Write the answers and skips of a store as a log, and the offers that were made, with the propensity of each."""
    store = Store(url)
    log, offers = store.log(), store.offers()
    store.close()
    log.write(folder / "log.parquet")
    write_table(offers, folder / "offers.parquet")
    return log, offers


def _seconds(time: Any) -> float:
    """A time of a log in seconds: a date-time without a zone is UTC, a number too large for seconds milliseconds."""
    if isinstance(time, datetime):
        return time.replace(tzinfo=UTC).timestamp()
    return float(time) / (1000 if abs(time) > LARGEST_SECONDS else 1)
