"""Whether mastery moves the right way: up with right answers in the concept, and down with wrong ones."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from tsdr.models.evidence import FEW
from tsdr.models.model import Model
from tsdr.sequences import Batch

ANSWERS = 20  # that follow each other in a concept, all right or all wrong
Answered = Literal["right", "wrong"]
KINDS: dict[Answered, str] = {"right": "lower", "wrong": "raise"}  # what must not be done to mastery by answers


@dataclass(frozen=True)
class Astray:
    """The concepts that answers of one kind move the wrong way, and by how much on average over these concepts.

    `share` is that of concepts, and `logged_share` the same weighted by how often they are logged.
    """

    concepts: int
    among: int
    share: float
    logged_share: float
    by: float
    worst: str | None
    worst_by: float


@dataclass(frozen=True)
class Direction:
    """What 1 to 20 answers alike, the first of a student, change in the mastery of their concept: the mean change.

    `logged` is how often each concept was, of the answers that the model learned from; 1 each where that is not known.
    """

    concepts: tuple[str, ...]
    answers: int
    change: dict[Answered, NDArray[np.float64]]
    logged: NDArray[np.int64]

    @property
    def often(self) -> NDArray[np.bool_]:
        """Which concepts the model learned from 20 answers or more of."""
        return self.logged >= FEW

    def astray(self, answered: Answered, among: NDArray[np.bool_] | None = None) -> Astray:
        """Which concepts right answers lower, or wrong ones raise; of all, or among some."""
        taken = np.ones(len(self.logged), dtype=bool) if among is None else among
        gone = -self.change["right"] if answered == "right" else self.change["wrong"]
        wrong_way = taken & (gone > 0)
        worst = int(np.where(wrong_way, gone, 0).argmax())
        some = bool(wrong_way.any())
        return Astray(
            concepts=int(wrong_way.sum()),
            among=int(taken.sum()),
            share=float(wrong_way.sum() / max(1, taken.sum())),
            logged_share=float(self.logged[wrong_way].sum() / max(1, self.logged[taken].sum())),
            by=float(gone[wrong_way].mean()) if some else 0.0,
            worst=self.concepts[worst] if some else None,
            worst_by=float(gone[worst]) if some else 0.0,
        )

    @property
    def any_astray(self) -> bool:
        """Whether any concept is moved the wrong way."""
        return any(self.astray(answered).concepts for answered in KINDS)

    def sentences(self) -> list[str]:
        """What was found, in words."""
        among: dict[str, NDArray[np.bool_] | None] = {"": None}
        if not self.often.all():
            among[f" with {FEW} answers or more to learn from"] = self.often
        told = [
            f"Asked after 1 to {self.answers} answers alike, the first of a student, against before them; on average "
            "over these."
        ]
        for answered, moved in KINDS.items():
            for which, taken in among.items():
                found = self.astray(answered, taken)
                of = f"{found.concepts:,} of {found.among:,} concepts{which}"
                told.append(f"{answered.capitalize()} answers {moved} mastery of {of}{_how_far(found)}.")
        return told


def _how_far(found: Astray) -> str:
    if not found.concepts:
        return ""
    return (
        f" ({found.share:.1%}; {found.logged_share:.1%} weighted by how often they are logged), by {found.by:.3f} on "
        f"average and {found.worst_by:.3f} at most ({found.worst})"
    )


@torch.inference_mode()
def direction_of(model: Model, at_once: int = 256) -> Direction:
    """Ask a model for the mastery of each concept after none to 20 answers in it, all right or all wrong.

    As many as its window leaves in view, if that is less. The questions are ones that it does not know, which are of
    average difficulty.
    """
    answers = ANSWERS if model.window == "all" else min(ANSWERS, model.window - 1)
    change = {}
    for answered in KINDS:
        response = int(answered == "right")
        found = [_mean_change(model, part, response, answers) for part in model.every.split(at_once)]
        change[answered] = torch.cat(found).double().numpy()
    logged = model.training_answers or (1,) * len(model.concepts)
    return Direction(model.concepts, answers, change, np.array(logged))


def _mean_change(model: Model, targets: torch.Tensor, response: int, answers: int) -> torch.Tensor:
    """How mastery after 1 to so many answers to targets [K, 2] differs from that before them, [K]."""
    concept, question = (column[:, None].expand(-1, answers) for column in targets.unbind(1))
    told = torch.full_like(concept, response)
    history = model.backbone.encode(Batch.of_answers(concept, question, told, torch.ones_like(told, dtype=torch.bool)))
    steps = torch.arange(answers + 1).expand(len(targets), -1)
    asked = targets[:, None, None].expand(-1, answers + 1, -1, -1)
    success = model.backbone.answer(history, asked[..., 0], asked[..., 1], steps)[..., 0].sigmoid()
    return success[:, 1:].mean(1) - success[:, 0]
