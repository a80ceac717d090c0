"""Who is trained on, validated on, tested on: students dealt into folds."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tsdr.defaults import FOLDS, SEED, VALIDATION
from tsdr.errors import InputError


@dataclass(frozen=True)
class Split:
    """The students of one fold: three groups without a student in common."""

    train: tuple[str, ...]
    validation: tuple[str, ...]
    test: tuple[str, ...]

    @classmethod
    def hold_out(
        cls, students: Sequence[str], validation: float = VALIDATION, *, seed: int = SEED, most: int | None = None
    ) -> "Split":
        """All students for training but a `validation` share, `most` at most, drawn by the seed from the set of ids."""
        names = np.random.default_rng(seed).permutation(np.array(sorted(set(students))))
        held_out = min(max(1, round(validation * len(names))), most or len(names))
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
