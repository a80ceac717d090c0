"""What a model of counts has found out, in numbers that a teacher can read."""

from dataclasses import dataclass

import torch

from tsdr.backbones.counts import Counts
from tsdr.models.model import Model

AFTER = {"one right": (1, 0), "three right": (3, 0), "one wrong": (0, 1), "three wrong": (0, 3)}


@dataclass(frozen=True)
class QuestionEase:
    """A question: the chance that it is answered right by a student with even odds in its concept."""

    question: str
    concept: str
    success: float


@dataclass(frozen=True)
class AnswerWorth:
    """A concept: the chance of success, by the first answers in it, of a student whose odds were even before them."""

    concept: str
    after: dict[str, float]


@dataclass(frozen=True)
class Effects:
    """Questions from the hardest to the easiest, and concepts from where a right answer is worth most."""

    questions: list[QuestionEase]
    concepts: list[AnswerWorth]


def effects_of(model: Model) -> Effects | None:
    """What a model has found out of questions and answers; None if it is not one that can be read."""
    backbone = model.backbone
    if not isinstance(backbone, Counts):
        return None
    names = model.vocabulary
    success = backbone.ease().sigmoid().tolist()
    questions = [
        QuestionEase(names.questions[i], names.concepts[int(backbone.concept_of[i])], success[i])
        for i in torch.nonzero(backbone.seen[:-1]).flatten().tolist()
    ]
    after = {name: backbone.worth(*answers).sigmoid().tolist() for name, answers in AFTER.items()}
    concepts = [
        AnswerWorth(concept, {name: values[i] for name, values in after.items()})
        for i, concept in enumerate(names.concepts)
    ]
    first = next(iter(AFTER))
    return Effects(
        sorted(questions, key=lambda found: found.success), sorted(concepts, key=lambda found: -found.after[first])
    )
