"""Imputation that is wrong on purpose, to see what becomes of a method then."""

from dataclasses import replace

import torch
from torch import Tensor

from tsdr.debias.imputation import Histories, Imputation, Told
from tsdr.sequences import SKIPPED, Batch

SHIFT = 1.0  # of every logit


def shuffled(told: Told, answers: Tensor) -> Told:
    """The labels of these answers dealt out anew: they tell nothing of who answered what."""
    labels = told.correct[answers]
    dealt = labels[torch.randperm(len(labels), device=labels.device)]
    return replace(told, correct=told.correct.masked_scatter(answers, dealt))


class CrippledImputation(Imputation):
    """Models that learned, or learn, from shuffled answers, and whose logits are too large by one."""

    def lesson(self, batch: Batch) -> Batch:
        """As it is taught: with shuffled answers."""
        return shuffled(super().lesson(batch), batch.mask & (batch.response != SKIPPED))

    def logits(
        self, histories: Histories, concept: Tensor, question: Tensor | None = None, steps: Tensor | None = None
    ) -> Tensor:
        """Too large."""
        return super().logits(histories, concept, question, steps) + SHIFT
