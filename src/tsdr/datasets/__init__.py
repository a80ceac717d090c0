"""From the files of a data set, as they are downloaded, to a log, with an account of every row."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, get_args

import polars as pl

from tsdr.datasets import assistments, caliper, ednet, ptadisc, pykt, slepemapy, steps, wcrp, xapi
from tsdr.datasets.account import Account, Counts
from tsdr.datasets.interactions import Preparation, Unanswered, finish
from tsdr.datasets.raw import RawFolder
from tsdr.datasets.source import Source
from tsdr.errors import InputError, in_a_sentence
from tsdr.files import replacing
from tsdr.log import Log

__all__ = ["SOURCES", "Account", "Counts", "Sample", "Source", "Unanswered", "load", "prepare"]

_MODULES = (wcrp, assistments, slepemapy, steps, ptadisc, ednet, xapi, caliper, pykt)
SOURCES: dict[str, Source] = {source.name: source for module in _MODULES for source in module.SOURCES}
Sample = int | Literal["paper", "all"]


def load(
    name: str,
    raw: str | Path,
    *,
    sample: Sample = "paper",
    seed: int = 42,
    minimum: int = 5,
    unanswered: Unanswered = "skipped",
) -> Log:
    """The log of a data set, from the folder (or the file) that its download unpacked to.

    `sample` draws so many students by `seed`, by default as many as the paper did, where it did. Students with fewer
    than `minimum` answers are left out. `unanswered` says what becomes of offers that were shown and not answered: a
    skipped offer, a wrong answer, or nothing, as in the paper.
    """
    with _interactions(name, raw, sample, seed, minimum, unanswered, lambda stage: None) as (frame, _):
        return Log(frame.collect(), source=name)


def prepare(
    name: str,
    raw: str | Path,
    out: str | Path,
    *,
    sample: Sample = "paper",
    seed: int = 42,
    minimum: int = 5,
    unanswered: Unanswered = "skipped",
    on_stage: Callable[[str], None] = lambda stage: None,
) -> Account:
    """Write the log of a data set as Parquet, whole or not at all, and account for every row."""
    out = Path(out)
    if out.suffix not in (".parquet", ".pq"):
        raise InputError(f"{out}: a log is written as Parquet; name a file that ends in .parquet")
    on_stage(f"Reading {name}")
    with _interactions(name, raw, sample, seed, minimum, unanswered, on_stage) as (frame, account):
        if not account.read:
            raise InputError(f"{raw}: the files of {name} have no rows; there is nothing to prepare")
        left = account.counts.interactions + account.skipped
        if not left:
            raise InputError(f"{raw}: no row of {name} is left; dropped: {_reasons(account)}")
        on_stage(f"Writing {left:,} rows")
        try:
            with replacing(out) as temporary:
                frame.sink_parquet(temporary, maintain_order=True)
        except (pl.exceptions.PolarsError, OSError) as error:
            raise InputError(
                f"{out}: the log cannot be written ({in_a_sentence(error)}); nothing was left there"
            ) from error
    return account


@contextmanager
def _interactions(
    name: str,
    raw: str | Path,
    sample: Sample,
    seed: int,
    minimum: int,
    unanswered: Unanswered,
    on_stage: Callable[[str], None],
) -> Iterator[tuple[pl.LazyFrame, Account]]:
    """The interactions as a log has them, and their account; they may lie in files that are there meanwhile."""
    if name not in SOURCES:
        raise InputError(f"there is no data set {name!r}; choose from {', '.join(SOURCES)}")
    if (isinstance(sample, str) and sample not in ("paper", "all")) or unanswered not in get_args(Unanswered):
        raise InputError(f'sample is a number, "paper" or "all", not {sample!r}; unanswered not {unanswered!r}')
    if minimum < 1 or (isinstance(sample, int) and sample < 1):
        raise InputError(f"minimum and sample are at least 1, not {minimum} and {sample}")
    source = SOURCES[name]
    drawn = {"paper": source.sample, "all": None}[sample] if isinstance(sample, str) else sample
    options = Preparation(drawn, seed, minimum, unanswered)
    account = Account(name, source.paper)
    with RawFolder(name, Path(raw), on_stage) as folder:
        if source.parts is None or drawn is not None:
            frame = _finished(source.read(folder, options, account), account, options)
        else:
            parts = (_finished(part, account, options) for part in source.parts(folder, options, account))
            frame = folder.laid_down(parts)
            if "skipped" in frame.collect_schema():
                frame = frame.with_columns(pl.col("skipped").fill_null(False))
        account.close(frame)
        yield frame, account


def _finished(rows: pl.DataFrame, account: Account, options: Preparation) -> pl.LazyFrame:
    """Interactions in the order of a log, ids as text."""
    return finish(rows, account, options).lazy().with_columns(pl.col("student", "question", "concept").cast(pl.String))


def _reasons(account: Account) -> str:
    return "; ".join(f"{rows:,} {reason}" for reason, rows in account.dropped.items()) or "nothing"
