"""What a data set is: where it is published, which files are expected, and how they are read."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import polars as pl

from tsdr.datasets.account import Account, Counts
from tsdr.datasets.interactions import Preparation
from tsdr.datasets.raw import RawFolder

Reader = Callable[[RawFolder, Preparation, Account], pl.DataFrame]
PartsReader = Callable[[RawFolder, Preparation, Account], Iterator[pl.DataFrame]]


@dataclass(frozen=True)
class Source:
    """A data set. `read` gives the interactions in the order of the files, every row that it drops accounted for.

    `sample` is the number of students that the paper drew, where it did not take all. Where all of them may not fit in
    memory, `parts` gives the interactions of some students after those of others, in the order of their names.
    """

    name: str
    what: str
    published: str
    terms: str
    files: str
    read: Reader
    parts: PartsReader | None = None
    paper: Counts | None = None
    sample: int | None = None
