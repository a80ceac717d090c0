"""EdNet-KT1: one CSV a student (`u123.csv`), or one table with a `user_id` column.

Answers are compared with questions.csv. Questions of a bundle are answered together: they get the bundle's first time,
so that nothing comes between them. A blank answer is a question that was shown and left: a solving of it is one offer,
however many rows it has.
"""

import random
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from tsdr.datasets.account import Account, Counts
from tsdr.datasets.interactions import (
    JOINER,
    Preparation,
    by_name,
    by_student,
    one_row_an_offer,
    ruled,
    whole_number,
    without,
)
from tsdr.datasets.raw import RawFolder
from tsdr.datasets.source import Source
from tsdr.errors import InputError

ANSWER = ("timestamp", "solving_id", "question_id", "user_answer")
FILES_AT_ONCE = 2_000
ROWS_AT_ONCE = 1_000_000
CORRECT = (pl.col("said") == pl.col("right")).cast(pl.Int8)


def read(raw: RawFolder, options: Preparation, account: Account) -> pl.DataFrame:
    """Every file, or, for a sample of students, files in random order until there are enough students."""
    return _interactions(pl.concat(_parts(raw, options, account)), account, options)


def parts(raw: RawFolder, options: Preparation, account: Account) -> Iterator[pl.DataFrame]:
    """The same of some files of students after the other; a table is one part."""
    for rows in _parts(raw, options, account):
        yield _interactions(rows, account, options)


def _parts(raw: RawFolder, options: Preparation, account: Account) -> Iterator[pl.DataFrame]:
    """The rows with what they are judged by."""
    questions = _questions(raw)
    files = raw.find("*.csv")
    students = [path for path in files if path.stem[:1] == "u" and path.stem[1:].isdigit()]
    tables = [path for path in sorted(set(files) - set(students)) if "user_id" in raw.header(path, ",")]
    if tables and students:
        raise InputError(
            f"{raw.folder}: has a table with user_id, {tables[0].name}, and files of students; keep one kind"
        )
    if tables:
        answers = raw.table(tables, ["user_id", *ANSWER]).rename({"user_id": "student"})
        yield _judged(raw.collect(_small(answers)), questions)
    elif students:
        yield from _of_students(raw, students, questions, options, account)
    else:
        raise InputError(f"{raw.folder}: has neither files u1.csv, u2.csv, ... nor a table with a user_id column")


def _interactions(rows: pl.DataFrame, account: Account, options: Preparation) -> pl.DataFrame:
    """Rows as interactions, every row that is dropped accounted for."""
    account.read += rows.height
    rows = without(
        rows,
        account,
        {
            "no student": pl.col("student").is_null(),
            "no time": pl.col("time").is_null(),
            "question that questions.csv does not know": pl.col("right").is_null(),
            "question without a tag": pl.col("concept").is_null(),
        },
    ).select("student", "question", "concept", "time", "solving", correct=CORRECT)
    alone = pl.col("solving").is_null()
    unanswered = pl.col("correct").is_null()
    solving: list[str | pl.Expr] = ["student", "question", "solving", pl.when(alone).then("time").alias("moment")]
    rows = one_row_an_offer(rows, account, unanswered, solving, "a solving")
    rows = ruled(rows, account, options, unanswered, "no answer")
    again = ~pl.struct("student", "time", "solving", "question").is_first_distinct()
    together = pl.when(alone).then(pl.col("time")).otherwise(pl.col("time").min().over("student", "solving"))
    return pl.concat(
        without(part, account, {"the same answer twice": again}).with_columns(time=together).drop("solving")
        for part in by_student(rows, ROWS_AT_ONCE)
    )


def _questions(raw: RawFolder) -> pl.DataFrame:
    """The right answer and the set of tags of each question."""
    tags = pl.col("tags").str.split(";").list.eval(pl.element().str.strip_chars().filter(pl.element() != "-1"))
    named = tags.list.unique().list.sort().list.join(JOINER)
    table = raw.table([raw.one("questions.csv")], ["question_id", "correct_answer", "tags"])
    rows = raw.collect(table).unique(maintain_order=True)
    twice = rows.filter(pl.col("question_id").is_duplicated())["question_id"]
    if len(twice):
        raise InputError(f"{raw.folder}: questions.csv has question {twice[0]!r} twice, with different answers or tags")
    return rows.select(
        pl.col("question_id").alias("question"),
        pl.col("correct_answer").str.strip_chars().cast(pl.Categorical).alias("right"),
        pl.when(named != "").then(named).cast(pl.Categorical).alias("concept"),
    )


def _of_students(
    raw: RawFolder, files: list[Path], questions: pl.DataFrame, options: Preparation, account: Account
) -> Iterator[pl.DataFrame]:
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
        raw.on_stage(f"Reading {raw.dataset}: {at:,} of {len(students):,} students")
        paths = [path for student in students[at : at + FILES_AT_ONCE] for path in by_student[student]]
        answers = raw.table(paths, list(ANSWER), file_name="path")
        student = pl.col("path").str.extract(r"(u\d+)\.csv$")
        rows = _judged(raw.collect(_small(answers.with_columns(student=student))), questions)
        usable = rows.drop_nulls(["student", "time", "said", "right", "concept"])
        enough += int((usable["student"].value_counts()["count"] >= options.minimum).sum())
        yield rows


def _small(answers: pl.LazyFrame) -> pl.LazyFrame:
    """Answers in small types."""
    return answers.select(
        pl.col("student").cast(pl.Categorical),
        pl.col("question_id").cast(pl.Categorical).alias("question"),
        pl.col("user_answer").cast(pl.Categorical).alias("said"),
        whole_number("timestamp").alias("time"),
        pl.col("solving_id").cast(pl.Int64, strict=False).alias("solving"),
    )


def _judged(rows: pl.DataFrame, questions: pl.DataFrame) -> pl.DataFrame:
    """Beside each answer, the right one and the question's concept; null where there is none."""

    def named(text: pl.Series) -> pl.Series:
        text = text.str.strip_chars()
        return pl.select(pl.when(text != "").then(text)).to_series().cast(pl.Categorical)

    def of_question(column: str) -> pl.Series:
        def looked_up(question: pl.Series) -> pl.Series:
            return (
                question.alias("question").to_frame().join(questions, "question", "left", maintain_order="left")[column]
            )

        return by_name(rows["question"], looked_up)

    return rows.with_columns(
        student=by_name(rows["student"], named),
        said=by_name(rows["said"], named),
        right=of_question("right"),
        concept=of_question("concept"),
    )


SOURCES = [
    Source(
        name="ednet",
        what="preparation for the TOEIC test with the tutor Santa",
        published="github.com/riiid/ednet",
        terms="CC BY-NC 4.0",
        files="u1.csv, u2.csv, ... (KT1) or one table with user_id; questions.csv (Contents)",
        read=read,
        parts=parts,
        paper=Counts(5_000, 12_002, 1_769, 789_812),
        sample=5_000,
    )
]
