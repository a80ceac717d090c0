"""Imputation that is wrong on purpose, to see what becomes of a method then."""

from dataclasses import replace

import torch
from torch import Tensor

from tsdr.debias.imputation import Histories, Imputation
from tsdr.sequences import Batch

SHIFT = 1.0  # of every logit


def shuffled(batch: Batch) -> Batch:
    """The batch with the labels of its interactions dealt out anew: they tell nothing of who answered what."""
    correct = batch.correct.clone()
    dealt = correct[batch.mask]
    correct[batch.mask] = dealt[torch.randperm(len(dealt), device=dealt.device)]
    return replace(batch, correct=correct)


class CrippledImputation(Imputation):
    """Models that learned, or learn, from shuffled answers, and whose logits are too large by one."""

    def lesson(self, batch: Batch) -> Batch:
        """As it is taught: with shuffled answers."""
        return shuffled(super().lesson(batch))

    def logits(
        self, histories: Histories, concept: Tensor, question: Tensor | None = None, steps: Tensor | None = None
    ) -> Tensor:
        """Too large."""
        return super().logits(histories, concept, question, steps) + SHIFT
