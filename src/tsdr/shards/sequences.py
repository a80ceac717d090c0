"""What models read of shards: sequences of a few of them at a time, in batches, and never of the whole."""

import hashlib
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import polars as pl
import torch

from tsdr.defaults import SEED, Extent
from tsdr.log import SKIPPED, Vocabulary
from tsdr.pairs import Pairs
from tsdr.sequences import Batch, Dropped, Sequences
from tsdr.shards.folder import SCHEMA, Shards

AT_ONCE = 2  # shards that are in memory together, and whose students are shuffled among each other
SAMPLED = 1_000_000  # answers, at most, that are in memory together for what is fitted to all that it gets at once
HELD_OUT = 500_000  # answers, at most, that a training is stopped by
_NOBODY = SCHEMA.to_frame()


@dataclass(frozen=True)
class Account:
    """What is counted over all sequences of shards."""

    rows: int
    scored_answers: int
    skips_read: int
    pairs: Pairs
    dropped: Dropped


@dataclass(frozen=True)
class ShardedSequences:
    """The sequences of a log in shards, without those of students who are `held_out`: `Lessons` that are on disk.

    They are those that `Sequences.from_log` cuts. `seed` is that of the sample.
    """

    shards: Shards
    window: Extent
    scored: Extent | None
    minimum: int
    skips: bool
    seed: int = SEED
    held_out: pl.Series = field(default_factory=lambda: pl.Series(dtype=pl.String))

    def __len__(self) -> int:
        return self.account.rows

    @property
    def vocabulary(self) -> Vocabulary:
        """The names behind the integers."""
        return self.shards.vocabulary

    @property
    def scored_answers(self) -> int:
        """How many answers there are to learn from."""
        return self.account.scored_answers

    @property
    def skips_read(self) -> int:
        """How many skipped offers are read."""
        return self.account.skips_read

    @property
    def dropped(self) -> Dropped:
        """What was left out on the way from the shards."""
        return self.account.dropped

    def pairs(self) -> Pairs:
        """How often each question was answered in each concept, and how often right."""
        return self.account.pairs

    @cached_property
    def account(self) -> Account:
        """What is counted, in one pass over all shards."""
        parts = [_account_of(self._sequences([self._of_shard(number)])) for number in range(len(self.shards))]
        return Account(
            rows=sum(part.rows for part in parts),
            scored_answers=sum(part.scored_answers for part in parts),
            skips_read=sum(part.skips_read for part in parts),
            pairs=Pairs.together([part.pairs for part in parts]),
            dropped=Dropped(
                short_students=sum(part.dropped.short_students for part in parts),
                short_answers=sum(part.dropped.short_answers for part in parts),
                earlier_interactions=sum(part.dropped.earlier_interactions for part in parts),
            ),
        )

    def students(self) -> list[str]:
        """Those that have a sequence here."""
        return self._students["student"].to_list()

    @property
    def most_held_out(self) -> int:
        """How many students a training is stopped by, at most."""
        students = self._students
        return max(1, HELD_OUT * students.height // max(1, int(students["answers"].sum())))

    def select(self, students: Sequence[str]) -> Sequences:
        """The sequences of these students, in memory."""
        wanted = pl.Series(students, dtype=pl.String).implode()
        found = (self._of_shard(number).filter(pl.col("student").is_in(wanted)) for number in range(len(self.shards)))
        return self._sequences(list(found))

    def without(self, students: Sequence[str]) -> "ShardedSequences":
        """The sequences of all students but these."""
        return replace(self, held_out=pl.concat([self.held_out, pl.Series(students, dtype=pl.String)]))

    def sample(self) -> Sequences:
        """The sequences of students drawn by the seed, as many as have a million answers; of all, if there are no more.

        What is drawn goes by the set of students, not by how they lie in shards.
        """
        return self._sample

    @cached_property
    def _sample(self) -> Sequences:
        students = self._students.sort("student")
        if students["answers"].sum() > SAMPLED:
            drawn = students[np.random.default_rng(self.seed).permutation(students.height)]
            students = drawn.filter(pl.col("answers").cum_sum() <= SAMPLED)
            warnings.warn(
                f"counts are fitted to {students['answers'].sum():,} of {drawn['answers'].sum():,} answers, those of "
                f"{students.height:,} students drawn by the seed: all at once would take too much memory",
                stacklevel=2,
            )
        return self.select(students["student"].to_list())

    def batches(self, size: int = 64, generator: torch.Generator | None = None) -> Iterator[Batch]:
        """All sequences in batches of `size`, in a random order if a `generator` is given.

        Shards are drawn two by two, and the sequences of both are in batches as those of a log in memory are.
        """
        numbers = torch.arange(len(self.shards))
        if generator is not None and len(numbers) > AT_ONCE:
            numbers = torch.randperm(len(numbers), generator=generator)
        for some in numbers.split(AT_ONCE):
            yield from self._sequences([self._of_shard(number) for number in some.tolist()]).batches(size, generator)

    def digest(self) -> str:
        """Tells these interactions of these students from any others."""
        how = self.window, self.scored, self.minimum, self.skips, self.seed, sorted(self.held_out)
        return hashlib.sha256(f"{self.shards.digest()} {how}".encode()).hexdigest()[:16]

    @cached_property
    def _students(self) -> pl.DataFrame:
        """The students that have a sequence, with how many answers each has."""
        found = [self._of_shard(number).select("student", "answers") for number in range(len(self.shards))]
        return pl.concat([_NOBODY.select("student", "answers"), *found]).filter(pl.col("answers") >= self.minimum)

    def _of_shard(self, number: int) -> pl.DataFrame:
        return self.shards.read(number).filter(~pl.col("student").is_in(self.held_out.implode()))

    def _sequences(self, parts: Sequence[pl.DataFrame]) -> Sequences:
        """The sequences of the students of some parts of shards, in the order of their names."""
        students = pl.concat([_NOBODY, *parts]).sort("student")
        events = students.select("student", "concept", "question", "response").explode(
            "concept", "question", "response"
        )
        if not self.skips:
            events = events.filter(pl.col("response") != SKIPPED)
        answered = pl.col("response") != SKIPPED
        told = events.with_columns(
            correct=pl.when(answered).then("response").otherwise(0),
            position=(answered.cum_sum() - answered).over("student").cast(pl.Int64),
        )
        return Sequences.of_coded(
            told, self.vocabulary, window=self.window, scored=self.scored, minimum=self.minimum, skips=self.skips
        )


def _account_of(sequences: Sequences) -> Account:
    return Account(len(sequences), sequences.scored_answers, sequences.skips_read, sequences.pairs(), sequences.dropped)
