"""Estimates of a model's risk over every concept at every step, from the logged answers of held-out students.

The risk is that of `true_bce` on simulated logs: the mean cross-entropy over all cells (scored step, concept), targets
without a question. With e the error at the logged concept, w = 1 / (|C| p̂), ê the imputed error:

| estimate | value | right when |
|---|---|---|
| naive | mean of e | logged concepts are a fair sample |
| snips | Σ w e / Σ w | the selection model is right |
| dr | mean of ê over all cells + Σ w (e - ê) / Σ w | the selection model or the imputation model is right |

p̂ is the selection model's p̂(c | history), times how often the question is logged relative to the other questions of
its concept: a concept's truth is the mean over its questions, and a log that shows the easy ones more often departs
from it even where concepts are logged evenly. The numbers rest on the selection and imputation models, which are
learned from the same kind of log; what neither the history nor the question shows, they cannot repair.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from tsdr.backbones.contract import AnyBackbone, Reader
from tsdr.backbones.scored import of_scored
from tsdr.debias.building import new_objective
from tsdr.debias.imputation import imputed_error, without_questions
from tsdr.debias.propensity import ConceptQuestions
from tsdr.debias.weights import Weights, density_ratio
from tsdr.devices import device_of
from tsdr.diagnosis.findings import RiskEstimates
from tsdr.diagnosis.selection import SELECTION_BATCH, SELECTION_WINDOW, SelectionModel, at_observed, fit_selection
from tsdr.errors import InputError
from tsdr.methods import options_of
from tsdr.metrics import short
from tsdr.resampling import Array, bootstrap
from tsdr.sequences import Batch, Sequences
from tsdr.training.options import TrainingOptions
from tsdr.training.trainer import fit

CLIP = (0.1, 10.0)
# The mean of ê over all concepts is taken over all of them up to here, and else over so many drawn for each step.
CONCEPTS_A_STEP = 50
IMPUTATION_TRAINING = TrainingOptions(learning_rate=3e-3, patience=4, max_epochs=25, stop_by="auc")


@dataclass(frozen=True)
class LoggedErrors:
    """A model's errors on logged answers and what is known of their cells: one value a scored step.

    `error` is e, `imputed` ê at the logged concept, `imputed_mean` the mean of ê over all concepts of the step,
    `exposure` |C| p̂ of what was logged.
    """

    student: Array
    error: Array
    imputed: Array
    imputed_mean: Array
    exposure: Array

    def weights(self, clip: tuple[float, float]) -> Weights:
        """w = 1 / (|C| p̂), clipped, mean 1."""
        exposure = torch.from_numpy(self.exposure)
        return density_ratio(exposure, torch.ones_like(exposure, dtype=torch.bool), clip, self_normalise=True)

    def risk(self, clip: tuple[float, float] = CLIP, seed: int = 0) -> RiskEstimates:
        """The three estimates from sums over each student's answers; the same seed draws the same students."""
        weights = self.weights(clip)
        sums = self._sums(weights)
        return RiskEstimates(
            naive=bootstrap(sums, lambda s: s[..., 1] / s[..., 0], seed),
            snips=bootstrap(sums, lambda s: s[..., 3] / s[..., 2], seed),
            dr=bootstrap(sums, lambda s: s[..., 4] / s[..., 0] + s[..., 5] / s[..., 2], seed),
            effective_share=weights.effective_share,
            clipped_share=weights.clipped_share,
        )

    def influence(self, clip: tuple[float, float] = CLIP) -> dict[str, list[float | None]]:
        """How much each student moves the estimates: the linear part of each ratio of sums, which sums to nought."""
        answers, _, weight, weighted, imputed, residual = self._sums(self.weights(clip)).T

        def moves(sum_of: Array, over: Array) -> Array:
            return (sum_of - over * sum_of.sum() / over.sum()) / over.sum()

        return {
            "estimated_snips_influence": short(moves(weighted, weight)),
            "estimated_dr_influence": short(moves(imputed, answers) + moves(residual, weight)),
        }

    def _sums(self, weights: Weights) -> Array:
        """Of each student: answers, e, w, w e, the mean of ê over all concepts, w (e - ê)."""
        w = weights.value.numpy()
        residual = self.error - self.imputed
        terms = (np.ones_like(w), self.error, w, w * self.error, self.imputed_mean, w * residual)
        return np.stack([np.bincount(self.student, term) for term in terms], axis=1)


@dataclass(frozen=True)
class RiskEstimator:
    """The selection and imputation models: learned once from training students, asked about any number of models."""

    selection: SelectionModel
    imputation: AnyBackbone
    questions: ConceptQuestions

    @classmethod
    def fit(
        cls,
        train: Sequences,
        validation: Sequences,
        *,
        seed: int = 42,
        selection: SelectionModel | None = None,
        on_stage: Callable[[str], None] = lambda stage: None,
    ) -> "RiskEstimator":
        """Learn both models, unless the selection model is there already; imputation is by a dkt, weighted (ipw).

        Not by tsdr, whose models are taught by such imputations: they would find themselves good. Nor from the seed
        that the models under test are likely to have been trained from.
        """
        train, validation = train.within(SELECTION_WINDOW), validation.within(SELECTION_WINDOW)
        if selection is None:
            selection = fit_selection(train, validation, seed=seed, on_stage=on_stage)
        training = IMPUTATION_TRAINING.model_copy(update={"seed": seed + 1})
        objective = new_objective("dkt", train, {}, training, options_of("ipw"))
        fit(
            objective,
            train,
            validation,
            training,
            on_epoch=lambda epoch: on_stage(f"learning what unlogged answers would be, epoch {epoch.number}"),
        )
        questions = ConceptQuestions(train.pairs(), len(train.vocabulary.concepts), len(train.vocabulary.questions))
        return cls(selection, objective.model.eval(), questions)

    @torch.no_grad()
    def logged_errors(self, model: AnyBackbone, held_out: Sequences, seed: int = 0) -> LoggedErrors:
        """Ask a model and the two that are learned about the held-out students' steps.

        With more than CONCEPTS_A_STEP concepts, the mean of ê is over that many, drawn for each step by the seed: an
        unbiased estimate of the mean over all, the same cells for every model.
        """
        if model.n_concepts != self.selection.n_concepts:
            raise InputError(
                f"the model knows {model.n_concepts} concepts and the selection model {self.selection.n_concepts}; "
                "make the sequences with the model's vocabulary"
            )
        events, scored = held_out.events, held_out.scored
        concept, question = events.concept[scored], events.question[scored]
        asked = torch.cat([concept[:, None], _targets(len(scored), model.n_concepts, seed)], 1)
        in_view = held_out.within(SELECTION_WINDOW)
        logits = _answers(model, held_out, asked)
        plain = replace(in_view, events=without_questions(in_view.events))
        imputed = imputed_error(logits, _answers(self.imputation, plain, asked), "bce")
        correct = events.correct[scored].to(logits.dtype)
        error = binary_cross_entropy_with_logits(logits[:, 0], correct, reduction="none")
        propensity = at_observed(self.selection, in_view).exp()
        exposure = self.selection.n_concepts * propensity * self.questions.frequency(concept, question)
        columns = error, imputed[:, 0], imputed[:, 1:].mean(1), exposure
        return LoggedErrors(held_out.student_of_scored().numpy(), *(column.double().numpy() for column in columns))


def _answers(model: AnyBackbone, sequences: Sequences, asked: Tensor) -> Tensor:
    """The logits of a model for concepts [scored answers, K] asked just before each of the answers."""
    device, reader = device_of(model), Reader(model.eval())

    def say(part: Batch) -> Tensor:
        batch = part.to(device)
        concept = torch.zeros(*part.mask.shape, asked.shape[1], dtype=torch.long)
        concept[part.scored] = asked[torch.searchsorted(sequences.scored, part.place[part.scored])]  # type: ignore[index]
        return model.answer(reader.read(batch), concept.to(device)).cpu()[part.scored]

    return of_scored(sequences, SELECTION_BATCH, say)


def _targets(steps: int, n_concepts: int, seed: int) -> Tensor:
    """The concepts [steps, K] that stand for all: every one of them, or as many as are drawn for a step."""
    if n_concepts <= CONCEPTS_A_STEP:
        return torch.arange(n_concepts).expand(steps, -1)
    return torch.randint(n_concepts, (steps, CONCEPTS_A_STEP), generator=torch.Generator().manual_seed(seed))
