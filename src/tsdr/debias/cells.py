"""Cells (step, concept) drawn from sequences, and means over all cells that a few of them estimate without bias."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from tsdr.parallel import Share

CellCount = int | Literal["all"]


@dataclass(frozen=True)
class Cells:
    """Targets `concept` [B, M, K] at `steps` [B, M], and the weight [B, M] of a step in the mean over all cells."""

    steps: Tensor
    concept: Tensor
    weight: Tensor

    def of(self, share: Share) -> "Cells":
        """Those of a worker's share: of the mean over all cells, they give the part that is theirs."""
        return Cells(share.of(self.steps), share.of(self.concept), share.of(self.weight))

    def mean(self, values: Tensor) -> Tensor:
        """The mean over all cells, or its unbiased estimate, from the values [B, M, K] at these ones."""
        return (values.mean(-1) * self.weight).sum()


def draw_cells(scored: Tensor, n_concepts: int, count: CellCount) -> Cells:
    """Draw `count` cells uniformly from the scored steps of each sequence, or take all of them.

    A sequence's cells are weighted by its number of scored steps, so that the mean over the drawn ones has the
    expectation of the mean over every concept at every scored step of the batch.
    """
    batch, steps = scored.shape
    scored_steps = scored.sum(1)
    total = scored_steps.sum().clamp(min=1)
    if count == "all":
        every = torch.arange(steps, device=scored.device).expand(batch, -1)
        concept = torch.arange(n_concepts, device=scored.device).expand(batch, steps, -1)
        return Cells(every, concept, scored / total)
    drawn = draw_steps(scored, count)
    concept = torch.randint(n_concepts, (batch, count, 1), device=scored.device)
    weight = (scored_steps / total / count)[:, None].expand(-1, count)
    return Cells(drawn, concept, weight)


def draw_steps(among: Tensor, count: int) -> Tensor:
    """Draw `count` steps [B, count], with replacement, from those of each sequence that are true in `among` [B, T]."""
    steps = torch.arange(among.shape[1], device=among.device)
    in_order = torch.where(among, steps, steps[-1:] + 1).sort(1).values.clamp(max=among.shape[1] - 1)
    place = (torch.rand(len(among), count, device=among.device) * among.sum(1)[:, None]).long()
    return in_order.gather(1, place)
