"""ASSISTments 2017 (longitudinal competition) and 2009 (skill builder): one CSV each, ISO-8859-1."""

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from tsdr.datasets.account import Account, Counts
from tsdr.datasets.interactions import Preparation, blank, flag, skill_sets, whole_number, without
from tsdr.datasets.raw import RawFolder
from tsdr.datasets.source import Source

SEEN = ~pl.struct("student", "time").is_first_distinct()


def read_2017(raw: RawFolder, options: Preparation, account: Account) -> pl.DataFrame:
    """One row per (student, start time): the competition file has a row for every action."""
    names = {
        "studentId": "student",
        "problemId": "question",
        "skill": "skill",
        "correct": "answer",
        "startTime": "time",
    }
    path = raw.one("*anonymized*.csv", "*2017*.csv", "*.csv")
    rows = skill_sets(_attempts(raw, path, names, account), None)
    return without(rows, account, {"another row of the same student and start time": SEEN})


def read_2009(raw: RawFolder, options: Preparation, account: Account) -> pl.DataFrame:
    """One row per order id: an attempt at a problem of several skills has a row for each of them."""
    names = {
        "user_id": "student",
        "problem_id": "question",
        "skill_id": "skill",
        "correct": "answer",
        "order_id": "time",
    }
    path = raw.one("*skill*builder*.csv", "*2009*.csv", "*.csv")
    rows = skill_sets(_attempts(raw, path, names, account), "_")
    return without(rows, account, {"the same attempt under another skill": SEEN})


def _attempts(raw: RawFolder, path: Path, names: Mapping[str, str], account: Account) -> pl.DataFrame:
    """The rows of a file that say who answered what, when, how, and with which skill."""
    rows = raw.collect(raw.table([path], list(names)).rename(names))
    account.read = rows.height
    rows = rows.with_columns(correct=flag("answer"), time=whole_number("time"))
    return without(
        rows,
        account,
        {
            "no student or problem": blank("student") | blank("question"),
            "answer is neither 0 nor 1": pl.col("correct").is_null(),
            "no time": pl.col("time").is_null(),
            "no skill": blank("skill"),
        },
    )


SOURCES = [
    Source(
        name="assistments17",
        what="mathematics in the ASSISTments tutor over years, middle school",
        published="sites.google.com/view/assistmentsdatamining/dataset",
        terms="on request, for research; not to be passed on",
        files="*anonymized*.csv or *2017*.csv, with studentId, problemId, skill, correct, startTime",
        read=read_2017,
        paper=Counts(1_708, 3_162, 411, 934_638),
    ),
    Source(
        name="assistments09",
        what="mathematics in the ASSISTments tutor, skill builders of 2009-2010",
        published="sites.google.com/site/assistmentsdata",
        terms="on request, for research; not to be passed on",
        files="*skill*builder*.csv, with order_id, user_id, problem_id, skill_id, correct",
        read=read_2009,
    ),
]
