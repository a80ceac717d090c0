"""What is learned from, be it in memory or on disk."""

from collections.abc import Iterator, Sequence
from typing import Protocol

import torch

from tsdr.defaults import Extent
from tsdr.log import Vocabulary
from tsdr.pairs import Pairs
from tsdr.sequences import Batch, Dropped, Sequences


class Lessons(Protocol):
    """Training students, batch by batch, and what is counted over all of them.

    `Sequences` are such lessons, which are in memory.
    """

    @property
    def vocabulary(self) -> Vocabulary:
        """The names behind the integers."""

    @property
    def window(self) -> Extent:
        """How much of a history is in view."""

    @property
    def skips(self) -> bool:
        """Whether offers that were turned down are read."""

    @property
    def dropped(self) -> Dropped:
        """What was left out on the way from the log."""

    @property
    def skips_read(self) -> int:
        """How many of the events are skipped offers."""

    @property
    def scored_answers(self) -> int:
        """How many answers there are to learn from."""

    def __len__(self) -> int:
        """How many rows."""

    def students(self) -> Sequence[str]:
        """Those that there is something to learn from."""

    def pairs(self) -> Pairs:
        """How often each question was answered in each concept, and how often right."""

    def sample(self) -> Sequences:
        """As many of the students as fit in memory, drawn by chance: for what is fitted to all that it gets at once."""

    def batches(self, size: int = 64, generator: torch.Generator | None = None) -> Iterator[Batch]:
        """All of them in batches, in an order that the generator alone decides: it is the same in every process."""

    def digest(self) -> str:
        """Tells them from any others."""
