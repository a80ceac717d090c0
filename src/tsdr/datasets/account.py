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
    def of(cls, frame: pl.DataFrame) -> "Counts":
        """The counts of a table of interactions; skipped offers are none."""
        answered = frame.filter(pl.col("correct").is_not_null())
        students, questions, concepts = (answered[name].n_unique() for name in ("student", "question", "concept"))
        return cls(students, questions, concepts, answered.height)


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

    def close(self, frame: pl.DataFrame) -> None:
        """Count what is left; every row that was read is either there or dropped for a reason."""
        self.counts = Counts.of(frame)
        self.skipped = frame.height - self.counts.interactions
        if self.counts.interactions:
            self.share_right = float(frame["correct"].cast(pl.Float64).mean() or 0.0)  # type: ignore[arg-type]
        kept = self.read - sum(self.dropped.values())
        if kept != frame.height:
            raise AssertionError(f"{self.dataset}: {kept:,} rows should be left, and {frame.height:,} are")
