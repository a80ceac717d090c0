"""Step tables of tutors: KDD Cup 2010 (Algebra05, Bridge06), Statics 2011, and any DataShop export.

All are tab-separated with `Anon Student Id`, a time, a result and a column of knowledge components `KC (model)`,
several of them joined by `~~`. A question is a problem and a step of it.
"""

from functools import partial
from pathlib import Path

import polars as pl

from tsdr.datasets.account import Account, Counts
from tsdr.datasets.interactions import JOINER, Preparation, blank, flag, skill_sets, without
from tsdr.datasets.raw import RawFolder, header
from tsdr.datasets.source import Source
from tsdr.errors import InputError

STUDENT, PROBLEM, STEP = "Anon Student Id", "Problem Name", "Step Name"
RESULTS = ("Correct First Attempt", "First Attempt", "Outcome")
TIMES = ("First Transaction Time", "Time", "Step Start Time")
TIME_FORMATS = ("%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d %H:%M", "%Y/%m/%d %H:%M:%S%.f", "%m/%d/%Y %H:%M")
ATTEMPT = "Attempt At Step"


def read(raw: RawFolder, options: Preparation, account: Account, *, patterns: tuple[str, ...], kc: str) -> pl.DataFrame:
    """First attempts at steps that have a knowledge component of the model `kc` (the first model, if it is empty)."""
    paths = raw.need(*patterns)
    found = header(raw.utf8(paths[0]), "\t")
    result, time = (_first(raw, paths[0], found, names) for names in (RESULTS, TIMES))
    models = [name for name in found if name.replace("KC (", "KC(").startswith(f"KC({kc}")]
    if not models:
        raise InputError(f"{paths[0]}: has no column of knowledge components, KC({kc or '...'}); {_has(found)}")
    optional = [name for name in (ATTEMPT, PROBLEM, STEP) if name in found]
    columns = [STUDENT, result, time, models[0], *optional]
    rows = raw.collect(raw.table(paths, columns, separator="\t")).rename(
        {STUDENT: "student", result: "answer", time: "time", models[0]: "skill"}
    )
    account.read = rows.height
    named = [name for name in (PROBLEM, STEP) if name in found]
    rows = rows.with_columns(
        question=pl.concat_str([pl.col(name).fill_null("") for name in named], separator=" / ")
        if named
        else pl.col("skill"),
        correct=flag("answer"),
        time=_times(rows["time"]),
    )
    rules = {
        "no student": blank("student"),
        "no answer to the first attempt": pl.col("correct").is_null(),
        "no knowledge component": blank("skill"),
    }
    if ATTEMPT in found:
        rules["later attempt at the step"] = pl.col(ATTEMPT).cast(pl.Int64, strict=False) > 1
    rows = _order(without(rows, account, rules), account)
    hints = int(rows["answer"].str.to_lowercase().str.contains("hint").sum())
    account.note("a hint, taken for a wrong answer", hints)
    return skill_sets(rows.drop("answer", *optional), JOINER)


def _first(raw: RawFolder, path: Path, found: list[str], names: tuple[str, ...]) -> str:
    for name in names:
        if name in found:
            return name
    raise InputError(f"{path}: has none of the columns {', '.join(names)}; {_has(found)}")


def _has(found: list[str]) -> str:
    return f"it has {', '.join(map(repr, found[:20]))}"


def _times(text: pl.Series) -> pl.Series:
    """The reading that fits most rows; null where a time is blank or cannot be read."""
    readings = [text.str.to_datetime(form, strict=False, time_unit="us") for form in TIME_FORMATS]
    return min(readings, key=lambda reading: reading.null_count())


def _order(rows: pl.DataFrame, account: Account) -> pl.DataFrame:
    """A row without a time keeps its place: it takes the time of the student's row before it in the file."""
    absent = int(rows["time"].is_null().sum())
    account.note("no time, so the place in the file stands for it", absent)
    if absent == rows.height:
        return rows.with_columns(time=pl.int_range(pl.len()))
    filled = pl.col("time").forward_fill().backward_fill().over("student").fill_null(pl.datetime(1970, 1, 1))
    return rows.with_columns(time=filled)


KDD = "pslcdatashop.web.cmu.edu/KDDCup"
SOURCES = [
    Source(
        name="algebra05",
        what="steps of algebra problems in the Cognitive Tutor, 2005-2006",
        published=KDD,
        terms="free for research after registration; cite the challenge (Stamper et al., 2010)",
        files="*algebra_2005_2006_train*.txt, tab-separated, with KC(Default)",
        read=partial(read, patterns=("*algebra_2005_2006_train*.txt", "*kddcup*.txt", "*.txt"), kc="Default"),
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
