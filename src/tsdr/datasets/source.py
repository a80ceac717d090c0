"""What a data set is: where it is published, which files are expected, and how they are read."""

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from tsdr.datasets.account import Account, Counts
from tsdr.datasets.interactions import Preparation
from tsdr.datasets.raw import RawFolder

Reader = Callable[[RawFolder, Preparation, Account], pl.DataFrame]


@dataclass(frozen=True)
class Source:
    """A data set. `read` gives the interactions in the order of the files, every row that it drops accounted for.

    `sample` is the number of students that the paper drew, where it did not take all.
    """

    name: str
    what: str
    published: str
    terms: str
    files: str
    read: Reader
    paper: Counts | None = None
    sample: int | None = None
