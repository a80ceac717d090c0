"""EdNet-KT1: one CSV a student (`u123.csv`), or one table with a `user_id` column.

Answers are compared with questions.csv. Questions of a bundle are answered together: they get the bundle's first time,
so that nothing comes between them.
"""

import random
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from tsdr.datasets.account import Account, Counts
from tsdr.datasets.interactions import JOINER, Preparation, blank, without
from tsdr.datasets.raw import RawFolder, header
from tsdr.datasets.source import Source
from tsdr.errors import InputError

ANSWER = ("timestamp", "solving_id", "question_id", "user_answer")
FILES_AT_ONCE = 2_000


def read(raw: RawFolder, options: Preparation, account: Account) -> pl.DataFrame:
    """Every file, or, for a sample of students, files in random order until there are enough students."""
    questions = _questions(raw)
    tables = [path for path in raw.find("*.csv") if "user_id" in header(raw.utf8(path), ",")]
    if tables:
        answers = raw.table(tables, ["user_id", *ANSWER]).rename({"user_id": "student"})
        rows = raw.collect(_judged(answers, questions))
    else:
        rows = pl.concat(list(_of_students(raw, questions, options, account)))
    account.read = rows.height
    again = ~pl.struct("student", "time", "solving", "question").is_first_distinct()
    rows = without(
        rows,
        account,
        {
            "no student": pl.col("student").is_null(),
            "no time": pl.col("time").is_null(),
            "no answer": pl.col("said").is_null(),
            "question that questions.csv does not know": pl.col("correct").is_null(),
            "question without a tag": pl.col("concept").is_null(),
            "the same answer twice": again,
        },
    )
    together = pl.col("time").min().over("student", "solving")
    return rows.with_columns(time=together).drop("solving", "said")


def _questions(raw: RawFolder) -> pl.LazyFrame:
    """The right answer and the set of tags of each question."""
    tags = pl.col("tags").str.split(";").list.eval(pl.element().str.strip_chars().filter(pl.element() != "-1"))
    named = tags.list.unique().list.sort().list.join(JOINER)
    return raw.table([raw.one("questions.csv")], ["question_id", "correct_answer", "tags"]).select(
        pl.col("question_id").alias("question"),
        pl.col("correct_answer").str.strip_chars().alias("right"),
        pl.when(named != "").then(named).alias("concept"),
    )


def _of_students(
    raw: RawFolder, questions: pl.LazyFrame, options: Preparation, account: Account
) -> Iterator[pl.DataFrame]:
    files = [path for path in raw.find("u*.csv") if path.stem[1:].isdigit()]
    if not files:
        raise InputError(f"{raw.folder}: has neither files u1.csv, u2.csv, ... nor a table with a user_id column")
    by_student: dict[str, list[Path]] = {}
    for path in files:
        by_student.setdefault(path.stem, []).append(path)
    students = sorted(by_student)
    if options.sample is not None:
        random.Random(options.seed).shuffle(students)
    enough = 0
    for at in range(0, len(students), FILES_AT_ONCE):
        if options.sample is not None and enough >= options.sample:
            account.note("student whose file was not opened, the sample being full", len(students) - at)
            return
        paths = [path for student in students[at : at + FILES_AT_ONCE] for path in by_student[student]]
        answers = raw.table(paths, list(ANSWER), file_name="path")
        student = pl.col("path").str.extract(r"(u\d+)\.csv$")
        rows = raw.collect(_judged(answers.with_columns(student=student).drop("path"), questions))
        enough += int((rows["student"].value_counts()["count"] >= options.minimum).sum())
        yield rows


def _judged(answers: pl.LazyFrame, questions: pl.LazyFrame) -> pl.LazyFrame:
    """Answers with their question's concept and whether they are right, in small types."""
    said = pl.when(~blank("user_answer")).then(pl.col("user_answer").str.strip_chars())
    return (
        answers.rename({"question_id": "question"})
        .join(questions, on="question", how="left", maintain_order="left")
        .select(
            pl.when(~blank("student")).then(pl.col("student")).cast(pl.Categorical),
            pl.col("question").cast(pl.Categorical),
            pl.col("concept").cast(pl.Categorical),
            said.cast(pl.Categorical).alias("said"),
            (said == pl.col("right")).cast(pl.Int8).alias("correct"),
            pl.col("timestamp").cast(pl.Int64, strict=False).alias("time"),
            pl.col("solving_id").cast(pl.Int32, strict=False).alias("solving"),
        )
    )


SOURCES = [
    Source(
        name="ednet",
        what="preparation for the TOEIC test with the tutor Santa",
        published="github.com/riiid/ednet",
        terms="CC BY-NC 4.0",
        files="u1.csv, u2.csv, ... (KT1) or one table with user_id; questions.csv (Contents)",
        read=read,
        paper=Counts(5_000, 12_002, 1_769, 789_812),
        sample=5_000,
    )
]
