"""Imputation: what the answer to a concept that was not logged would probably have been.

By a second backbone of the same kind with its own weights, which learns along and knows concepts only; by a model that
was fitted before, such as `counts`, which may know questions; or by both, stacked.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, softplus

from tsdr.backbones.contract import AnyBackbone
from tsdr.debias.stack import Stack
from tsdr.methods import ImputationLoss
from tsdr.sequences import UNKNOWN_QUESTION, Batch, Events

Histories = list[Any]
Told = TypeVar("Told", Batch, Events)


class Imputation:
    """The models that impute: those that are `fitted`, which nothing moves, and the one that is `learned` along.

    What they say together is the `stack` of their logits: their mean, until it is fitted.
    """

    def __init__(self, fitted: Sequence[AnyBackbone], learned: AnyBackbone | None = None) -> None:
        self.fitted, self.learned = list(fitted), learned
        self.stack = Stack.mean_of(len(self.models), self.models[0].n_concepts)

    @property
    def models(self) -> list[AnyBackbone]:
        """All of them, in the order of the stack's slopes."""
        return self.fitted + ([] if self.learned is None else [self.learned])

    def lesson(self, batch: Batch) -> Batch:
        """A batch as the learned model is taught it, and reads it."""
        return without_questions(batch)

    @torch.no_grad()
    def encode(self, batch: Batch) -> Histories:
        """What each of the models keeps of the past, none of them in training."""
        return [model.encode(read) for model, read in self._each(batch)]

    @torch.no_grad()
    def go_on(self, past: Histories, batch: Batch) -> Histories:
        """The same of a batch that comes after a past."""
        return [model.go_on(before, read) for before, (model, read) in zip(past, self._each(batch), strict=True)]

    def _each(self, batch: Batch) -> Iterator[tuple[AnyBackbone, Batch]]:
        """The models, and what each of them reads of a batch."""
        for model in self.models:
            yield model.eval(), self.lesson(batch) if model is self.learned else batch

    @torch.no_grad()
    def logits(
        self, histories: Histories, concept: Tensor, question: Tensor | None = None, steps: Tensor | None = None
    ) -> Tensor:
        """The logits [..., models] of each of the models; the learned one is asked for concepts."""
        said = [
            model.answer(history, concept, None if model is self.learned else question, steps)
            for model, history in zip(self.models, histories, strict=True)
        ]
        return torch.stack(said, -1)

    def of_observed(self, histories: Histories, batch: Batch) -> Tensor:
        """The logits [B, T, models] of each of the models for what was logged, given the histories of a batch."""
        return self.logits(histories, batch.concept[..., None], batch.question[..., None]).squeeze(2)

    def answer(
        self, histories: Histories, concept: Tensor, question: Tensor | None = None, steps: Tensor | None = None
    ) -> Tensor:
        """The logits of the pseudo-answers to targets, by all of them together."""
        return self.stack(self.logits(histories, concept, question, steps), concept)


def without_questions(told: Told) -> Told:
    """A batch, or answers, with no question known."""
    return replace(told, question=torch.full_like(told.question, UNKNOWN_QUESTION))


def imputed_error(logits: Tensor, imputation: Tensor, kind: ImputationLoss) -> Tensor:
    """ê: the error that predictions (logits) would have if the imputation model were right.

    It imputes a pseudo-answer r̃ = sigmoid(imputation), and ê = BCE(r̂, r̃). In the paper's literal form ("free") it
    imputes the error itself, softplus(imputation), which does not depend on the prediction.
    """
    if kind == "free":
        return softplus(imputation).expand_as(logits)
    return binary_cross_entropy_with_logits(logits, imputation.sigmoid(), reduction="none")


def imputation_losses(imputation: Tensor, logits: Tensor, correct: Tensor, kind: ImputationLoss) -> Tensor:
    """What each observed cell teaches the imputation model; predictions (logits) are held fixed.

    "bce" is the cross-entropy of the pseudo-answer itself. "squared-error-of-errors" is the paper's (ê - e)²: it has
    the same minimiser, E[r | history, concept], but no gradient where r̂ = 0.5. "free" is (ê - e)² for a free ê.
    """
    answer = correct.to(imputation.dtype)
    if kind == "bce":
        return binary_cross_entropy_with_logits(imputation, answer, reduction="none")
    fixed = logits.detach()
    error = binary_cross_entropy_with_logits(fixed, answer, reduction="none")
    return (imputed_error(fixed, imputation, kind) - error).square()
