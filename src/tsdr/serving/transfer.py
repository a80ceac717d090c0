"""Logs into a store, and a store into a log."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from tsdr.log import Log
from tsdr.serving.messages import MOST_ANSWERS
from tsdr.serving.store import Answer, Store
from tsdr.tables import write_table


def enroll(log: Log, url: str) -> Iterator[int]:
    """Store the answers of a log, student by student: how many of each were new.

    Each is an event by its place among the student's answers in the log, so that the same log brings nothing twice.
    """
    store = Store(url)
    for part in log.answered.partition_by("student", maintain_order=True):
        answers = [
            Answer(f"log-{place}", row["question"], row["concept"], row["correct"], _seconds(row["time"]))
            for place, row in enumerate(part.iter_rows(named=True))
        ]
        parts = (answers[at : at + MOST_ANSWERS] for at in range(0, len(answers), MOST_ANSWERS))
        yield sum(store.add(part["student"][0], some)[0] for some in parts)
    store.close()


def collect(url: str, folder: Path) -> tuple[Log, pl.DataFrame]:
    """Write the answers of a store as a log, and the offers that were made, with the propensity of each."""
    store = Store(url)
    log, offers = store.log(), store.offers()
    store.close()
    log.write(folder / "log.parquet")
    write_table(offers, folder / "offers.parquet")
    return log, offers


def _seconds(time: Any) -> float:
    """A time of a log in seconds; a date-time without a zone is UTC."""
    return time.replace(tzinfo=UTC).timestamp() if isinstance(time, datetime) else float(time)
