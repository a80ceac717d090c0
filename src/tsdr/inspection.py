"""What is in a log, in a few numbers, and what in it looks wrong."""

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from tsdr.defaults import LONG_WINDOW, WINDOW
from tsdr.log import Log

RARE = 10
SHORT = 5


@dataclass(frozen=True)
class Inspection:
    """The numbers that describe a log; `oddities` are sentences about what looks wrong, the worst first.

    `share_in_view` is how much of the log the latest so many answers of each student are.
    """

    students: int
    questions: int
    concepts: int
    interactions: int
    share_right: float | None
    answers_a_student: tuple[int, ...]
    share_in_view: dict[int, float]
    busiest_tenth_share: float
    quieter_half_share: float
    rare_concepts: int
    skipped_offers: int
    oddities: tuple[str, ...]

    def rows(self) -> list[tuple[str, str]]:
        """What is measured and its value, as text, in the order to read them."""
        smallest, low, median, high, largest = (f"{answers:,}" for answers in self.answers_a_student)
        offers = self.interactions + self.skipped_offers
        return [
            ("students", f"{self.students:,}"),
            ("questions", f"{self.questions:,}"),
            ("concepts", f"{self.concepts:,}"),
            ("interactions", f"{self.interactions:,}"),
            ("share right", "none answered" if self.share_right is None else f"{self.share_right:.1%}"),
            (
                "answers a student",
                f"median {median}, 80 % of students {low} to {high}, all {smallest} to {largest}",
            ),
            (
                "in view of a window",
                ", ".join(f"{share:.1%} of the answers with {window}" for window, share in self.share_in_view.items())
                + ", every answer with all",
            ),
            (
                "long tail of concepts",
                f"busiest tenth has {self.busiest_tenth_share:.1%} of the answers, quieter half "
                f"{self.quieter_half_share:.1%}; {self.rare_concepts:,} with fewer than {RARE} answers",
            ),
            ("skipped offers", f"{self.skipped_offers:,}, {self.skipped_offers / offers:.1%} of all offers"),
        ]


def inspect_log(log: Log) -> Inspection:
    """Describe a log that has at least one row.

    >>> log = Log(pl.DataFrame({"student": ["ann", "ann", "bob"], "concept": ["x", "y", "x"], "correct": [1, 0, 1]}))
    >>> inspect_log(log).concepts
    2
    """
    answered = log.answered
    per_student = log.frame.group_by("student").agg(answers=pl.col("correct").is_not_null().sum())["answers"]
    per_concept = log.frame.group_by("concept").agg(answers=pl.col("correct").is_not_null().sum())["answers"]
    busiest_first = per_concept.sort(descending=True)
    tenth, half = -(-len(per_concept) // 10), len(per_concept) // 2
    share_right = answered["correct"].mean()
    return Inspection(
        students=len(per_student),
        questions=log.frame["question"].n_unique(),
        concepts=len(per_concept),
        interactions=answered.height,
        share_right=share_right if isinstance(share_right, float) else None,
        answers_a_student=tuple(int(per_student.quantile(q, "nearest") or 0) for q in (0.0, 0.1, 0.5, 0.9, 1.0)),
        share_in_view={
            window: float(per_student.clip(upper_bound=window).sum()) / max(answered.height, 1)
            for window in (WINDOW, LONG_WINDOW)
        },
        busiest_tenth_share=int(busiest_first.head(tenth).sum()) / max(answered.height, 1),
        quieter_half_share=int(busiest_first.tail(half).sum()) / max(answered.height, 1),
        rare_concepts=int((per_concept < RARE).sum()),
        skipped_offers=log.skipped_offers,
        oddities=tuple(_oddities(log, per_student)),
    )


def _oddities(log: Log, answers_a_student: pl.Series) -> Iterator[str]:
    """What would do most harm comes first."""
    answered = log.answered
    if not answered.height:
        yield "No row has an answer: every offer was skipped, so there is nothing to learn from."
        return
    attempts = answered.group_by("student", "question", "time").agg(
        concepts=pl.col("concept").n_unique(), rows=pl.len()
    )
    exploded = attempts.filter(pl.col("concepts") > 1)["rows"].sum()
    if exploded:
        yield (
            f"{exploded:,} rows share student, question and time but not the concept: the log seems to have one row "
            "a skill. Each attempt's answer then stands in several rows, and a model can read it from the one "
            "before. Keep one row an attempt, with all its skills in the concept column."
        )
    copies = answered.height - answered.select("student", "question", "time", "concept").n_unique()
    if copies:
        yield (
            f"{copies:,} rows repeat another row's student, question and time. Are they written twice? "
            "`tsdr clean --drop copies` leaves them out."
        )
    if answered["correct"].n_unique() == 1:
        yield f"Every answer is {answered['correct'][0]}. Is the right column mapped to 'correct'?"
    if answered["concept"].n_unique() > answered.height / 2:
        yield "More than half of the answers have a concept of their own. Is a question id mapped to 'concept'?"
    yield from _look_alikes(log)
    short = (answers_a_student < SHORT).sum()
    if short > len(answers_a_student) / 2:
        yield (
            f"{short:,} of {len(answers_a_student):,} students have fewer than {SHORT} answers and are left out of "
            "sequences by default. Is the right column mapped to 'student'?"
        )
    concepts = log.frame.group_by("question").agg(pl.col("concept").n_unique())["concept"]
    torn = (concepts > 1).sum()
    if torn and not exploded:
        yield f"{torn:,} of {len(concepts):,} questions have several concepts. One, the set of them, is meant."
    steps = answered.select((pl.col("time").diff().over("student") == 0).mean().alias("ties"))["ties"][0]
    if steps is not None and steps > 0.5:
        yield f"{steps:.0%} of the answers have the time of the one before: their order is that of the file."


def _look_alikes(log: Log) -> Iterator[str]:
    """Names of students, questions and concepts that differ from another one by case or space around them only."""
    columns = ["student", "concept"] + ["question"] * (not log.frame["question"].equals(log.frame["concept"]))
    for column in columns:
        rows = log.frame.group_by(column).len().with_columns(alike=pl.col(column).str.strip_chars().str.to_lowercase())
        alike = rows.filter(pl.len().over("alike") > 1).sort("alike", column)
        if alike.height:
            one, other = alike.head(2).iter_rows()
            yield (
                f"{alike.height:,} {column}s differ from another one by case or space around the name only, as "
                f"{one[0]!r} ({one[1]:,} rows) and {other[0]!r} ({other[1]:,}). If they are the same, write them alike."
            )
