"""The oracle of random exposure: the same histories, but what is asked at each step is drawn uniformly.

On simulated logs only, since it takes the truth to know what the answer would have been. It tells how much there is to
gain by debiasing: a model that learns from the selected log has to make do with less.
"""

from dataclasses import replace

import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from tsdr.backbones.contract import AnyBackbone, Reader
from tsdr.debias.answers import AnswerLearner
from tsdr.sequences import Batch, Sequences
from tsdr.training.options import TrainingOptions
from tsdr.truth import KnownSuccess, true_probability


def expose(sequences: Sequences, truth: KnownSuccess, seed: int) -> Sequences:
    """Draw a target and its answer for every step, once: as many labels as the log has."""
    generator = torch.Generator().manual_seed(seed)
    probability = true_probability(sequences, truth)
    target = torch.randint(probability.shape[1], (len(probability),), generator=generator)
    if probability.isnan().any():
        cells = probability.isfinite() + 1e-12  # where nothing is left to be asked, any of them
        target = cells.multinomial(1, generator=generator).squeeze(1)
    chance = probability.gather(1, target[:, None]).squeeze(1).nan_to_num(0.5)
    answer = (torch.rand(chance.shape, generator=generator) < chance).long()
    return replace(sequences, events=replace(sequences.events, correct=answer, target=target))


class RandomExposureObjective(AnswerLearner):
    """The mean cross-entropy of the drawn answers to the drawn targets."""

    def __init__(self, model: AnyBackbone, training: TrainingOptions) -> None:
        optimiser = torch.optim.Adam(model.parameters(), lr=training.learning_rate, weight_decay=training.weight_decay)
        super().__init__(model, {"model": optimiser}, training.stop_by)
        self.reader = Reader(model)

    def settings(self) -> str:
        """There are none."""
        return "random-exposure"

    def step(self, batch: Batch) -> float:
        """One step of Adam."""
        logits = self.reader.logits(batch)[batch.scored]
        loss = binary_cross_entropy_with_logits(logits, batch.correct[batch.scored].to(logits.dtype))
        self.update("model", loss + self.model.penalty(batch))
        return float(loss.detach())
