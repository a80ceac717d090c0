"""The one place where propensities become weights: clipping, self-normalisation, diagnostics."""

from dataclasses import dataclass

import torch
from torch import Tensor

from tsdr.parallel import ALONE, Team


@dataclass(frozen=True)
class Weights:
    """The weights [B, T] of observed steps, 0 where a step is not scored, and what they were before clipping."""

    value: Tensor
    raw: Tensor
    scored: Tensor
    clip: tuple[float, float]

    @property
    def clipped_share(self) -> float:
        """The share of scored steps whose weight was clipped."""
        raw = self.raw[self.scored]
        return float(((raw < self.clip[0]) | (raw > self.clip[1])).float().mean()) if len(raw) else 0.0

    @property
    def effective_share(self) -> float:
        """The effective sample size (Σw)² / Σw² over the number of scored steps."""
        at = self.value[self.scored]
        return float(at.sum() ** 2 / (at**2).sum() / len(at)) if len(at) else 1.0


def clipped_ratio(propensity: Tensor, clip: tuple[float, float]) -> Tensor:
    """w = 1 / (|C| p̂), clipped, of the propensities [..., C] of all concepts."""
    return (1 / (propensity.shape[-1] * propensity)).clamp(*clip)


def density_ratio(
    exposure: Tensor, scored: Tensor, clip: tuple[float, float], self_normalise: bool, team: Team = ALONE
) -> Weights:
    """w = 1 / (|C| p̂) from the exposure |C| p̂, clipped to `clip` and, if asked, divided by its mean over scored steps.

    w is the density ratio of "every concept equally" to "the concept that was logged": about 1 on average, so it is
    w, not 1 / p̂, that is clipped. The mean is over what all workers of a team have.
    """
    raw = 1 / exposure
    weight = torch.where(scored, raw.clamp(*clip), 0.0)
    if self_normalise:
        number, total = team.sum(torch.stack([scored.sum().to(weight.dtype), weight.sum()]))
        weight = weight * number / total.clamp(min=1e-12)
    return Weights(weight, raw, scored, clip)
