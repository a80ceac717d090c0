"""What models say of the answers that sequences hold."""

from tsdr.backbones.contract import AnyBackbone
from tsdr.backbones.scored import logits_of_scored
from tsdr.metrics import Predictions
from tsdr.parallel import ALONE, Team
from tsdr.sequences import Sequences


def predict(model: AnyBackbone, sequences: Sequences, team: Team = ALONE) -> Predictions:
    """The success that the model expects, out of training, of the scored answers; each of a team asks it of some."""
    return Predictions.scored(logits_of_scored(model, sequences, team).sigmoid().double().numpy(), sequences)
