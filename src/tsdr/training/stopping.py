"""Early stopping: the best weights by a score, and when there have been no better ones for long enough."""

import copy
from typing import Any

import torch
from torch import Tensor


class EarlyStopping:
    """Keeps the best weights, and says when `patience` epochs have passed without better ones."""

    def __init__(self, patience: int) -> None:
        self.patience = patience
        self.best_value = float("-inf")
        self.best_epoch = 0
        self.best_weights: dict[str, Tensor] = {}
        self.epoch = 0

    def start(self, value: float, model: torch.nn.Module) -> None:
        """Take note of the weights before the first epoch."""
        self.best_value, self.best_weights = value, copy.deepcopy(model.state_dict())

    def update(self, value: float, model: torch.nn.Module) -> None:
        """Take note of one more epoch."""
        self.epoch += 1
        if value > self.best_value:
            self.best_value, self.best_epoch = value, self.epoch
            self.best_weights = copy.deepcopy(model.state_dict())

    @property
    def over(self) -> bool:
        """Whether to stop."""
        return self.epoch - self.best_epoch >= self.patience

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return vars(self)

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        vars(self).update(state)
