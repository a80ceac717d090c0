"""The steps that readers share: from rows as a source writes them to interactions in the order of a log."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tsdr.datasets.account import Account
from tsdr.tables import DATE_TIMES, ZONED_DATE_TIMES

Unanswered = Literal["wrong", "skipped", "drop"]
RIGHT = ("1", "1.0", "true", "correct", "ok")
WRONG = ("0", "0.0", "false", "incorrect", "wrong", "hint", "bug")
JOINER = "~~"  # between the skills of a set
MONTH_FIRST = ("%m/%d/%Y %H:%M:%S", "%m/%d/%Y %H:%M")  # some exports of data sets, whose rule it is
NOTE = "note: "  # begins the name of a column that marks rows which are kept, and taken for something


@dataclass(frozen=True)
class Preparation:
    """What is asked of a reader beyond its data set's own rules."""

    sample: int | None = None
    seed: int = 42
    minimum: int = 5
    unanswered: Unanswered = "skipped"


def without(frame: pl.DataFrame, account: Account, rules: Mapping[str, pl.Expr]) -> pl.DataFrame:
    """Drop the rows that a rule is true of, each counted under the first such rule."""
    reason = pl.coalesce(
        *(pl.when(rule).then(pl.lit(number, dtype=pl.UInt8)) for number, rule in enumerate(rules.values()))
    )
    marked = frame.select(reason.alias("reason")).to_series()
    for number, name in enumerate(rules):
        account.drop(name, int((marked == number).sum()))
    return frame.filter(marked.is_null())


def ruled(rows: pl.DataFrame, account: Account, options: Preparation, unanswered: pl.Expr, what: str) -> pl.DataFrame:
    """What becomes of offers that were shown and not answered: skipped offers, wrong answers or nothing, as asked.

    The account names them by `what`. A table without one is given back as it is.
    """
    mark = _marked(rows, unanswered)
    if not mark.any():
        return rows
    if options.unanswered == "drop":
        account.drop(what, int(mark.sum()))
        return rows.filter(~mark)
    wrong = options.unanswered == "wrong"
    judged = pl.when(mark).then(pl.lit(0 if wrong else None, dtype=pl.Int8)).otherwise("correct")
    note = mark.alias(f"{NOTE}{what}, {'taken for a wrong answer' if wrong else 'kept as a skipped offer'}")
    rows = rows.with_columns(note, correct=judged)
    return rows if wrong else rows.with_columns(mark.alias("skipped"))


def one_row_an_offer(
    rows: pl.DataFrame, account: Account, unanswered: pl.Expr, offer: Sequence[str | pl.Expr], place: str
) -> pl.DataFrame:
    """Of the rows without an answer, leave the earliest of each offer that was never answered.

    `offer` is what the rows of one offer have in common. Beside an answer, a row without one is only one more trace of
    the same attempt; beside another such row, it is the same offer once more.
    """
    mark = _marked(rows, unanswered)
    if not mark.any():
        return rows
    told = rows.lazy().select(*offer)
    key = told.collect_schema().names()
    empty = rows.filter(mark).select(*offer, pl.col("time").alias("when")).with_columns(row=mark.arg_true())
    answered = told.filter(~mark).join(empty.lazy(), key, "semi", nulls_equal=True).collect(engine="streaming")
    never = empty.join(answered, key, "anti", nulls_equal=True, maintain_order="left")
    first = never.sort("when", maintain_order=True).unique(key, keep="first")
    account.drop(f"no answer, in another row of {place} that is answered", empty.height - never.height)
    account.drop(f"no answer, in another row of {place} without one", never.height - first.height)
    kept = (~mark).to_numpy(writable=True)
    kept[first["row"].to_numpy()] = True
    return rows.filter(kept)


def _marked(rows: pl.DataFrame, rule: pl.Expr) -> pl.Series:
    return rows.select(rule.fill_null(False).alias("marked")).to_series()


def blank(column: str) -> pl.Expr:
    """Whether a text is absent or has nothing in it."""
    return pl.col(column).is_null() | (pl.col(column).str.strip_chars() == "")


def flag(column: str) -> pl.Expr:
    """0 or 1 from what exports write for it, else null."""
    text = pl.col(column).str.strip_chars().str.to_lowercase()
    return pl.when(text.is_in(RIGHT)).then(1).when(text.is_in(WRONG)).then(0).cast(pl.Int8)


def whole_number(column: str) -> pl.Expr:
    """A whole number from text, also from text like 12.0; exact up to 2^53."""
    return pl.col(column).cast(pl.Float64, strict=False).cast(pl.Int64, strict=False)


def date_time(column: str) -> pl.Expr:
    """A date-time from text in any of the formats that exports write; null where it fits none."""
    text = pl.col(column).str.strip_chars()
    zoned = [text.str.to_datetime(form, strict=False, time_unit="us", time_zone="UTC") for form in ZONED_DATE_TIMES]
    plain = [text.str.to_datetime(form, strict=False, time_unit="us") for form in (*DATE_TIMES, *MONTH_FIRST)]
    return pl.coalesce(*plain, *(time.dt.replace_time_zone(None) for time in zoned))


def skill_sets(frame: pl.DataFrame, separator: str | None) -> pl.DataFrame:
    """Give every question ONE concept: the set of all skills that were ever logged with it.

    `skill` is text, with several skills of a row between `separator`s. Rows for single skills of an attempt would show
    a model the answer that it is to predict.
    """
    skills = frame.select("question", "skill").unique()
    split = skills.with_columns(pl.col("skill").str.split(separator)).explode("skill") if separator else skills
    sets = (
        split.with_columns(pl.col("skill").str.strip_chars())
        .filter(pl.col("skill") != "")
        .unique()
        .sort("question", "skill")
        .group_by("question", maintain_order=True)
        .agg(pl.col("skill").str.join(JOINER).alias("concept"))
    )
    return frame.drop("skill").join(sets, on="question", how="left", maintain_order="left")


def by_name(names: pl.Series, values: Callable[[pl.Series], pl.Series]) -> pl.Series:
    """What a function makes of each name of a categorical column, worked out once a name instead of once a row."""
    known = names.drop_nulls().unique()
    place = np.full(int(known.to_physical().max() or 0) + 2, -1, dtype=np.int64)  # type: ignore[arg-type]
    place[known.to_physical().to_numpy()] = np.arange(len(known))
    found = pl.Series(place[names.to_physical().fill_null(len(place) - 1).to_numpy()])
    found_values = values(known.cast(pl.String))
    assert len(found_values) == len(known), "one value a name"
    return found_values.gather(found.replace(-1, None))


def finish(frame: pl.DataFrame, account: Account, options: Preparation) -> pl.DataFrame:
    """Leave out students with too few answers, draw a sample of the others, and sort by student and time.

    Students become an enumeration in the order of their names, which is small, and quick to sort by.
    """
    frame = without(frame, account, _unfit(frame))
    rank, names = _ranks(frame["student"])
    answers = np.bincount(rank[frame["correct"].is_not_null().to_numpy()], minlength=len(names))
    enough = answers >= options.minimum
    chosen = enough.copy()
    if options.sample is not None and options.sample < enough.sum():
        drawn = np.random.default_rng(options.seed).choice(np.flatnonzero(enough), options.sample, replace=False)
        chosen[:] = False
        chosen[drawn] = True
    account.drop(f"student with fewer than {options.minimum} answers", int((~enough)[rank].sum()))
    account.drop(f"student outside the sample of {options.sample or 0:,}", int((enough & ~chosen)[rank].sum()))
    student = pl.Series("student", rank).cat.to(pl.Enum(names))
    ordered = frame.with_columns(student).filter(chosen[rank]).sort("student", "time", maintain_order=True)
    for name in ordered.columns:
        if name.startswith(NOTE):
            account.note(name.removeprefix(NOTE), int(ordered[name].sum()))
    columns = ["student", "question", "concept", "correct", "time"]
    return ordered.select([*columns, "skipped"] if "skipped" in ordered.columns else columns)


def _unfit(frame: pl.DataFrame) -> dict[str, pl.Expr]:
    """What no log can hold, whatever the source: no id, or a year of two digits."""
    rules = {}
    for column, what in {"student": "no student", "question": "no question", "concept": "no skill"}.items():
        rules[what] = blank(column) if frame[column].dtype == pl.String else pl.col(column).is_null()
    early = pl.col("time").dt.year() < 1000 if frame["time"].dtype == pl.Datetime else pl.lit(False)
    return rules | {"no time": pl.col("time").is_null() | early}


def by_student(frame: pl.DataFrame, rows: int) -> Iterator[pl.DataFrame]:
    """The table in parts of about so many rows, no student in two of them: what is sorted out there stays small."""
    rank, names = _ranks(frame["student"])
    parts = max(1, frame.height // rows)
    part = rank // -(-len(names) // parts) if len(names) else rank
    for number in range(parts):
        yield frame.filter(part == number)


def _ranks(student: pl.Series) -> tuple[NDArray[np.uint32], pl.Series]:
    """The place of each row's student among the sorted names, and those names."""
    coded = student.cast(pl.Categorical)
    code = coded.to_physical().to_numpy()
    names = coded.unique().cast(pl.String).sort()
    rank = np.zeros(int(code.max(initial=0)) + 1, dtype=np.uint32)
    rank[names.cast(pl.Categorical).to_physical().to_numpy()] = np.arange(len(names), dtype=np.uint32)
    return rank[code], names
