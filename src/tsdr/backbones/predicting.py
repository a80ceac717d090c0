"""What models say of the answers that sequences hold."""

from collections.abc import Callable

import torch
from torch import Tensor

from tsdr.backbones.contract import AnyBackbone, Reader
from tsdr.devices import device_of
from tsdr.metrics import Predictions
from tsdr.sequences import Batch, Sequences

BATCH = 256


def predict(model: AnyBackbone, sequences: Sequences) -> Predictions:
    """The success that the model expects, out of training, of the scored answers."""
    device, reader = device_of(model), Reader(model)
    was_training = model.training
    model.eval()
    with torch.no_grad():
        logits = of_scored(sequences, BATCH, lambda batch: reader.logits(batch.to(device)).cpu()[batch.scored])
    model.train(was_training)
    return Predictions.scored(logits.sigmoid().double().numpy(), sequences)


def of_scored(sequences: Sequences, size: int, say: Callable[[Batch], Tensor]) -> Tensor:
    """What is said, batch by batch, of the scored answers of each [in the batch, ...]; in the order of all of them."""
    found = [(batch.place[batch.scored], say(batch)) for batch in sequences.batches(size)]  # type: ignore[index]
    places, said = (torch.cat(parts) for parts in zip(*found, strict=True))
    return said[places.argsort()]
