"""Slepemapy: places on maps. A question is a place and a type of question, its concept the place.

"I don't know" is an empty answer in the full release, -1 in the contest files. To drop those rows, as is usual, deletes
failures, and so creates the very selection that this project is about: by default they are kept as skipped offers.
"""

import polars as pl

from tsdr.datasets.account import Account, Counts
from tsdr.datasets.interactions import Preparation, blank, date_time, ruled, whole_number, without
from tsdr.datasets.raw import RawFolder
from tsdr.datasets.source import Source


def read(raw: RawFolder, options: Preparation, account: Account) -> pl.DataFrame:
    """The full release (`answer.csv`, separated by semicolons), or else the contest files."""
    release = raw.find("answer.csv")
    rows = _release(raw) if release else _contest(raw)
    account.read = rows.height
    rows = rows.with_columns(question=pl.concat_str("concept", "kind", separator="-"))
    rows = without(
        rows,
        account,
        {
            "no student or place": blank("student") | pl.col("concept").is_null(),
            "no type of question": blank("kind"),
            "no time": pl.col("time").is_null(),
        },
    )
    rows = without(rows, account, {"the same answer twice": ~pl.col("id").is_first_distinct()})
    rows = rows.with_columns(correct=(pl.col("said") == pl.col("concept")).cast(pl.Int8))
    return ruled(rows, account, options, pl.col("said").is_null(), '"I don\'t know"')


def _release(raw: RawFolder) -> pl.DataFrame:
    names = {
        "id": "id",
        "user": "student",
        "place_asked": "concept",
        "place_answered": "said",
        "type": "kind",
        "inserted": "time",
    }
    table = raw.table([raw.one("answer.csv")], list(names), separator=";").rename(names)
    return raw.collect(table.with_columns(_place("concept"), _place("said"), time=date_time("time")))


def _contest(raw: RawFolder) -> pl.DataFrame:
    """No times: the order of the lines stands for them. A contest's type also tells the number of options: 10 is 1.

    The files overlap: a line that stands in two of them is one answer. Twice in one file, it is two.
    """
    names = {"student": "student", "place": "concept", "answer": "said", "qtype": "kind"}
    columns = [*names, "correct", "rtime"]
    paths = [path for path in raw.need("data-first*.csv", "*.csv") if "qtype" in raw.header(path, ",")]
    rows = raw.collect(raw.table(paths or raw.need("data-first*.csv"), columns, file_name="path"))
    time_in_file = pl.int_range(pl.len()).over([*columns, "path"])
    rows = rows.with_columns(id=pl.concat_str([*columns, time_in_file], separator=" ", ignore_nulls=True))
    return rows.rename(names).select(
        "student",
        _place("concept"),
        "id",
        said=pl.when(_place("said") != "-1").then(_place("said")),
        kind=pl.col("kind").str.slice(0, 1),
        time=pl.int_range(pl.len()),
    )


def _place(column: str) -> pl.Expr:
    """The number of a place as text; null where there is none."""
    return whole_number(column).cast(pl.String).alias(column)


SOURCES = [
    Source(
        name="slepemapy",
        what="adaptive practice of geography facts on maps",
        published="www.fi.muni.cz/adaptivelearning/?a=data",
        terms="Open Database License (ODbL)",
        files="answer.csv (separated by semicolons), or the contest files data-first*.csv",
        read=read,
        paper=Counts(5_000, 2_723, 1_391, 625_523),
        sample=5_000,
    )
]
