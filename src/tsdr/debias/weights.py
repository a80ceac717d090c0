"""The one place where propensities become weights: clipping, self-normalisation, diagnostics."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Weights:
    """The weights [B, T] of observed steps, 0 where a step is not scored, and how many were clipped."""

    value: Tensor
    clipped_share: float
    effective_share: float


def clipped_ratio(propensity: Tensor, clip: tuple[float, float]) -> Tensor:
    """w = 1 / (|C| p̂), clipped, of the propensities [..., C] of all concepts."""
    return (1 / (propensity.shape[-1] * propensity)).clamp(*clip)


def density_ratio(
    propensity: Tensor, n_concepts: int, scored: Tensor, clip: tuple[float, float], self_normalise: bool
) -> Weights:
    """w = 1 / (|C| p̂), clipped to `clip` and, if asked, divided by its mean over the scored steps.

    w is the density ratio of "every concept equally" to "the concept that was logged": about 1 on average, so it is
    w, not 1 / p̂, that is clipped. `effective_share` is the effective sample size (Σw)² / Σw² over the steps.
    """
    low, high = clip
    raw = 1 / (n_concepts * propensity)
    weight = raw.clamp(low, high)
    at = weight[scored]
    clipped = float(((raw < low) | (raw > high))[scored].float().mean()) if len(at) else 0.0
    if self_normalise and len(at):
        weight = weight / at.mean()
        at = weight[scored]
    effective = float(at.sum() ** 2 / (at**2).sum() / len(at)) if len(at) else 1.0
    return Weights(torch.where(scored, weight, 0.0), clipped, effective)
