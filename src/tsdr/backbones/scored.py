"""What is said of the scored answers of sequences, all of them in order."""

from collections.abc import Callable

import torch
from torch import Tensor

from tsdr.backbones.contract import AnyBackbone, Reader
from tsdr.devices import device_of
from tsdr.parallel import ALONE, Sharing, Team
from tsdr.sequences import Batch, Sequences

BATCH = 256


def of_scored(sequences: Sequences, size: int, say: Callable[[Batch], Tensor], team: Team = ALONE) -> Tensor:
    """What is said, batch by batch, of the scored answers of each [in the batch, ...]; in the order of all of them.

    A worker says it of its share, and is told what the others say.
    """
    found = []
    sharing = Sharing(team)
    for whole in sequences.batches(size):
        share = sharing(whole)
        found.append((whole.place[whole.scored], share.spread(say(share.batch))))  # type: ignore[index]
    places, said = (torch.cat(parts) for parts in zip(*found, strict=True))
    return team.sum(said)[places.argsort()]


@torch.no_grad()
def logits_of_scored(model: AnyBackbone, sequences: Sequences, team: Team = ALONE) -> Tensor:
    """The success logits of the scored answers by a model that is not in training meanwhile."""
    device, reader = device_of(model), Reader(model)
    was_training = model.training
    model.eval()
    logits = of_scored(sequences, BATCH, lambda batch: reader.logits(batch.to(device)).cpu()[batch.scored], team)
    model.train(was_training)
    return logits
