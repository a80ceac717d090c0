"""The imputation model: what the answer to a concept that was not logged would probably have been.

It is a second backbone of the same kind with its own weights, which knows concepts only: a concept-level target has no
question, and the mean over all cells and the correction at observed ones must use the same imputed error.
"""

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, softplus

from tsdr.methods import ImputationLoss
from tsdr.sequences import UNKNOWN_QUESTION, Batch


def without_questions(batch: Batch) -> Batch:
    """The batch as the imputation model sees it."""
    return replace(batch, question=torch.full_like(batch.question, UNKNOWN_QUESTION))


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
