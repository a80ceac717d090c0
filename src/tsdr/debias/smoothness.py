"""Temporal smoothness: the mean squared step of a model's latent states."""

import torch
from torch import Tensor

from tsdr.backbones.contract import AnyBackbone
from tsdr.debias.cells import CellCount, draw_steps
from tsdr.parallel import Share


def smoothness(model: AnyBackbone, history: object, share: Share, pairs: CellCount) -> Tensor:
    """The mean over neighbouring scored steps of the squared step of the state, averaged over its dimensions.

    States of both steps are retrieved for the SAME target, one concept drawn for the sequence: what changes between
    them is the history, not the subject. `pairs` neighbouring steps are drawn from each sequence, weighted by how many
    it has; "all" takes every pair. The scale of a state differs between backbones, and so does what λ means. The
    history is that of a worker's share of the batch, and so is what it adds to the mean.
    """
    scored = share.whole.scored
    batch, steps = scored.shape
    second = scored & scored.roll(1, 1)  # of two neighbouring scored steps
    second[:, 0] = False
    count = second.sum(1)
    total = count.sum().clamp(min=1)
    with share.team.together():
        concept = share.of(torch.randint(model.n_concepts, (batch, 1, 1), device=scored.device))
        drawn = None if pairs == "all" else share.of(draw_steps(second, pairs))
    if drawn is None:
        every = torch.arange(1, steps, device=scored.device).expand(len(concept), -1)
        state = model.retrieve(history, concept.expand(-1, steps - 1, 1), steps=every)[:, :, 0]
        earlier, later = state[:, :-1], state[:, 1:]
        weight = second[:, 2:] / total
    else:
        number = drawn.shape[1]
        both = torch.cat([(drawn - 1).clamp(min=0), drawn], dim=1)
        state = model.retrieve(history, concept.expand(-1, 2 * number, 1), steps=both)[:, :, 0]
        earlier, later = state.split(number, dim=1)
        weight = (count / total / number)[:, None].expand(-1, number)
    return ((later - earlier).square().mean(-1) * share.of(weight)).sum()
