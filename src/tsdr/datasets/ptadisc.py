"""PTADisc (Prob, Linux, Database, Comp): exercises of university courses on the PTA platform.

A course's folder has `response_log.csv` and `problem_info.csv`. A flat table made for knowledge tracing is read, too.
"""

from functools import partial
from pathlib import Path

import polars as pl

from tsdr.datasets.account import Account, Counts
from tsdr.datasets.interactions import Preparation, blank, date_time, skill_sets, without
from tsdr.datasets.raw import RawFolder
from tsdr.datasets.source import Source
from tsdr.errors import InputError

FLAT = {
    "user_id_new": "student",
    "problem_id_new": "question",
    "skill_id_new": "skill",
    "score": "score",
    "create_at": "time",
}
LOG = {
    "submission_id": "id",
    "user_id": "student",
    "create_at": "time",
    "score": "score",
    "problem_set_problem_id": "item",
    "status": "status",
}
INFO = {"problem_set_problem_id": "item", "problem_id": "question", "knowledge_id": "skill", "full_score": "full"}


def read(raw: RawFolder, options: Preparation, account: Account, *, course: str) -> pl.DataFrame:
    """All right is right, all wrong is wrong; what got a part of the score is dropped, as in the paper."""
    flat = _flat_table(raw, course)
    if flat is not None:
        rows = raw.collect(raw.table([flat], list(FLAT)).rename(FLAT))
        rows = rows.with_columns(id=pl.lit(None, dtype=pl.String), item="question", full=pl.lit("1"), status=pl.lit(""))
    else:
        log = raw.table([raw.one(f"*{course}*/response_log.csv", "response_log.csv")], list(LOG)).rename(LOG)
        path = raw.one(f"*{course}*/problem_info.csv", "problem_info.csv")
        info = raw.table([path], list(INFO)).rename(INFO)
        problems = info.group_by("item", maintain_order=True).agg(
            pl.col("question").first(), pl.col("skill").drop_nulls().unique().str.join("_"), pl.col("full").first()
        )
        rows = raw.collect(log.join(problems, on="item", how="left", maintain_order="left"))
    account.read = rows.height
    score, full = (pl.col(name).cast(pl.Float64, strict=False) for name in ("score", "full"))
    accepted = pl.col("status").str.strip_chars().str.to_uppercase() == "ACCEPTED"
    rows = rows.with_columns(
        correct=pl.when(accepted | (score >= full)).then(1).when(score <= 0).then(0).cast(pl.Int8),
        time=date_time("time"),
    )
    rows = without(
        rows,
        account,
        {
            "no student": blank("student"),
            "problem that problem_info.csv does not know": blank("question"),
            "no knowledge id": blank("skill"),
            "no score": score.is_null(),
            "a part of the score": pl.col("correct").is_null(),
            "no time": pl.col("time").is_null(),
        },
    )
    again = pl.col("id").is_not_null() & ~pl.struct("id", "item").is_first_distinct()
    rows = without(rows, account, {"the same submission twice": again})
    return skill_sets(rows.select("student", "question", "skill", "correct", "time"), "_")


def _flat_table(raw: RawFolder, course: str) -> Path | None:
    """The flat table that is named after the course, or else the only one that there is."""
    flat = [path for path in raw.find("*.csv") if set(FLAT) <= set(raw.header(path, ","))]
    named = [path for path in flat if course in path.stem.lower()]
    if len(named or flat) > 1:
        names = ", ".join(path.name for path in flat[:4])
        raise InputError(f"{raw.folder}: which of {names} is {course}? Name that file instead of the folder")
    return next(iter(named or flat), None)


def _course(name: str, what: str, paper: Counts, sample: int | None = None) -> Source:
    return Source(
        name=name,
        what=f"course exercises: {what}",
        published="github.com/wahr0411/PTADisc",
        terms="for research, with the paper's licence (Hu et al., 2023)",
        files="response_log.csv and problem_info.csv of the course, or one flat table",
        read=partial(read, course=name),
        paper=paper,
        sample=sample,
    )


SOURCES = [
    _course("prob", "probability and statistics", Counts(512, 1_054, 247, 42_869)),
    _course("linux", "the Linux system", Counts(4_375, 2_672, 281, 365_027)),
    _course("database", "database technology and application", Counts(5_488, 3_388, 291, 990_468)),
    _course("comp", "computational thinking", Counts(5_000, 7_460, 445, 668_927), sample=5_000),
]
