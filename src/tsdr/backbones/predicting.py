"""What models say of the answers that sequences hold."""

from tsdr.backbones.contract import AnyBackbone
from tsdr.backbones.scored import logits_of_scored
from tsdr.metrics import Predictions
from tsdr.sequences import Sequences


def predict(model: AnyBackbone, sequences: Sequences) -> Predictions:
    """The success that the model expects, out of training, of the scored answers."""
    return Predictions.scored(logits_of_scored(model, sequences).sigmoid().double().numpy(), sequences)
