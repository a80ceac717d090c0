"""From a log to what a model reads: padded tensors, one row a student, and folds by student."""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Self

import numpy as np
import polars as pl
import torch
from torch import Tensor

from tsdr.defaults import FOLDS, MINIMUM, SEED, VALIDATION, WINDOW
from tsdr.errors import InputError
from tsdr.log import Log, Unknown, Vocabulary

UNKNOWN_QUESTION = -1


@dataclass(frozen=True)
class Batch:
    """Interactions of several students, right-padded: [batch, steps] each.

    `concept`, `question` and `response` are what a model reads of an interaction once it is past; `correct` is the
    label of the step, which no model reads. `mask` is true at real interactions, and `scored` at those whose label
    losses and metrics count. A `question` of -1 is one that the vocabulary does not know: it counts as a question of
    average difficulty. Labels are of the logged question or, with a `target`, of that concept at no question.
    `exposure` is how likely what was logged was to be, relative to an even choice of concept and of question within it,
    where that is known.
    """

    concept: Tensor
    question: Tensor
    response: Tensor
    correct: Tensor
    scored: Tensor
    mask: Tensor
    target: Tensor | None = None
    exposure: Tensor | None = None

    @classmethod
    def of_answers(cls, concept: Tensor, question: Tensor, correct: Tensor, mask: Tensor) -> Self:
        """Answers that are both read and foretold; the first of a sequence, before which nothing is, is not scored."""
        scored = mask.clone()
        scored[:, :1] = False
        return cls(concept, question, correct, correct, scored, mask)

    def __len__(self) -> int:
        return self.mask.shape[0]

    def map(self, function: Callable[[Tensor], Tensor]) -> Self:
        """The batch with a function applied to each of its tensors."""
        tensors = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{name: function(tensor) for name, tensor in tensors.items() if tensor is not None})

    def to(self, device: torch.device | str) -> Self:
        """The same batch on another device."""
        return self.map(lambda tensor: tensor.to(device))


@dataclass(frozen=True)
class Dropped:
    """What the way from a log to sequences left out."""

    skipped_offers: int
    unknown_concepts: int
    short_students: int
    earlier_interactions: int


@dataclass(frozen=True)
class Sequences:
    """All sequences of a log as one padded batch, with whose they are and where in the history they stand.

    `student[i]` is the student of row i, and `position[i, j]` says which of all the student's answers in the
    log step j is, 0 the first.
    """

    batch: Batch
    student: tuple[str, ...]
    position: Tensor
    vocabulary: Vocabulary
    dropped: Dropped
    unknown_questions: int
    window: int
    minimum: int

    @classmethod
    def from_log(
        cls,
        log: Log,
        vocabulary: Vocabulary | None = None,
        *,
        window: int = WINDOW,
        minimum: int = MINIMUM,
        unknown: Unknown = "error",
    ) -> "Sequences":
        """The latest `window` interactions of every student with `minimum` or more.

        Skipped offers are left out and counted. A concept that the vocabulary does not know is an error;
        `unknown="skip"` drops its interactions and counts them. Without a vocabulary, the log's own is fitted.
        """
        if window < 1 or minimum < 1:
            raise InputError(f"window and minimum are at least 1, not {window} and {minimum}")
        vocabulary = vocabulary or Vocabulary.fit(log)
        answers = coded_answers(log, vocabulary, unknown)
        coded = answers.filter(pl.col("concept") >= 0).with_columns(
            left=pl.int_range(pl.len(), 0, -1).over("student"), answers=pl.len().over("student")
        )
        long_enough = coded.filter(pl.col("answers") >= minimum)
        kept = long_enough.filter(pl.col("left") <= window)
        dropped = Dropped(
            skipped_offers=log.skipped_offers,
            unknown_concepts=answers.height - coded.height,
            short_students=len(log.students) - long_enough["student"].n_unique(),
            earlier_interactions=long_enough.height - kept.height,
        )
        return cls._padded(kept, window, minimum, vocabulary, dropped)

    @classmethod
    def _padded(
        cls, kept: pl.DataFrame, window: int, minimum: int, vocabulary: Vocabulary, dropped: Dropped
    ) -> "Sequences":
        """Lay the interactions out, a student's in a row."""
        kept = kept.with_columns(
            row=pl.col("student").rle_id().cast(pl.Int64), step=pl.int_range(pl.len()).over("student")
        )
        first = kept.filter(pl.col("step") == 0)
        row, step = _tensor(kept["row"]), _tensor(kept["step"])
        steps = int(step.max()) + 1 if len(step) else 0

        def pad(column: str) -> Tensor:
            padded = torch.zeros(first.height, steps, dtype=torch.long)
            padded[row, step] = _tensor(kept[column])
            return padded

        mask = torch.zeros(first.height, steps, dtype=torch.bool)
        mask[row, step] = True
        return cls(
            batch=Batch.of_answers(pad("concept"), pad("question"), pad("correct"), mask),
            student=tuple(first["student"]),
            position=pad("position"),
            vocabulary=vocabulary,
            dropped=dropped,
            unknown_questions=int((kept["question"] == UNKNOWN_QUESTION).sum()),
            window=window,
            minimum=minimum,
        )

    def __len__(self) -> int:
        return len(self.student)

    def select(self, students: Sequence[str]) -> "Sequences":
        """The sequences of these students only; students without a sequence are passed over."""
        wanted = set(students)
        rows = torch.tensor([i for i, student in enumerate(self.student) if student in wanted], dtype=torch.long)
        batch = self.batch_of(rows)
        return replace(
            self,
            batch=batch,
            student=tuple(self.student[i] for i in rows.tolist()),
            position=self.position[rows],
            unknown_questions=int(((batch.question == UNKNOWN_QUESTION) & batch.mask).sum()),
        )

    def student_numbers(self) -> Tensor:
        """The student of each row as a number: the place among the sorted names of all that have a sequence here."""
        place = {name: number for number, name in enumerate(sorted(set(self.student)))}
        return torch.tensor([place[name] for name in self.student], dtype=torch.long)

    def digest(self) -> str:
        """Tells these interactions of these students from any others."""
        content = hashlib.sha256(json.dumps([self.student, self.vocabulary.concepts]).encode())
        for tensor in (self.batch.concept, self.batch.question, self.batch.correct, self.batch.mask):
            content.update(tensor.numpy().tobytes())
        return content.hexdigest()[:16]

    def batch_of(self, rows: Tensor) -> Batch:
        """The batch of these rows."""
        return self.batch.map(lambda tensor: tensor[rows])

    def batches(self, size: int = 64, generator: torch.Generator | None = None) -> Iterator[Batch]:
        """The sequences in batches of `size`, in a random order if a `generator` is given."""
        order = torch.arange(len(self)) if generator is None else torch.randperm(len(self), generator=generator)
        for start in range(0, len(self), size):
            yield self.batch_of(order[start : start + size])


@dataclass(frozen=True)
class Split:
    """The students of one fold: three groups without a student in common."""

    train: tuple[str, ...]
    validation: tuple[str, ...]
    test: tuple[str, ...]

    @classmethod
    def hold_out(cls, students: Sequence[str], validation: float = VALIDATION, *, seed: int = SEED) -> "Split":
        """All students for training but a `validation` share, drawn by the seed from the set of ids."""
        names = np.random.default_rng(seed).permutation(np.array(sorted(set(students))))
        held_out = max(1, round(validation * len(names)))
        if held_out >= len(names):
            raise InputError(
                f"{len(names)} students are too few to hold some out for validation and train on the others"
            )
        return cls(tuple(np.sort(names[held_out:]).tolist()), tuple(np.sort(names[:held_out]).tolist()), ())


@dataclass(frozen=True)
class Folds:
    """An assignment of students to folds for cross-validation: every student is tested once."""

    splits: tuple[Split, ...]
    seed: int

    def __len__(self) -> int:
        return len(self.splits)

    def __getitem__(self, fold: int) -> Split:
        return self.splits[fold]

    @classmethod
    def by_student(
        cls, students: Sequence[str], folds: int = FOLDS, *, validation: float = VALIDATION, seed: int = SEED
    ) -> "Folds":
        """Deal the students into `folds` test groups; `validation` is a share of each fold's training students.

        The assignment depends on the seed and the set of ids, not on their order.
        """
        names = np.array(sorted(set(students)))
        if folds < 2 or len(names) < folds:
            raise InputError(
                f"cannot deal {len(names)} students into {folds} folds; a fold needs a student, and two folds at least"
            )
        if not 0 <= validation < 1:
            raise InputError(f"the validation share is from 0 to below 1, not {validation}")
        rng = np.random.default_rng(seed)
        groups = [np.sort(group) for group in np.array_split(rng.permutation(names), folds)]
        splits = []
        for fold, test in enumerate(groups):
            training = rng.permutation(np.concatenate(groups[:fold] + groups[fold + 1 :]))
            held_out = round(validation * len(training))
            splits.append(
                Split(*(tuple(np.sort(part).tolist()) for part in (training[held_out:], training[:held_out], test)))
            )
        return cls(tuple(splits), seed)


def coded_answers(log: Log, vocabulary: Vocabulary, unknown: Unknown = "error") -> pl.DataFrame:
    """The answers of a log as integers, with the `position` of each among the student's answers.

    A concept that the vocabulary does not know is an error or, with `unknown="skip"`, -1.
    """
    if unknown not in ("error", "skip"):
        raise InputError(f'unknown is "error" or "skip", not {unknown!r}')
    answers = log.answered.with_columns(position=pl.int_range(pl.len()).over("student"))
    coded = vocabulary.encode(answers)
    strange = coded["concept"] < 0
    if unknown == "error" and strange.any():
        raise _unknown_concept(answers.filter(strange)["concept"])
    return coded


def _unknown_concept(names: pl.Series) -> InputError:
    return InputError(
        f"concept {names[0]!r} is not in the vocabulary ({len(names):,} interactions with "
        f"{names.n_unique():,} unknown concepts); fit a vocabulary on a log that has them, "
        'or pass unknown="skip" to leave these interactions out'
    )


def _tensor(column: pl.Series) -> Tensor:
    return torch.from_numpy(column.cast(pl.Int64).to_numpy(writable=True))
