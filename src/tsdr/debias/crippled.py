"""Imputation that is wrong on purpose, to see what becomes of a method then."""

from dataclasses import replace

import torch
from torch import Tensor

from tsdr.debias.imputation import Histories, Imputation
from tsdr.sequences import Batch

SHIFT = 1.0  # of every logit


def shuffled(labels: Tensor) -> Tensor:
    """Labels dealt out anew: they tell nothing of who answered what."""
    return labels[torch.randperm(len(labels), device=labels.device)]


class CrippledImputation(Imputation):
    """Models that learned, or learn, from shuffled answers, and whose logits are too large by one."""

    def lesson(self, batch: Batch) -> Batch:
        """As it is taught: with shuffled answers."""
        lesson = super().lesson(batch)
        dealt = lesson.correct.masked_scatter(lesson.mask, shuffled(lesson.correct[lesson.mask]))
        return replace(lesson, correct=dealt)

    def logits(
        self, histories: Histories, concept: Tensor, question: Tensor | None = None, steps: Tensor | None = None
    ) -> Tensor:
        """Too large."""
        return super().logits(histories, concept, question, steps) + SHIFT
