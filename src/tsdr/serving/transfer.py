"""Logs into a store, and a store into a log."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from tsdr.log import Log
from tsdr.serving.messages import MOST_ANSWERS, NAME, STUDENT, checked
from tsdr.serving.store import Answer, Store
from tsdr.tables import write_table

LARGEST_SECONDS = 2e10  # the year 2603


class Enrolled(NamedTuple):
    """How many answers and skipped offers of a student were new."""

    answers: int
    skips: int


def enroll(log: Log, url: str) -> Iterator[Enrolled]:
    """Store the answers and skipped offers of a log, student by student: how many of each were new.

    Each is an event by its time (and its place among those of the same time), so that a log brings nothing twice, and
    a later one what is new in it. Names that the service could not be asked for are refused before anything is stored.
    """
    columns = ("question", "concept", "correct", "time")
    for column, kind in (("student", STUDENT), ("question", NAME)):
        for name in log.frame[column].unique():
            checked(kind, name, column)
    told = log.frame
    if (told["question"] == told["concept"]).all():  # a log without questions, for which the concepts stand in
        told = told.with_columns(question=pl.lit(None, pl.String))
    store = Store(url)
    for part in told.partition_by("student", maintain_order=True):
        numbered = part.with_columns(same=pl.int_range(pl.len()).over("time"))
        answers = [
            Answer(f"log-{time}-{same}", question, concept, correct, _seconds(time))
            for question, concept, correct, time, same in numbered.select(*columns, "same").iter_rows()
        ]
        parts = (answers[at : at + MOST_ANSWERS] for at in range(0, len(answers), MOST_ANSWERS))
        added = [store.add(part["student"][0], some) for some in parts]
        yield Enrolled(sum(some.answers for some in added), sum(some.skips for some in added))
    store.close()


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
