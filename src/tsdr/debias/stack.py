"""Targeting: imputation models put together so that they are right about logged answers that they did not learn from.

On the logit scale, z = Σ_k a_k z_k + b + b_c with z_k the logits of the models and b_c shrunk, fitted by weighted
logistic regression on the logged answers of students who did not teach the models. Its score equations are

    Σ w (r - σ(z)) z_k = 0,    Σ w (r - σ(z)) = 0    and, up to shrinkage, the same concept by concept.

If the weights w = 1 / (|C| p̂) are right, a weighted sum over logged answers has the expectation of the sum over all
cells: the mean of σ(z) over ALL cells is then right along these directions, however wrong the z_k are. If one z_k is
right, the fit finds a_k = 1 and the others 0, whatever the weights are.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tsdr.backbones.logistic import EXACTLY, Term, fit_logistic
from tsdr.sequences import Sequences

FEWEST = 20  # students to target by: fewer tell more of themselves than of what imputes
HARDLY = 1e-4  # so that what nothing tells, as of answers that are all right, stays finite


@dataclass(frozen=True)
class Stack:
    """z = Σ_k a_k z_k + b + b_c: `slope` [K] is a, and `bias` [C] has b + b_c."""

    slope: Tensor
    bias: Tensor

    @classmethod
    def mean_of(cls, models: int, n_concepts: int) -> "Stack":
        """What is said before there is anything to go by: the mean of the models."""
        return cls(torch.full((models,), 1 / models), torch.zeros(n_concepts))

    def __call__(self, logits: Tensor, concept: Tensor) -> Tensor:
        """z [...] from the logits [..., K] of the models for targets of these concepts [...]."""
        slope, bias = self.slope.to(logits.device), self.bias.to(logits.device)
        return logits @ slope + bias[concept]


@dataclass(frozen=True)
class Unseen:
    """Students whom imputation models did not learn from, as sequences.

    `logits` [scored answers, models] is what models that did not learn from them say of their answers, where that is
    known beforehand: of students that others did learn from.
    """

    sequences: Sequences
    logits: Tensor | None = None


@dataclass(frozen=True)
class Targeting:
    """Logged answers of students who did not teach the models, a row each: what the models say there, and weights.

    `logits` [N, K] are those of the models; `student` numbers the students.
    """

    logits: Tensor
    concept: Tensor
    correct: Tensor
    weight: Tensor
    student: Tensor
    n_concepts: int

    def fit(self) -> Stack:
        """The stack that is right about them."""
        return fit_stack(self.logits, self.concept, self.correct, self.weight, self.n_concepts)

    def drawn_anew(self, times: int, seed: int) -> list[Stack]:
        """What it would be by other students: fitted with as many, drawn anew from these."""
        generator = torch.Generator().manual_seed(seed)
        students = int(self.student.max()) + 1
        found = []
        for _ in range(times):
            drawn = torch.randint(students, (students,), generator=generator).bincount(minlength=students)
            weight = self.weight * drawn.to(self.weight)[self.student]
            found.append(fit_stack(self.logits, self.concept, self.correct, weight, self.n_concepts))
        return found


def fit_stack(logits: Tensor, concept: Tensor, correct: Tensor, weight: Tensor, n_concepts: int) -> Stack:
    """Fit to logged answers, a row each: logits [N, K] of the models, concept, answer and weight [N].

    Weights are scaled to sum to the effective number of answers: uneven ones tell less, and concepts are shrunk more.
    """
    if not len(correct):
        return Stack.mean_of(logits.shape[1], n_concepts)
    of_models, weights = logits.double().cpu().numpy(), weight.double().cpu().numpy()
    weights = weights * weights.sum() / (weights**2).sum()
    terms = [
        Term("slope", HARDLY, of_models),
        Term("bias", HARDLY, np.ones((len(of_models), 1))),
        Term("concept", 1.0, None, concept.cpu().numpy(), n_concepts, adaptive=True),
    ]
    effects, _ = fit_logistic(terms, correct.cpu().numpy(), weights, tolerance=EXACTLY)
    found = effects["slope"], effects["bias"] + effects["concept"]
    return Stack(*(torch.from_numpy(values).to(logits.dtype) for values in found))
