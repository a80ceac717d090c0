"""Naive training of a backbone that fits itself."""

import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from tsdr.backbones.contract import AnyBackbone, Reader
from tsdr.debias.answers import AnswerLearner
from tsdr.sequences import Batch
from tsdr.training.options import TrainingOptions


class FittedObjective(AnswerLearner):
    """The mean cross-entropy of logged answers, whose optimum the backbone has found when it was prepared."""

    one_epoch = True

    def __init__(self, model: AnyBackbone, training: TrainingOptions) -> None:
        super().__init__(model, {}, training.stop_by)
        self.reader = Reader(model)

    def settings(self) -> str:
        """There are none."""
        return "fitted"

    @torch.no_grad()
    def step(self, batch: Batch) -> float:
        """Only look, every worker at all of it."""
        logits = self.reader.logits(batch)[batch.scored]
        loss = float(binary_cross_entropy_with_logits(logits, batch.correct[batch.scored].to(logits.dtype)))
        return loss / self.team.size
