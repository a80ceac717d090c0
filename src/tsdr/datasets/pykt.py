"""pyKT's prepared files: `data.txt`, or the tables of sequences that pyKT cuts it into.

A student's answers stand in lists, one a line or one a column, with commas between. Of the two kinds of tables, one has
several rows of a list for one attempt, a skill each (`is_repeat`); the other, called quelevel, joins its skills by `_`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import polars as pl

from tsdr.datasets.account import Account
from tsdr.datasets.interactions import Preparation, flag, skill_sets, whole_number, without
from tsdr.datasets.raw import RawFolder
from tsdr.datasets.source import Source
from tsdr.errors import InputError

TEXT = "data.txt"
LINES = 6  # of a student: id and number of answers, questions, concepts, answers, times, and how long each took
ABSENT, PADDING = "NA", "-1"
SKILLS = "_"  # stands between the skills of an attempt
WHOLE = ("train_valid.csv", "test.csv")
SEQUENCES = ("train_valid_sequences.csv", "test_sequences.csv")
WINDOWS = "test_window_sequences.csv"
LISTS = {"questions": "question", "concepts": "skill", "responses": "answer", "timestamps": "time"}
MARKS = {"selectmasks": "selected", "is_repeat": "again"}
FOR_TESTING = "qidxs"  # a column of the tables that repeat what came before, for each skill that is to be foretold
OF_ANOTHER_LENGTH = "list of another length than the student's others"


class Steps(NamedTuple):
    """The lists of a student, or of a stretch of one, step by step; what there is no list of is null at every step."""

    student: str
    question: list[str | None]
    skill: list[str | None]
    answer: list[str | None]
    time: list[str | None]
    selected: list[str | None]
    again: list[str | None]


def read(raw: RawFolder, options: Preparation, account: Account) -> pl.DataFrame:
    """One row an attempt, with the set of its skills; without times, the order of the lists stands for them."""
    text = raw.find("*.txt" if raw.folder.is_file() else TEXT)
    found = _of_text(raw, raw.one(text[0].name), account) if text else _of_tables(raw, _tables(raw), account)
    schema = {name: pl.String if name == "student" else pl.List(pl.String) for name in Steps._fields}
    frame = pl.DataFrame(list(found), schema=schema, orient="row")
    lists = [name for name in Steps._fields if name != "student"]
    rows = frame.filter(pl.col("answer").list.len() > 0).explode(lists)
    if not text:
        rows = rows.filter(pl.col("answer").ne_missing(PADDING))
    account.read += rows.height
    rows = rows.with_columns(
        pl.coalesce("question", "skill").alias("question"),
        pl.coalesce("skill", "question").alias("skill"),
        time=pl.int_range(pl.len()) if rows["time"].is_null().all() else whole_number("time"),
        correct=flag("answer"),
    )
    rows = without(
        rows,
        account,
        {
            "neither question nor concept": pl.col("question").is_null(),
            "answer is neither 0 nor 1": pl.col("correct").is_null(),
            "step of a window that another window has, too": (pl.col("selected") != "1").fill_null(False),
        },
    )
    return skill_sets(_attempts(rows, account), SKILLS)


def _attempts(rows: pl.DataFrame, account: Account) -> pl.DataFrame:
    """One row for the rows that an attempt at a question of several skills has."""
    first = (pl.col("again") != "1").fill_null(True).cum_sum().over("student")
    attempts = (
        rows.with_columns(attempt=first)
        .group_by("student", "attempt", "question", maintain_order=True)
        .agg(pl.col("correct", "time").first(), pl.col("skill").str.join(SKILLS))
    )
    account.drop("another skill of the same attempt", rows.height - attempts.height)
    return attempts.drop("attempt")


def _of_text(raw: RawFolder, path: Path, account: Account) -> Iterator[Steps]:
    lines = raw.utf8(path).read_text(encoding="utf-8-sig").rstrip().splitlines()
    for at in range(0, len(lines), LINES):
        student, _, number = lines[at].strip().rpartition(",")
        if not student or not number.isdigit() or at + LINES > len(lines):
            raise InputError(
                f"{path}, line {at + 1}: a student's {LINES} lines are to begin here, with the student and the number "
                f"of answers, as in `u1,20`; is it pyKT's {TEXT}, and whole?"
            )
        lists = [_list(line, int(number)) for line in lines[at + 1 : at + LINES - 1]]
        nothing: list[str | None] = [None] * int(number)
        if any(len(steps) != int(number) for steps in lists):
            account.read += int(number)
            account.drop(OF_ANOTHER_LENGTH, int(number))
        else:
            question, skill, answer, when = lists
            yield Steps(student, question, skill, answer, when, nothing, nothing)


def _tables(raw: RawFolder) -> list[Path]:
    """The tables that have every answer once, or as nearly so as there are any."""
    quelevel = [name.replace(".csv", "_quelevel.csv") for name in (*SEQUENCES, WINDOWS)]
    # A test.csv beside tables of both kinds may be of either.
    whole = [] if raw.find("*_quelevel.csv") else [WHOLE]
    for names in (*whole, quelevel[:2], SEQUENCES, quelevel[2:], (WINDOWS,)):
        found = [raw.one(name) for name in names if raw.find(name)]
        if found:
            return found
    return [raw.one("*.csv") if raw.find("*.csv") else raw.one(TEXT, *SEQUENCES)]


def _of_tables(raw: RawFolder, paths: list[Path], account: Account) -> Iterator[Steps]:
    for path in paths:
        header = raw.header(path, ",")
        if FOR_TESTING in header:
            raise InputError(
                f"{path}: repeats what came before an answer for every skill of it, to test models by; name "
                f"{TEXT}, {SEQUENCES[1]} or the folder that has them"
            )
        there = {theirs: ours for theirs, ours in (LISTS | MARKS).items() if theirs in header}
        rows = raw.collect(raw.table([path], list(dict.fromkeys(["uid", "responses", *there]))))
        for row in rows.iter_rows(named=True):
            number = len((row["responses"] or "").split(","))
            lists = {ours: _list(row[theirs] or ABSENT, number) for theirs, ours in there.items()}
            if any(len(steps) != number for steps in lists.values()):
                account.read += number
                account.drop(OF_ANOTHER_LENGTH, number)
            else:
                nothing: list[str | None] = [None] * number
                yield Steps(row["uid"], *(lists.get(name, nothing) for name in Steps._fields[1:]))


def _list(text: str, number: int) -> list[str | None]:
    """What stands between commas; null where nothing does, and so many times where there is no such list."""
    said = [None if part.strip() in ("", ABSENT) else part.strip() for part in text.split(",")]
    return [None] * number if said == [None] else said


SOURCES = [
    Source(
        name="pykt",
        what="a log as pyKT has prepared it",
        published="github.com/pykt-team/pykt-toolkit",
        terms="those of the data set that was prepared",
        files=f"{TEXT}, or the tables {', '.join((*WHOLE, *SEQUENCES))} or their quelevel kinds",
        read=read,
    )
]
