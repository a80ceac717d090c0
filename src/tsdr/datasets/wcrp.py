"""Spanish (WCRP): one line an answer, `student item correct`, in order; line i of the labels has item i's concept."""

import polars as pl

from tsdr.datasets.account import Account, Counts
from tsdr.datasets.interactions import Preparation, blank, flag, without
from tsdr.datasets.raw import RawFolder
from tsdr.datasets.source import Source
from tsdr.errors import InputError


def read(raw: RawFolder, options: Preparation, account: Account) -> pl.DataFrame:
    """Answers and expert labels; there are no times, so the order of the lines stands for them."""
    answers = raw.utf8(raw.one("*spanish_dataset*.txt"))
    labels = raw.utf8(raw.one("*spanish_expert_labels*.txt")).read_text("utf-8-sig").split("\n")
    rows = pl.DataFrame({"line": answers.read_text("utf-8-sig").splitlines()}, schema={"line": pl.String})
    rows = rows.filter(pl.col("line").str.strip_chars() != "")
    account.read = rows.height
    parts = pl.col("line").str.strip_chars().str.split_exact(pl.lit(" "), 2)
    rows = rows.select(parts.struct.rename_fields(["student", "question", "answer"]).struct.unnest())
    if rows["answer"].null_count() == rows.height:
        raise InputError(
            f"{raw.folder}: the lines of {answers.name} are not `student item correct`, with spaces between"
        )
    concepts = {str(item): label.strip() for item, label in enumerate(labels) if label.strip()}
    rows = rows.with_columns(
        correct=flag("answer"),
        concept=pl.col("question").replace_strict(concepts, default=None, return_dtype=pl.String),
        time=pl.int_range(pl.len()),
    )
    return without(
        rows,
        account,
        {
            "no student or item": blank("student") | blank("question"),
            "answer is neither 0 nor 1": pl.col("correct").is_null(),
            "item without an expert label": pl.col("concept").is_null(),
        },
    )


SOURCES = [
    Source(
        name="spanish",
        what="Spanish exercises of middle-school students over a semester, with expert labels",
        published="github.com/robert-lindsey/WCRP",
        terms="published for research with its paper (Lindsey et al., 2014); cite it",
        files="*spanish_dataset*.txt, *spanish_expert_labels*.txt",
        read=read,
        paper=Counts(182, 409, 221, 578_726),
    )
]
