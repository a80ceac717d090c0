"""What training tells of itself."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Epoch:
    """What an epoch came to; `score` is that of the validation students, by the name that the learner has for it."""

    number: int
    loss: float
    score_name: str
    score: float
    best_score: float
    best_epoch: int
    seconds: float
    watched: dict[str, float]
