"""Which of a concept's questions are logged: a log may be even over concepts and yet show one side of each."""

from typing import TYPE_CHECKING

import numpy as np
from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from tsdr.sequences import Events  # needs torch, and what was found is read without

CHANCE_DRAWS = 100


class QuestionExposure(BaseModel):
    """How far the answers of a concept are from uniform over those of its questions that are logged at all.

    `distance` is the share of all answers that would have to go to another question of the same concept for each to
    be logged equally often, and `by_chance` what it would be if the questions of a concept were drawn uniformly.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    questions: int
    distance: float
    by_chance: float


def question_exposure(answers: "Events", seed: int) -> QuestionExposure | None:
    """How unevenly questions are logged within their concepts; None if no concept has two."""
    known = answers.question >= 0
    pairs = np.stack([answers.concept[known].numpy(), answers.question[known].numpy()])
    (concept, _), counts = np.unique(pairs, axis=1, return_counts=True)
    of_concept = np.split(counts, np.flatnonzero(np.diff(concept)) + 1)
    if max(map(len, of_concept), default=0) < 2:
        return None
    generator = np.random.default_rng(seed)
    by_chance = sum(
        misplaced(generator.multinomial(logged.sum(), np.full(len(logged), 1 / len(logged)), CHANCE_DRAWS)).mean()
        for logged in of_concept
    )
    total = sum(float(misplaced(logged)) for logged in of_concept)
    return QuestionExposure(
        questions=len(counts), distance=total / counts.sum(), by_chance=float(by_chance / counts.sum())
    )


def misplaced(counts: np.ndarray) -> np.ndarray:
    """Of counts [..., questions], how many would have to move for all to be equal."""
    return np.abs(counts - counts.mean(-1, keepdims=True)).sum(-1) / 2
