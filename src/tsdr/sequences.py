"""From a log to what a model reads: padded tensors, one row a student, and folds by student."""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Literal, Self

import numpy as np
import polars as pl
import torch
from pydantic import BaseModel, Field
from torch import Tensor

from tsdr.errors import InputError, in_a_sentence
from tsdr.files import replacing
from tsdr.log import Log, Vocabulary

UNKNOWN_QUESTION = -1
Unknown = Literal["error", "skip"]


@dataclass(frozen=True)
class Batch:
    """Interactions of several students, right-padded: [batch, steps] each.

    `concept`, `question` and `correct` are long, `mask` is true at real interactions. A `question` of -1 is
    one that the vocabulary does not know: it counts as a question of average difficulty.
    """

    concept: Tensor
    question: Tensor
    correct: Tensor
    mask: Tensor

    def __len__(self) -> int:
        return self.mask.shape[0]

    def map(self, function: Callable[[Tensor], Tensor]) -> Self:
        """The batch with a function applied to each of its tensors."""
        return replace(self, **{field.name: function(getattr(self, field.name)) for field in fields(self)})

    def scored(self) -> Tensor:
        """Which steps losses and metrics count: the real ones but the first of each sequence."""
        scored = self.mask.clone()
        scored[:, :1] = False
        return scored

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
        window: int = 50,
        minimum: int = 5,
        history: Literal["latest", "windows"] = "latest",
        unknown: Unknown = "error",
    ) -> "Sequences":
        """Cut a log into sequences of at most `window` interactions, for students with `minimum` or more.

        `history="latest"` keeps the latest `window` interactions of a student. `"windows"` keeps all of them,
        in windows counted back from the latest, so that the first one may be shorter. Skipped offers are left
        out and counted. A concept that the vocabulary does not know is an error; `unknown="skip"` drops its
        interactions and counts them. Without a vocabulary, the log's own is fitted.
        """
        if window < 1 or minimum < 1:
            raise InputError(f"window and minimum are at least 1, not {window} and {minimum}")
        if history not in ("latest", "windows"):
            raise InputError(f'history is "latest" or "windows", not {history!r}')
        vocabulary = vocabulary or Vocabulary.fit(log)
        answers = coded_answers(log, vocabulary, unknown)
        coded = answers.filter(pl.col("concept") >= 0).with_columns(
            left=pl.int_range(pl.len(), 0, -1).over("student"), answers=pl.len().over("student")
        )
        long_enough = coded.filter(pl.col("answers") >= minimum)
        kept = long_enough.filter(pl.col("left") <= window) if history == "latest" else long_enough
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
        """Lay the interactions out: the last window of a student is full, its first one may be shorter."""
        kept = kept.with_columns(
            row=pl.struct("student", (pl.col("left") - 1) // window).rle_id().cast(pl.Int64),
        ).with_columns(step=pl.int_range(pl.len()).over("row"))
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
            batch=Batch(pad("concept"), pad("question"), pad("correct"), mask),
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
    def hold_out(cls, students: Sequence[str], validation: float = 0.1, *, seed: int = 42) -> "Split":
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
    def by_student(cls, students: Sequence[str], folds: int = 5, *, validation: float = 0.1, seed: int = 42) -> "Folds":
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

    def write(self, path: str | Path) -> None:
        """Write the assignment as JSON; `read` gives back an equal one."""
        record = {"seed": self.seed, "folds": [vars(split) for split in self.splits]}
        with replacing(Path(path)) as temporary:
            temporary.write_text(json.dumps(record, indent=1))

    @classmethod
    def read(cls, path: str | Path) -> "Folds":
        """Read an assignment that `write` wrote."""
        try:
            record = _Assignment.model_validate_json(Path(path).read_text())
        except (OSError, ValueError) as error:
            raise InputError(f"{path}: is not a fold assignment that tsdr wrote ({in_a_sentence(error)})") from error
        folds = cls(tuple(Split(fold.train, fold.validation, fold.test) for fold in record.folds), record.seed)
        folds._check(str(path))
        return folds

    def _check(self, source: str) -> None:
        for fold, split in enumerate(self.splits):
            students = [*split.train, *split.validation, *split.test]
            if len(set(students)) < len(students):
                raise InputError(f"{source}: fold {fold} has a student in two groups, so its test would not be one")
        tested = [student for split in self.splits for student in split.test]
        if len(set(tested)) < len(tested):
            raise InputError(f"{source}: a student is tested in two folds; every student is tested once")


class _SplitOnFile(BaseModel):
    train: tuple[str, ...]
    validation: tuple[str, ...]
    test: tuple[str, ...]


class _Assignment(BaseModel):
    seed: int
    folds: Annotated[tuple[_SplitOnFile, ...], Field(min_length=2)]


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
