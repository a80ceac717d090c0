"""Temporal smoothness: the mean squared step of a model's latent states."""

import torch
from torch import Tensor

from tsdr.backbones.contract import AnyBackbone
from tsdr.debias.cells import CellCount


def smoothness(model: AnyBackbone, history: object, scored: Tensor, pairs: CellCount) -> Tensor:
    """The mean over neighbouring scored steps of the squared step of the state, averaged over its dimensions.

    States of both steps are retrieved for the SAME target, one concept drawn for the sequence: what changes between
    them is the history, not the subject. `pairs` neighbouring steps are drawn from each sequence, weighted by how many
    it has; "all" takes every pair. The scale of a state differs between backbones, and so does what λ means.
    """
    batch, steps = scored.shape
    count = (scored.sum(1) - 1).clamp(min=0)
    total = count.sum().clamp(min=1)
    if pairs == "all":
        later = torch.arange(2, steps, device=scored.device).expand(batch, -1)
        weight = scored[:, 2:] / total
    else:
        later = 2 + (torch.rand(batch, pairs, device=scored.device) * count[:, None]).long()
        later = later.clamp(max=steps - 1)
        weight = (count / total / pairs)[:, None].expand(-1, pairs)
    concept = torch.randint(model.n_concepts, (batch, 1), device=scored.device)
    both = torch.cat([later - 1, later], dim=1)
    state = model.retrieve(history, concept[:, :, None].expand(-1, both.shape[1], 1), steps=both)[:, :, 0]
    earlier_state, later_state = state.split(later.shape[1], dim=1)
    return ((later_state - earlier_state).square().mean(-1) * weight).sum()
