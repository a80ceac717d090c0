"""The joint objective: naive, ipw, eib, dr and tsdr are settings of it.

In every mini-batch (Algorithm 1 of the paper) the imputation model learns from observed cells, then the propensity
model, then the knowledge-tracing model minimises

    mean over observed steps of w e  +  α (mean over all cells of ê  -  mean over observed steps of w ê)

with pseudo-answers and weights held fixed, the last term only if the correction's gradient is `full`.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, PositiveInt
from torch import Tensor
from torch.nn import Parameter
from torch.nn.functional import binary_cross_entropy_with_logits

from tsdr.backbones.contract import AnyBackbone, build_backbone
from tsdr.debias.cells import draw_cells
from tsdr.debias.imputation import ImputationLoss, imputation_losses, imputed_error, without_questions
from tsdr.debias.propensity import Propensity, PropensityKind, QuestionFrequency
from tsdr.debias.smoothness import smoothness
from tsdr.debias.weights import clipped_ratio, density_ratio
from tsdr.errors import InputError
from tsdr.evaluation.metrics import auc, predict
from tsdr.sequences import Batch, Sequences
from tsdr.training.trainer import TrainingOptions


class DebiasOptions(BaseModel):
    """What is done about selection; the defaults are tsdr's."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    weights: Literal["both", "imputation", "kt", "off"] = Field(
        default="imputation", description="whose observed errors are weighted by the inverse propensity"
    )
    imputing: bool = Field(default=True, description="add the imputed errors of all cells")
    smooth: Literal["imputation", "kt", "off"] = Field(default="imputation", description="whose states are kept smooth")
    smoothness: NonNegativeFloat = Field(
        default=2.0, description="λ, the weight of the mean squared step of the states"
    )
    alpha: NonNegativeFloat = Field(default=3.0, description="α, the weight of the imputed errors")
    cells: PositiveInt | Literal["all"] = Field(
        default=10, description="cells drawn from a sequence for the imputed mean"
    )
    negatives: PositiveInt | Literal["all"] = Field(
        default=64, description="concepts drawn as the propensity's negatives"
    )
    clip: tuple[NonNegativeFloat, NonNegativeFloat] = Field(
        default=(0.25, 4.0), description="bounds of w = 1 / (|C| p̂)"
    )
    self_normalise: bool = Field(default=True, description="divide w by its mean over the batch")
    imputation_loss: ImputationLoss = Field(default="bce", description="how the imputation model learns")
    correction: Literal["full", "stopped"] = Field(
        default="stopped", description="does ê at observed cells carry gradient"
    )
    propensity: PropensityKind = Field(default="bernoulli", description="sigmoid a concept, or softmax over all")
    by_question: bool = Field(
        default=True, description="weight, too, by how often a question is logged among its concept's"
    )
    light_imputation: bool = Field(
        default=True, description="build the imputation model in the backbone's light size, if it has one"
    )
    joint: bool = Field(default=True, description="train the auxiliary models along, or first and then freeze them")
    warm_up: PositiveInt = Field(default=10, description="epochs of the auxiliary models before they are frozen")

    def weighs(self, model: Literal["imputation", "kt"]) -> bool:
        """Whether the observed errors of a model are weighted."""
        return self.weights in ("both", model)

    @classmethod
    def of_method(cls, method: str, **changes: Any) -> "DebiasOptions":
        """A method's settings, with changes; changes can be written behind the name, too.

        >>> DebiasOptions.of_method("tsdr:smoothness=0:clip=0.5/2").clip
        (0.5, 2.0)
        """
        name, *written = method.split(":")
        if name not in METHODS:
            raise InputError(f"there is no method {name!r}; choose from {', '.join(METHODS)}")
        for change in written:
            option, equals, value = change.partition("=")
            if not equals or option not in cls.model_fields:
                raise InputError(
                    f"{method}: {change!r} does not set an option; write option=value, the option one of "
                    f"{', '.join(cls.model_fields)}"
                )
            changes[option] = value.split("/") if "/" in value else value
        return cls(**METHODS[name] | changes)


# Weights on the backbone's own errors: of concepts alone, as in the paper, and mild. Wide ones cost ipw more than they
# bring.
_ON_ERRORS = {"by_question": False, "clip": (0.5, 2.0)}
METHODS: dict[str, dict[str, Any]] = {
    "naive": {"weights": "off", "imputing": False, "smooth": "off"},
    "ipw": {"weights": "kt", "imputing": False, "smooth": "off", **_ON_ERRORS},
    "eib": {"weights": "off", "imputing": True, "smooth": "off"},
    "dr": {"weights": "both", "imputing": True, "smooth": "off", **_ON_ERRORS},
    "tsdr-unweighted": {"weights": "off"},
    "tsdr": {},
}
NAIVE = DebiasOptions.of_method("naive")
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


class JointObjective:
    """Learns a backbone from a selected log, with the propensity and imputation models that its options call for."""

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
        self.frequency = frequency if options.by_question else None
        self.model, self.options, self.imputation = model, options, imputation
        self.propensity: Propensity | None = None
        self.reference: AnyBackbone | None = None
        serves_summary = {id(parameter) for parameter in model.summary_parameters()}
        learned = [parameter for parameter in model.parameters() if id(parameter) not in serves_summary]
        rate = training.learning_rate
        self.optimisers = {"model": _adam([(learned, training.weight_decay)], rate)}
        auxiliary: list[tuple[list[Parameter], float]] = []
        if imputation is not None:
            auxiliary.append((list(imputation.parameters()), IMPUTATION_DECAY))
        if options.weights != "off":
            self.propensity = Propensity(_summary_size(model), model.n_concepts, options.propensity)
            self.propensity.to(learned[0].device)
            auxiliary.append(([*self.propensity.parameters(), *model.summary_parameters()], PROPENSITY_DECAY))
        if auxiliary:
            self.optimisers["auxiliary"] = _adam(auxiliary, rate)

    def settings(self) -> str:
        """The options."""
        return self.options.model_dump_json()

    def begin(self, train: Sequences, training: TrainingOptions) -> None:
        """Without joint learning: train the auxiliary models, beside a copy of the backbone, and freeze them."""
        if self.options.joint:
            return
        together = self.options.model_copy(update={"joint": True})
        aside = JointObjective(copy.deepcopy(self.model), together, training, self.imputation, self.frequency)
        aside.model.train()
        device = next(self.model.parameters()).device
        generator = torch.Generator().manual_seed(training.seed)
        for _ in range(self.options.warm_up):
            for batch in train.batches(training.batch_size, generator):
                aside.step(batch.to(device))
        self.propensity, self.reference = aside.propensity, aside.model.eval()

    def step(self, batch: Batch) -> float:
        """Update the imputation and the propensity model, then the backbone.

        Weights are taken once, from the propensity model as the batches before this one have taught it. The two
        auxiliary models share no parameter, so that one pass back serves both.
        """
        scored = batch.scored()
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
            self._update("auxiliary", loss)
        weights = inverse if self.options.weighs("kt") else equal
        steps = scored.sum().clamp(min=1)
        errors = binary_cross_entropy_with_logits(logits, batch.correct.to(logits.dtype), reduction="none")
        observed = (weights * errors).sum() / steps
        loss = observed + self.model.penalty(batch)
        if self.imputation is not None:
            loss = loss + self.options.alpha * self._imputed(self.imputation, batch, history, weights)
        if self.options.smooth == "kt":
            loss = loss + self.options.smoothness * smoothness(self.model, history, scored, self.options.cells)
        self._update("model", loss)
        return float(observed.detach())

    def validate(self, validation: Sequences) -> float:
        """AUC on the logged answers of the validation students."""
        found = predict(self.model, validation)
        return auc(found.success, found.correct)

    def state(self) -> dict[str, Any]:
        """Every model and optimiser."""
        return {
            "models": {name: model.state_dict() for name, model in self._models().items()},
            "optimisers": {name: optimiser.state_dict() for name, optimiser in self.optimisers.items()},
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from what `state` gave."""
        if "reference" in state["models"]:
            self.reference = copy.deepcopy(self.model).eval()
        for name, model in self._models().items():
            model.load_state_dict(state["models"][name])
        for name, optimiser in self.optimisers.items():
            optimiser.load_state_dict(state["optimisers"][name])

    @torch.no_grad()
    def over_all_cells(self, batch: Batch) -> "AllCells":
        """What the models say, at this point of training, of every concept at every step."""
        for model in self._models().values():
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
        step = smoothness(self.imputation, past, batch.scored(), "all")
        return AllCells(logits, propensity, imputed, float(step))

    def _models(self) -> dict[str, torch.nn.Module]:
        models = {
            "model": self.model,
            "imputation": self.imputation,
            "propensity": self.propensity,
            "reference": self.reference,
        }
        return {name: model for name, model in models.items() if model is not None}

    def _imputation_loss(self, model: AnyBackbone, batch: Batch, logits: Tensor, weights: Tensor) -> Tensor:
        scored = batch.scored()
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
        scored = batch.scored()
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
            propensity, self.model.n_concepts, batch.scored(), options.clip, options.self_normalise
        ).value

    def _state(self, batch: Batch, history: object) -> Tensor:
        """What the propensity model reads: the summary by the backbone, or by the one that it was frozen with."""
        if self.reference is None:
            return self.model.summary(history)
        return self.reference.summary(self.reference.encode(batch))

    def _update(self, name: str, loss: Tensor) -> None:
        optimiser = self.optimisers[name]
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()


def _adam(with_decay: list[tuple[list[Parameter], float]], rate: float) -> torch.optim.Adam:
    """Adam for groups of parameters, each with its weight decay."""
    groups = [{"params": parameters, "weight_decay": decay} for parameters, decay in with_decay]
    return torch.optim.Adam(groups, lr=rate, fused=True)


@torch.no_grad()
def _summary_size(model: AnyBackbone) -> int:
    """How wide the model's summary is, found by asking it."""
    nothing = torch.zeros(1, 2, dtype=torch.long, device=next(model.parameters()).device)
    history = model.encode(Batch(nothing, nothing, nothing, nothing == 0))
    return model.summary(history).shape[-1]


def new_model(
    backbone: str, sequences: Sequences, options: Mapping[str, Any], training: TrainingOptions
) -> AnyBackbone:
    """A fresh model for the vocabulary of these sequences, the same for the same seed."""
    torch.manual_seed(training.seed)
    vocabulary = sequences.vocabulary
    model = build_backbone(
        backbone, n_concepts=len(vocabulary.concepts), n_questions=len(vocabulary.questions), **options
    )
    return model.to(training.torch_device())


def imputation_model(backbone: str, model: AnyBackbone, debias: DebiasOptions) -> AnyBackbone | None:
    """A fresh imputation model beside a backbone, if the options call for one."""
    if not debias.imputing:
        return None
    options = {**model.options, **(model.light_options if debias.light_imputation else {})}
    return build_backbone(backbone, n_concepts=model.n_concepts, n_questions=1, **options)


def new_objective(
    backbone: str,
    train: Sequences,
    options: Mapping[str, Any],
    training: TrainingOptions,
    debias: DebiasOptions,
) -> JointObjective:
    """A fresh model, prepared on the training split, and the objective to train it by."""
    model = new_model(backbone, train, options, training)
    model.prepare(train)
    imputation = imputation_model(backbone, model, debias)
    if imputation is not None:
        imputation.to(training.torch_device()).prepare(train)
    frequency = QuestionFrequency(train.batch, model.n_concepts, model.n_questions)
    return JointObjective(model, debias, training, imputation, frequency)
