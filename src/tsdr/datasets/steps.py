"""Step tables of tutors: KDD Cup 2010 (Algebra05, Bridge06), Statics 2011, and any DataShop export.

All are tab-separated with `Anon Student Id`, a time, a result and a column of knowledge components `KC (model)`,
several of them joined by `~~`. A question is a problem and a step of it.

A row without a result is an offer that was shown and not answered only where nothing else says that the step was
answered, and where it has a time: the test files of the KDD Cup withhold both, and show nothing.
"""

from functools import partial
from pathlib import Path

import polars as pl

from tsdr.datasets.account import Account, Counts
from tsdr.datasets.interactions import (
    JOINER,
    NOTE,
    Preparation,
    blank,
    date_time,
    flag,
    one_row_an_offer,
    ruled,
    skill_sets,
    whole_number,
    without,
)
from tsdr.datasets.raw import RawFolder
from tsdr.datasets.source import Source
from tsdr.errors import InputError

STUDENT, PROBLEM, STEP = "Anon Student Id", "Problem Name", "Step Name"
RESULTS = ("Correct First Attempt", "First Attempt", "Outcome")
TIMES = ("First Transaction Time", "Time", "Step Start Time")
ATTEMPT, VIEW, TRANSACTION = "Attempt At Step", "Problem View", "Transaction Id"
ACTIONS = ("Incorrects", "Hints", "Corrects")  # how many there were at the step, where rows are steps


def read(raw: RawFolder, options: Preparation, account: Account, *, patterns: tuple[str, ...], kc: str) -> pl.DataFrame:
    """First attempts at steps that have a knowledge component of the model `kc` (the first model, if it is empty)."""
    rows = _named(raw, raw.need(*patterns) if kc == "" else [raw.one(*patterns)], kc)
    account.read = rows.height
    view = [VIEW] if VIEW in rows.columns else []
    empty = pl.col("empty")
    rules = {
        "no student": blank("student"),
        "neither a result nor a time": empty & pl.col("time").is_null(),
        "no knowledge component": blank("skill"),
    }
    rows = without(rows, account, rules)
    rows = one_row_an_offer(rows, account, empty, ["student", "question", *view], "a step")
    acted = pl.any_horizontal(pl.lit(False), *(whole_number(name) > 0 for name in ACTIONS if name in rows.columns))
    rules = {
        "no answer to the first attempt, and others after it": empty & acted,
        "result that is neither right nor wrong": pl.col("correct").is_null() & ~empty,
    }
    if ATTEMPT in rows.columns:
        rules["later attempt at the step"] = ~empty & (whole_number(ATTEMPT) > 1)
    rows = without(rows, account, rules)
    known = TRANSACTION if TRANSACTION in rows.columns else "time"
    key = [TRANSACTION] if known == TRANSACTION else ["student", "question", "time", *view]
    again = pl.col(known).is_not_null() & ~pl.struct(key).is_first_distinct()
    rows = ruled(without(rows, account, {"the same step twice": again}), account, options, empty, "no result")
    return skill_sets(_in_order(rows), JOINER)


def _named(raw: RawFolder, paths: list[Path], kc: str) -> pl.DataFrame:
    """The rows of the files under our names, `empty` where there is no result, and columns that some exports have."""
    separator = raw.separator(paths[0])
    found = raw.header(paths[0], separator)
    result, time = (_first(paths[0], found, names) for names in (RESULTS, TIMES))
    skills = _components(paths[0], found, kc)
    headers = [raw.header(path, separator) for path in paths]
    actions, times = (
        [name for name in names if all(name in header for header in headers)] for names in (ACTIONS, TIMES)
    )
    optional = [*(name for name in (PROBLEM, STEP, VIEW, ATTEMPT, TRANSACTION) if name in found), *actions]
    rows = raw.collect(
        raw.table(paths, [STUDENT, result, *dict.fromkeys((time, *times)), *skills, *optional], separator=separator)
    )
    named = [pl.col(name).fill_null("") for name in (PROBLEM, STEP) if name in found]
    parts = [pl.when(~blank(name)).then(pl.col(name)) for name in skills]
    skill = pl.concat_str(parts, separator=JOINER, ignore_nulls=True)
    hint = pl.col(result).str.strip_chars().str.to_lowercase() == "hint"
    # What was not answered may have no transaction, and so no time of one: it was there from the step's start.
    shown = pl.coalesce(pl.when(~blank(name)).then(pl.col(name)) for name in (time, *times))
    rows = rows.with_columns(pl.when(blank(result)).then(shown).otherwise(time).alias(time))
    return rows.select(
        *optional,
        pl.col(STUDENT).alias("student"),
        pl.concat_str(named, separator=" / ").alias("question") if named else skill.alias("question"),
        skill.alias("skill"),
        flag(result).alias("correct"),
        blank(result).alias("empty"),
        hint.alias(f"{NOTE}a hint, taken for a wrong answer"),
        date_time(time).alias("time"),
    )


def _first(path: Path, found: list[str], names: tuple[str, ...]) -> str:
    for name in names:
        if name in found:
            return name
    raise InputError(f"{path}: has none of the columns {', '.join(names)}; {_has(found)}")


def _components(path: Path, found: list[str], kc: str) -> list[str]:
    """The columns of a model's components: an export of transactions repeats the column, once a component."""
    models = [name for name in found if name.replace("KC (", "KC(").startswith(f"KC({kc}")]
    if not models:
        raise InputError(f"{path}: has no column of knowledge components, KC({kc or '...'}); {_has(found)}")
    return [name for name in models if name == models[0] or name.startswith(f"{models[0]}_duplicated_")]


def _has(found: list[str]) -> str:
    return f"it has {', '.join(map(repr, found[:20]))}"


def _in_order(rows: pl.DataFrame) -> pl.DataFrame:
    """A row without a time keeps its place: it takes the time of the student's row before it in the file."""
    absent = pl.col("time").is_null()
    filled = pl.col("time").forward_fill().backward_fill().over("student").fill_null(pl.datetime(1970, 1, 1))
    if rows["time"].null_count() == rows.height:
        filled = pl.int_range(pl.len())
    return rows.with_columns(absent.alias(f"{NOTE}no time, so the place in the file stands for it"), time=filled)


KDD = "pslcdatashop.web.cmu.edu/KDDCup"
SOURCES = [
    Source(
        name="algebra05",
        what="steps of algebra problems in the Cognitive Tutor, 2005-2006",
        published=KDD,
        terms="free for research after registration; cite the challenge (Stamper et al., 2010)",
        files="*algebra_2005_2006_train*.txt, tab-separated, with KC(Default)",
        read=partial(read, patterns=("*algebra_2005_2006_train*.txt", "*.txt"), kc="Default"),
        paper=Counts(571, 173_113, 271, 607_014),
    ),
    Source(
        name="bridge06",
        what="steps of pre-algebra problems in the Cognitive Tutor, 2006-2007",
        published=KDD,
        terms="free for research after registration; cite the challenge (Stamper et al., 2010)",
        files="*bridge_to_algebra_2006_2007_train*.txt, tab-separated, with KC(SubSkills)",
        read=partial(read, patterns=("*bridge_to_algebra_2006_2007_train*.txt", "*.txt"), kc="SubSkills"),
    ),
    Source(
        name="statics",
        what="a college course of engineering statics, autumn 2011",
        published="pslcdatashop.web.cmu.edu/DatasetInfo?datasetId=507",
        terms="on request in DataShop, for research",
        files="*student_step*, tab-separated, with First Attempt and KC (F2011)",
        read=partial(read, patterns=("*student_step*.txt", "*student_step*.csv", "*.txt"), kc="F2011"),
    ),
    Source(
        name="datashop",
        what="any DataShop export of steps or transactions",
        published="pslcdatashop.web.cmu.edu",
        terms="those of the data set",
        files="*.txt, tab-separated, with Anon Student Id, a time, Outcome or Correct First Attempt, KC (model)",
        read=partial(read, patterns=("*.txt", "*.tsv", "*.tab", "*.csv"), kc=""),
    ),
]
