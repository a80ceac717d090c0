"""What is known to be true of a log that was selected by a known policy, at the steps of its sequences."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tsdr.errors import InputError
from tsdr.sequences import Sequences
from tsdr.simulator import Simulation, Truth


class KnownSuccess(Protocol):
    """A truth to be tested against: the chance of success [students, answers, concepts] just before each answer."""

    @property
    def student(self) -> Sequence[str] | NDArray[np.str_]:
        """The students along the first axis."""

    @property
    def concept(self) -> Sequence[str] | NDArray[np.str_]:
        """The concepts along the last axis."""

    @property
    def probability(self) -> NDArray[np.float32]:
        """The chance of a right answer, were a question of the concept asked; not a number where none can be."""


def true_probability(sequences: Sequences, truth: KnownSuccess) -> Tensor:
    """The true chance of success just before each answer, [answers, concepts], in the vocabulary's order.

    Not a number where there is no cell: where no question of the concept is left to be asked.
    """
    return _at_steps(truth.probability, sequences, truth)


def true_propensity(sequences: Sequences, truth: Truth) -> Tensor:
    """The true chance that a concept is the one logged, [answers, concepts]."""
    return _at_steps(truth.propensity, sequences, truth)


def with_known_exposure(sequences: Sequences, simulation: Simulation, *, upside_down: bool = False) -> Sequences:
    """Sequences whose batches say how likely what was logged was to be; or, upside down, the opposite of it."""
    student = _student_of_answers(sequences, simulation.truth)
    exposure = torch.from_numpy(simulation.exposure()[student, sequences.position.numpy()])
    known = 1 / exposure if upside_down else exposure
    return replace(sequences, events=replace(sequences.events, exposure=known))


def _at_steps(values: NDArray[np.float32], sequences: Sequences, truth: KnownSuccess) -> Tensor:
    concept = {str(name): i for i, name in enumerate(truth.concept)}
    try:
        rows = _student_of_answers(sequences, truth)
        columns = np.array([concept[name] for name in sequences.vocabulary.concepts], dtype=np.int64)
    except KeyError as error:
        raise InputError(
            f"{error} is in the log and not in its truth; the two belong to different simulations"
        ) from error
    return torch.from_numpy(values[rows, sequences.position.numpy()][:, columns])


def _student_of_answers(sequences: Sequences, truth: KnownSuccess) -> NDArray[np.int64]:
    """Where in the truth the student of each answer is."""
    place = {str(name): i for i, name in enumerate(truth.student)}
    of_row = np.array([place[name] for name in sequences.student], dtype=np.int64)
    return of_row[sequences.row_of_events().numpy()]
