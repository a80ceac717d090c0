"""What stands behind a mastery: the student's own answers in the concept, and those that the model learned from."""

from dataclasses import dataclass
from typing import Any

# With fewer answers to learn from, a concept's mastery is hardly more than what the model says of any concept.
FEW = 20
LITTLE = f"little evidence: none of the student's own answers, or fewer than {FEW} that the model learned from"


def is_little(answers: Any, training_answers: Any) -> Any:
    """Whether evidence is little: of numbers, arrays or columns; `training_answers` of None are not known.

    >>> is_little(3, 500), is_little(3, 1), is_little(0, 500), is_little(3, None)
    (False, True, True, False)
    """
    none = answers == 0
    return none if training_answers is None else none | (training_answers < FEW)


@dataclass(frozen=True)
class Evidence:
    """How many answers and skips of the student in a concept a model has in view, and how many it learned from.

    The latter is None for a model from before that was kept; `little` says that it is too little to go by.
    """

    answers: int
    skips: int
    training_answers: int | None
    little: bool

    @classmethod
    def of(cls, answers: int, skips: int, training_answers: int | None) -> "Evidence":
        """These numbers, and what they come to."""
        return cls(answers, skips, training_answers, bool(is_little(answers, training_answers)))
