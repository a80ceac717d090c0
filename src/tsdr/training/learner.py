"""What learns: models with their optimisers, one step on a batch, and a score to stop by."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from tsdr.errors import InputError
from tsdr.lessons import Lessons
from tsdr.parallel import ALONE
from tsdr.sequences import Batch, Sequences


class Learner(ABC):
    """A model that is trained, and what it is trained by.

    A subclass says what is learned from a batch (`step`) and how good the model is by now (`validate`). The models
    that it has beside the trained one are named by `models`. Every change of a parameter goes through `update`, where
    the gradients of all workers of its `team` are added up: a loss is their share of that of the whole batch.
    """

    one_epoch: ClassVar[bool] = False  # whether there is nothing more to learn after the first

    def __init__(self, model: nn.Module, optimisers: Mapping[str, Optimizer]) -> None:
        self.model = model
        self.optimisers = dict(optimisers)
        self.team = ALONE

    @property
    @abstractmethod
    def score_name(self) -> str:
        """What `validate` gives, larger being better."""

    @abstractmethod
    def settings(self) -> str:
        """What tells this learner from others, for checkpoints."""

    @abstractmethod
    def step(self, batch: Batch) -> float:
        """Learn from a worker's share of one batch, and return what that adds to the loss of the batch."""

    @abstractmethod
    def validate(self, validation: Sequences) -> float:
        """The score of the model, as it is by now, on held-out students."""

    def models(self) -> dict[str, nn.Module]:
        """Every model whose weights are to be kept to go on later."""
        return {"model": self.model}

    def check(self, train: Lessons, validation: Sequences) -> None:
        """Refuse students that nothing can be learned from, or that the score cannot be taken on."""
        if not train.scored_answers:
            raise InputError(f"the {len(train)} training sequences have no answer to learn from; use more students")

    def warm_up(self) -> Iterator["Learner"]:
        """Learners that are trained for an epoch each, one after the other, before the first epoch of this one."""
        yield from ()

    def begin_epoch(self) -> None:  # noqa: B027  (most have nothing to do)
        """Whatever is done before each pass over the training students."""

    def settle(self, validation: Sequences) -> None:  # noqa: B027  (nor here)
        """Whatever is done with the best weights once they are found."""

    def update(self, name: str, loss: Tensor) -> None:
        """One step of an optimiser down the gradient of a loss; one of a share with nothing in it may have none."""
        optimiser = self.optimisers[name]
        optimiser.zero_grad(set_to_none=True)
        if loss.requires_grad:
            loss.backward()
        self.team.add_up(optimiser)
        optimiser.step()

    def to(self, device: torch.device) -> Self:
        """The same, which computes on another device from now on."""
        for model in self.models().values():
            model.to(device)
        return self

    def state(self) -> dict[str, Any]:
        """All that must be kept to go on later."""
        return {
            "models": {name: model.state_dict() for name, model in self.models().items()},
            "optimisers": {name: optimiser.state_dict() for name, optimiser in self.optimisers.items()},
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from what `state` gave."""
        for name, model in self.models().items():
            model.load_state_dict(state["models"][name])
        for name, optimiser in self.optimisers.items():
            optimiser.load_state_dict(state["optimisers"][name])
