"""The oracle of random exposure: the same histories, but what is asked at each step is drawn uniformly.

On simulated logs only, since it takes the truth to know what the answer would have been. It tells how much there is to
gain by debiasing: a model that learns from the selected log has to make do with less.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from tsdr.backbones.contract import AnyBackbone
from tsdr.evaluation.metrics import EVALUATION_BATCH, auc
from tsdr.evaluation.truth import KnownSuccess, true_probability
from tsdr.sequences import Batch, Sequences
from tsdr.training.trainer import TrainingOptions


@dataclass(frozen=True)
class ExposedBatch(Batch):
    """A batch with, at each step, a uniformly drawn target concept and the answer drawn from the truth."""

    target: Tensor
    answer: Tensor


def expose(sequences: Sequences, truth: KnownSuccess, seed: int) -> Sequences:
    """Draw a target and its answer for every step, once: as many labels as the log has."""
    generator = torch.Generator().manual_seed(seed)
    probability = true_probability(sequences, truth)
    target = torch.randint(probability.shape[2], sequences.batch.mask.shape, generator=generator)
    if probability.isnan().any():
        cells = probability.isfinite() + 1e-12  # where nothing is left to be asked, any of them
        target = cells.flatten(0, 1).multinomial(1, generator=generator).view_as(target)
    chance = probability.gather(2, target[..., None]).squeeze(2).nan_to_num(0.5)
    answer = (torch.rand(chance.shape, generator=generator) < chance).long()
    plain = sequences.batch
    exposed = ExposedBatch(plain.concept, plain.question, plain.correct, plain.mask, target, answer)
    return replace(sequences, batch=exposed)


class RandomExposureObjective:
    """The mean cross-entropy of the drawn answers to the drawn targets."""

    def __init__(self, model: AnyBackbone, training: TrainingOptions) -> None:
        self.model = model
        self.optimiser = torch.optim.Adam(
            model.parameters(), lr=training.learning_rate, weight_decay=training.weight_decay
        )

    def settings(self) -> str:
        """There are none."""
        return "random-exposure"

    def begin(self, train: Sequences, training: TrainingOptions) -> None:
        """Nothing."""

    def step(self, batch: Batch) -> float:
        """One step of Adam."""
        assert isinstance(batch, ExposedBatch)
        scored = batch.scored()
        logits = self._logits(batch)[scored]
        loss = binary_cross_entropy_with_logits(logits, batch.answer[scored].to(logits.dtype))
        self.optimiser.zero_grad(set_to_none=True)
        (loss + self.model.penalty(batch)).backward()
        self.optimiser.step()
        return float(loss.detach())

    @torch.no_grad()
    def validate(self, validation: Sequences) -> float:
        """AUC on the drawn answers of the validation students."""
        self.model.eval()
        device = next(self.model.parameters()).device
        success, answers = [], []
        for batch in validation.batches(EVALUATION_BATCH):
            assert isinstance(batch, ExposedBatch)
            scored = batch.scored()
            success.append(self._logits(batch.to(device)).cpu()[scored])
            answers.append(batch.answer[scored])
        return auc(torch.cat(success).numpy(), torch.cat(answers).numpy())

    def state(self) -> dict[str, Any]:
        """Weights and optimiser."""
        return {"model": self.model.state_dict(), "optimiser": self.optimiser.state_dict()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from what `state` gave."""
        self.model.load_state_dict(state["model"])
        self.optimiser.load_state_dict(state["optimiser"])

    def _logits(self, batch: ExposedBatch) -> Tensor:
        return self.model.answer(self.model.encode(batch), batch.target[..., None]).squeeze(-1)
