"""The joint objective: naive, ipw, eib, dr and tsdr are settings of it.

In every mini-batch (Algorithm 1 of the paper) the imputation model learns from observed cells, then the propensity
model, then the knowledge-tracing model minimises

    mean over observed steps of w e  +  α (mean over all cells of ê  -  mean over observed steps of w ê)

with pseudo-answers and weights held fixed, the last term only if the correction's gradient is `full`.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import Parameter
from torch.nn.functional import binary_cross_entropy_with_logits

from tsdr.backbones.contract import AnyBackbone
from tsdr.debias.answers import AnswerLearner
from tsdr.debias.cells import draw_cells
from tsdr.debias.imputation import imputation_losses, imputed_error, without_questions
from tsdr.debias.propensity import Propensity, QuestionFrequency
from tsdr.debias.smoothness import smoothness
from tsdr.debias.weights import clipped_ratio, density_ratio
from tsdr.devices import device_of
from tsdr.errors import InputError
from tsdr.methods import DebiasOptions
from tsdr.sequences import Batch
from tsdr.training.learner import Learner
from tsdr.training.options import TrainingOptions

IMPUTATION_DECAY, PROPENSITY_DECAY = 1e-4, 1e-3


@dataclass(frozen=True)
class AllCells:
    """Success logits, p̂ as it is used (w clipped) and ê, [B, T, C] each; ê is 0 where nothing is imputed.

    `step` is the mean squared step of the imputation model's states, if there is such a model.
    """

    logits: Tensor
    propensity: Tensor
    imputed: Tensor
    step: float | None


class JointObjective(AnswerLearner):
    """Learns a backbone from a selected log, with the propensity and imputation models that its options call for.

    The imputation model is handed in; it answers for concepts, and is moved by this objective alone.
    """

    def __init__(
        self,
        model: AnyBackbone,
        options: DebiasOptions,
        training: TrainingOptions,
        imputation: AnyBackbone | None = None,
        frequency: QuestionFrequency | None = None,
    ) -> None:
        if options.imputing and imputation is None:
            raise InputError("a method that imputes needs an imputation model beside the backbone")
        if options.weights != "off" and options.by_question and frequency is None:
            raise InputError("weights by question need the questions' frequency in the training split")
        self.options, self.training, self.imputation = options, training, imputation
        self.frequency = frequency if options.by_question else None
        self.propensity: Propensity | None = None
        self.reference: AnyBackbone | None = None
        serves_summary = {id(parameter) for parameter in model.summary_parameters()}
        learned = [parameter for parameter in model.parameters() if id(parameter) not in serves_summary]
        rate = training.learning_rate
        optimisers = {"model": _adam([(learned, training.weight_decay)], rate)}
        auxiliary: list[tuple[list[Parameter], float]] = []
        if imputation is not None:
            auxiliary.append((list(imputation.parameters()), IMPUTATION_DECAY))
        if options.weights != "off":
            self.propensity = Propensity(_summary_size(model), model.n_concepts, options.propensity)
            self.propensity.to(device_of(model))
            auxiliary.append(([*self.propensity.parameters(), *model.summary_parameters()], PROPENSITY_DECAY))
        if auxiliary:
            optimisers["auxiliary"] = _adam(auxiliary, rate)
        super().__init__(model, optimisers, training.stop_by)

    def settings(self) -> str:
        """The options."""
        return self.options.model_dump_json()

    def warm_up(self) -> Iterator[Learner]:
        """Without joint learning: the auxiliary models are trained, beside a copy of the backbone, and frozen."""
        if self.options.joint:
            return
        together = self.options.model_copy(update={"joint": True})
        aside = JointObjective(copy.deepcopy(self.model), together, self.training, self.imputation, self.frequency)
        for _ in range(self.options.warm_up):
            yield aside
        self.propensity, self.reference = aside.propensity, aside.model.eval()

    def step(self, batch: Batch) -> float:
        """Update the imputation and the propensity model, then the backbone.

        Weights are taken once, from the propensity model as the batches before this one have taught it. The two
        auxiliary models share no parameter, so that one pass back serves both.
        """
        scored = batch.scored
        history, logits = self.model.follow(batch)
        equal = scored.to(logits.dtype)
        state = None if self.propensity is None else self._state(batch, history)
        inverse = equal if state is None else self._weights(batch, state)
        if self.options.joint and "auxiliary" in self.optimisers:
            loss = equal.new_zeros(())
            if self.imputation is not None:
                weights = inverse if self.options.weighs("imputation") else equal
                loss = loss + self._imputation_loss(self.imputation, batch, logits, weights)
            if self.propensity is not None and state is not None:
                loss = loss + self.propensity.loss(state, batch.concept, scored, self.options.negatives)
            self.update("auxiliary", loss)
        weights = inverse if self.options.weighs("kt") else equal
        steps = scored.sum().clamp(min=1)
        errors = binary_cross_entropy_with_logits(logits, batch.correct.to(logits.dtype), reduction="none")
        observed = (weights * errors).sum() / steps
        loss = observed + self.model.penalty(batch)
        if self.imputation is not None:
            loss = loss + self.options.alpha * self._imputed(self.imputation, batch, history, weights)
        if self.options.smooth == "kt":
            loss = loss + self.options.smoothness * smoothness(self.model, history, scored, self.options.cells)
        self.update("model", loss)
        return float(observed.detach())

    def models(self) -> dict[str, nn.Module]:
        """The backbone and those beside it."""
        models = {
            "model": self.model,
            "imputation": self.imputation,
            "propensity": self.propensity,
            "reference": self.reference,
        }
        return {name: model for name, model in models.items() if model is not None}

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from what `state` gave; a frozen propensity model brings the backbone that it was frozen with."""
        if "reference" in state["models"]:
            self.reference = copy.deepcopy(self.model).eval()
        super().load_state(state)

    @torch.no_grad()
    def over_all_cells(self, batch: Batch) -> "AllCells":
        """What the models say, at this point of training, of every concept at every step."""
        for model in self.models().values():
            model.eval()
        every = torch.arange(self.model.n_concepts, device=batch.mask.device).expand(*batch.mask.shape, -1)
        history = self.model.encode(batch)
        logits = self.model.answer(history, every)
        propensity = torch.full_like(logits, 1 / self.model.n_concepts)
        if self.propensity is not None:
            weight = clipped_ratio(self.propensity.of_all(self._state(batch, history)), self.options.clip)
            propensity = 1 / (self.model.n_concepts * weight)
        if self.imputation is None:
            return AllCells(logits, propensity, torch.zeros_like(logits), None)
        plain = without_questions(batch)
        past = self.imputation.encode(plain)
        imputed = imputed_error(logits, self.imputation.answer(past, every), self.options.imputation_loss)
        step = smoothness(self.imputation, past, batch.scored, "all")
        return AllCells(logits, propensity, imputed, float(step))

    def _imputation_loss(self, model: AnyBackbone, batch: Batch, logits: Tensor, weights: Tensor) -> Tensor:
        scored = batch.scored
        model.train()
        plain = without_questions(batch)
        history, imputation = model.follow(plain)
        losses = imputation_losses(imputation, logits, batch.correct, self.options.imputation_loss)
        loss = (weights * losses).sum() / scored.sum().clamp(min=1) + model.penalty(plain)
        if self.options.smooth == "imputation":
            loss = loss + self.options.smoothness * smoothness(model, history, scored, self.options.cells)
        return loss

    def _imputed(self, teacher: AnyBackbone, batch: Batch, history: object, weights: Tensor) -> Tensor:
        """mean ê over all cells, less, with the full gradient, the mean of w ê over observed steps."""
        kind = self.options.imputation_loss
        scored = batch.scored
        cells = draw_cells(scored, self.model.n_concepts, self.options.cells)
        observed = batch.concept[..., None]
        teacher.eval()
        with torch.no_grad():
            past = teacher.encode(without_questions(batch))
            imputation = teacher.answer(past, cells.concept, steps=cells.steps)
            at_observed = teacher.answer(past, observed) if self.options.correction == "full" else None
        mean = cells.mean(imputed_error(self.model.answer(history, cells.concept, steps=cells.steps), imputation, kind))
        if at_observed is None:
            return mean
        imputed = imputed_error(self.model.answer(history, observed), at_observed, kind).squeeze(-1)
        return mean - (weights * imputed).sum() / scored.sum().clamp(min=1)

    @torch.no_grad()
    def _weights(self, batch: Batch, state: Tensor) -> Tensor:
        """w [B, T], 0 at steps that are not scored, from the state that the propensity model reads."""
        assert self.propensity is not None
        propensity = self.propensity(state, batch.concept)
        if self.frequency is not None:
            propensity = propensity * self.frequency(batch.concept, batch.question)
        options = self.options
        return density_ratio(
            propensity, self.model.n_concepts, batch.scored, options.clip, options.self_normalise
        ).value

    def _state(self, batch: Batch, history: object) -> Tensor:
        """What the propensity model reads: the summary by the backbone, or by the one that it was frozen with."""
        if self.reference is None:
            return self.model.summary(history)
        return self.reference.summary(self.reference.encode(batch))


def _adam(with_decay: list[tuple[list[Parameter], float]], rate: float) -> torch.optim.Adam:
    """Adam for groups of parameters, each with its weight decay."""
    groups = [{"params": parameters, "weight_decay": decay} for parameters, decay in with_decay]
    return torch.optim.Adam(groups, lr=rate, fused=True)


@torch.no_grad()
def _summary_size(model: AnyBackbone) -> int:
    """How wide the model's summary is, found by asking it."""
    nothing = torch.zeros(1, 2, dtype=torch.long, device=device_of(model))
    history = model.encode(Batch.of_answers(nothing, nothing, nothing, nothing == 0))
    return model.summary(history).shape[-1]
