"""A log from a file that needs more than names of columns: statuses in words, rows to drop, all accounted for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import polars as pl

from tsdr.defaults import UNZIPPED_LIMIT
from tsdr.errors import InputError
from tsdr.log import COLUMNS, Log, UnreadableError, raw_table

Status = Literal["right", "wrong", "skipped"]
STATUSES: tuple[Status, ...] = get_args(Status)
COPIES = "copies"
DROPPABLE = (*COLUMNS[:6], COPIES)
_SKIPPED = "skipped, by its status"  # a column that no file has


@dataclass(frozen=True)
class Cleaned:
    """A log, what became of the rows of its file, and the columns of the file that are not used."""

    log: Log
    read: int
    dropped: dict[str, int]
    unused: list[str]


def clean(
    path: str | Path,
    columns: Mapping[str, str | None] | None = None,
    *,
    statuses: Mapping[str, Status] | None = None,
    drop: Sequence[str] = (),
    concept_separator: str | None = None,
    separator: str | None = None,
    unzipped_limit: float = UNZIPPED_LIMIT,
) -> Cleaned:
    """Read a file as `read_log` does, with statuses in words, and without the rows that are to be dropped.

    `statuses` says what a text in the `correct` column means, such as `{"PASSED": "right"}`. `drop` names columns
    whose unreadable rows are left out, or "copies", rows that repeat another's student, question, concept and time.
    What cannot be read otherwise is refused, with all faults.
    """
    for name in drop:
        if name not in DROPPABLE:
            raise InputError(f"there is nothing called {name!r} to drop; choose from {', '.join(DROPPABLE)}")
    frame, theirs, unused = raw_table(path, columns, separator, unzipped_limit)
    frame, theirs = _with_statuses(frame, theirs, statuses or {}, str(path))
    kept, dropped = frame, dict.fromkeys(drop, 0)

    def log_of(rows: pl.DataFrame) -> Log:
        return Log(rows, source=str(path), columns=theirs, concept_separator=concept_separator)

    try:
        log = log_of(kept)
    except UnreadableError as error:
        wanted = [fault for fault in error.faults if fault.column in drop and fault.rows is not None]
        others = [fault for fault in error.faults if fault not in wanted]
        if others:
            raise UnreadableError(others) from error
        bad = pl.repeat(False, kept.height, eager=True)
        for fault in wanted:
            assert fault.rows is not None
            dropped[fault.column] += int((fault.rows & ~bad).sum())
            bad = bad | fault.rows
        kept = kept.filter(~bad)
        log = log_of(kept)
    if COPIES in drop:
        unlike = log.frame.unique(["student", "question", "concept", "time"], keep="first", maintain_order=True)
        dropped[COPIES] = log.frame.height - unlike.height
        log = Log(unlike, source=str(path))
    return Cleaned(log, frame.height, dropped, unused)


def _with_statuses(
    frame: pl.DataFrame, theirs: dict[str, str], statuses: Mapping[str, Status], source: str
) -> tuple[pl.DataFrame, dict[str, str]]:
    """The table with 0, 1 or nothing for words in its column of answers, and which rows were skipped."""
    if not statuses:
        return frame, theirs
    if "skipped" in theirs and "skipped" in statuses.values():
        raise InputError(f"{source}: says by a column of its own what was skipped; give no status for it")
    correct = theirs["correct"]
    words = frame[correct].cast(pl.String).str.strip_chars()
    told = {word: {"right": "1", "wrong": "0", "skipped": None}[status] for word, status in statuses.items()}
    read = words.replace_strict(list(told), list(told.values()), default=words, return_dtype=pl.String)
    frame = frame.with_columns(read.alias(correct))
    if "skipped" in statuses.values():
        skips = [word for word, status in statuses.items() if status == "skipped"]
        frame = frame.with_columns(words.is_in(skips).fill_null(False).alias(_SKIPPED))
        theirs = {**theirs, "skipped": _SKIPPED}
    return frame, theirs
