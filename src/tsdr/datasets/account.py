"""The account of a preparation: what became of every row that was read."""

from dataclasses import dataclass, field

import polars as pl


@dataclass(frozen=True)
class Counts:
    """How large a log is."""

    students: int
    questions: int
    concepts: int
    interactions: int

    @classmethod
    def of(cls, frame: pl.LazyFrame) -> "Counts":
        """The counts of a table of interactions; skipped offers are none."""
        answered = frame.filter(pl.col("correct").is_not_null())
        names = pl.col("student", "question", "concept").n_unique()
        return cls(*answered.select(names, pl.len()).collect(engine="streaming").row(0))


@dataclass
class Account:
    """Rows read, rows dropped by reason, and what is left, beside the paper's counts where there are any."""

    dataset: str
    paper: Counts | None = None
    read: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    notes: dict[str, int] = field(default_factory=dict)
    counts: Counts = field(default_factory=lambda: Counts(0, 0, 0, 0))
    skipped: int = 0
    share_right: float = float("nan")

    def drop(self, reason: str, rows: int) -> None:
        """Count rows that are left out."""
        if rows:
            self.dropped[reason] = self.dropped.get(reason, 0) + rows

    def note(self, what: str, rows: int) -> None:
        """Count rows that are kept, and changed or taken for something."""
        if rows:
            self.notes[what] = self.notes.get(what, 0) + rows

    def close(self, frame: pl.LazyFrame) -> None:
        """Count what is left; every row that was read is either there or dropped for a reason."""
        self.counts = Counts.of(frame)
        right, left = frame.select(pl.col("correct").cast(pl.Int64).sum(), pl.len()).collect(engine="streaming").row(0)
        self.skipped = left - self.counts.interactions
        if self.counts.interactions:
            self.share_right = right / self.counts.interactions
        kept = self.read - sum(self.dropped.values())
        if kept != left:
            raise AssertionError(f"{self.dataset}: {kept:,} rows should be left, and {left:,} are")
