"""What a backbone says of the answers that sequences hold."""

import torch

from tsdr.backbones.contract import AnyBackbone
from tsdr.devices import device_of
from tsdr.metrics import Predictions
from tsdr.sequences import Sequences

BATCH = 256


def predict(model: AnyBackbone, sequences: Sequences) -> Predictions:
    """The success that the model expects, out of training, at the scored steps."""
    device = device_of(model)
    was_training = model.training
    model.eval()
    with torch.no_grad():
        batches = [model(batch.to(device)).sigmoid().cpu() for batch in sequences.batches(BATCH)]
    model.train(was_training)
    return Predictions.scored(torch.cat(batches).double().numpy(), sequences)
