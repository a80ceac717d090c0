"""The steps that readers share: from rows as a source writes them to interactions in the order of a log."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import polars as pl

from tsdr.datasets.account import Account

Unanswered = Literal["wrong", "skipped", "drop"]
JOINER = "~~"  # between the skills of a set


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


def blank(column: str) -> pl.Expr:
    """Whether a text is absent or has nothing in it."""
    return pl.col(column).is_null() | (pl.col(column).str.strip_chars() == "")


def flag(column: str) -> pl.Expr:
    """0 or 1 from what exports write for it, else null."""
    text = pl.col(column).str.strip_chars().str.to_lowercase()
    right, wrong = ["1", "1.0", "true", "correct", "ok"], ["0", "0.0", "false", "incorrect", "wrong", "hint", "bug"]
    return pl.when(text.is_in(right)).then(1).when(text.is_in(wrong)).then(0).cast(pl.Int8)


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


def finish(frame: pl.DataFrame, account: Account, options: Preparation) -> pl.DataFrame:
    """Leave out students with too few answers, draw a sample of the others, and sort by student and time.

    Ids are turned into the ranks of their names, which are small and quick to sort by, and back by whoever writes.
    """
    answers = frame.group_by("student").agg(pl.col("correct").is_not_null().sum().alias("answers"))
    enough = answers.filter(pl.col("answers") >= options.minimum)["student"].cast(pl.String).sort()
    few = ~pl.col("student").is_in(enough.cast(frame["student"].dtype).implode())
    frame = without(frame, account, {f"student with fewer than {options.minimum} answers": few})
    if options.sample is not None and options.sample < len(enough):
        chosen = enough.sample(options.sample, seed=options.seed, shuffle=True)
        unchosen = ~pl.col("student").is_in(chosen.cast(frame["student"].dtype).implode())
        frame = without(frame, account, {f"student outside the sample of {options.sample:,}": unchosen})
    ranked = frame.with_columns(_in_order(frame["student"], enough).alias("student"))
    ordered = ranked.sort("student", "time", maintain_order=True)
    account.close(ordered)
    columns = ["student", "question", "concept", "correct", "time"]
    return ordered.select([*columns, "skipped"] if "skipped" in ordered.columns else columns)


def _in_order(names: pl.Series, sorted_names: pl.Series) -> pl.Series:
    """The names as an enumeration in their own order, so that sorting by it is sorting by name."""
    return names.cast(pl.String).cast(pl.Enum(sorted_names))
