"""The joint objective: naive, ipw, eib, dr and tsdr are settings of it.

In every mini-batch (Algorithm 1 of the paper) the imputation model learns from observed cells, then the propensity
model, then the knowledge-tracing model minimises

    mean over observed steps of w e  +  α (mean over all cells of ê  -  mean over observed steps of w ê)

with pseudo-answers and weights held fixed, the last term only if the correction's gradient is `full`. Now and then the
imputation models are targeted: stacked, and fitted to logged answers of students who did not teach them.
"""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.nn import Parameter
from torch.nn.functional import binary_cross_entropy_with_logits

from tsdr.backbones.contract import AnyBackbone, Reader, share_of
from tsdr.backbones.scored import BATCH
from tsdr.debias.answers import AnswerLearner
from tsdr.debias.cells import draw_cells
from tsdr.debias.imputation import Imputation, imputation_losses, imputed_error
from tsdr.debias.propensity import ConceptQuestions, Propensity
from tsdr.debias.smoothness import smoothness
from tsdr.debias.stack import FEWEST, Stack, Targeting, Unseen
from tsdr.debias.weights import clipped_ratio, density_ratio
from tsdr.devices import device_of
from tsdr.errors import InputError
from tsdr.methods import DebiasOptions
from tsdr.parallel import Share, Sharing
from tsdr.sequences import UNKNOWN_QUESTION, Batch, Sequences
from tsdr.training.learner import Learner
from tsdr.training.options import TrainingOptions

IMPUTATION_DECAY, PROPENSITY_DECAY = 1e-4, 1e-3
VALIDATION_CELLS = 40  # of a sequence


@dataclass(frozen=True)
class AllCells:
    """Success logits, p̂ as it is used (w clipped) and ê, [B, T, C] each; ê is 0 where nothing is imputed.

    `step` is the mean squared step of the learned imputation model's states, if there is such a model.
    """

    logits: Tensor
    propensity: Tensor
    imputed: Tensor
    step: float | None


class JointObjective(AnswerLearner):
    """Learns a backbone from a selected log, with the propensity and imputation models that its options call for.

    What imputes is handed in, and its learned model is moved by this objective alone. So are the questions of the
    concepts, which weights and cells may go by, and the students whose answers the imputation is targeted with.
    """

    def __init__(
        self,
        model: AnyBackbone,
        options: DebiasOptions,
        training: TrainingOptions,
        imputation: Imputation | None = None,
        questions: ConceptQuestions | None = None,
        unseen: Sequence[Unseen] = (),
    ) -> None:
        if options.imputing and imputation is None:
            raise InputError("a method that imputes needs an imputation model beside the backbone")
        if options.imputing and options.targeted and not unseen:
            raise InputError("to target the imputation takes students who are not learned from")
        if options.needs_questions and questions is None:
            raise InputError("weights by question, and cells at questions, need the questions of the training split")
        self.options, self.training, self.imputation = options, training, imputation
        self.questions, self.unseen = questions, unseen
        self.propensity: Propensity | None = None
        self.reference: AnyBackbone | None = None
        self.targeting: Targeting | None = None
        self.epoch = 0
        serves_summary = {id(parameter) for parameter in model.summary_parameters()}
        learned = [parameter for parameter in model.parameters() if id(parameter) not in serves_summary]
        rate = training.learning_rate
        optimisers = {"model": _adam([(learned, training.weight_decay)], rate)}
        auxiliary: list[tuple[list[Parameter], float]] = []
        if imputation is not None and imputation.learned is not None:
            auxiliary.append((list(imputation.learned.parameters()), IMPUTATION_DECAY))
        if options.weights != "off":
            self.propensity = Propensity(_summary_size(model), model.n_concepts, options.propensity)
            self.propensity.to(device_of(model))
            auxiliary.append(([*self.propensity.parameters(), *model.summary_parameters()], PROPENSITY_DECAY))
        if auxiliary:
            optimisers["auxiliary"] = _adam(auxiliary, rate)
        super().__init__(model, optimisers, training.stop_by)
        self._readers = self._new_readers()

    def settings(self) -> str:
        """The options."""
        return self.options.model_dump_json()

    def warm_up(self) -> Iterator[Learner]:
        """Without joint learning: the auxiliary models are trained, beside a copy of the backbone, and frozen."""
        if self.options.joint:
            return
        together = self.options.model_copy(update={"joint": True})
        beside = self.imputation, self.questions, self.unseen
        with self.team.together():
            aside = JointObjective(copy.deepcopy(self.model), together, self.training, *beside)
        aside.team = self.team
        for _ in range(self.options.warm_up):
            yield aside
        self.propensity, self.reference = aside.propensity, aside.model.eval()

    @torch.no_grad()
    def begin_epoch(self) -> None:
        """Target the imputation anew before epochs 1, 2, 4, 8 and so on: weights and models have learned since.

        Where there are few students to do it by, what imputes is better left as it is.
        """
        self.epoch += 1
        if self.imputation is None or not self.options.targeted or self.epoch & (self.epoch - 1):
            return
        if sum(len(unseen.sequences.students()) for unseen in self.unseen) < FEWEST:
            return
        self.model.eval()
        rows: list[tuple[Tensor, ...]] = []
        students = 0
        for unseen in self.unseen:
            rows += self._told(self.imputation, unseen, students)
            students += len(unseen.sequences.students())
        logits, concept, correct, exposure, student = (torch.cat(column) for column in zip(*rows, strict=True))
        logits, exposure = self.team.sum(logits), self.team.sum(exposure)
        weight = density_ratio(exposure, torch.ones_like(correct, dtype=torch.bool), self.options.clip, True).value
        self.targeting = Targeting(logits, concept, correct, weight, student, self.model.n_concepts)
        self.imputation.stack = self.targeting.fit()

    def _told(self, imputation: Imputation, unseen: Unseen, first: int) -> Iterator[tuple[Tensor, ...]]:
        """What imputation models say of logged answers, with concept, answer, exposure and student, batch by batch.

        Students are numbered from the `first`. Of what the models say, each of a team has its share, and else noughts.
        """
        device, sequences, readers = device_of(self.model), unseen.sequences, self._new_readers()
        scored, student = sequences.scored, first + sequences.student_of_scored()
        for part in sequences.batches(BATCH):
            share = readers.sharing(part.to(device))
            whole, batch = share.whole, share.batch
            number = torch.searchsorted(scored, part.place[part.scored])  # type: ignore[index]
            if unseen.logits is None:
                logits = imputation.of_observed(readers.imputation.read(batch), batch)[batch.scored]
            else:
                logits = unseen.logits[number[share.own.cpu()]].to(device)
            exposure = torch.ones_like(logits[:, 0])
            if self.options.weighs("imputation"):
                exposure = self._exposure(batch, self._state(batch, readers.model.read(batch), readers))[batch.scored]
            concept, correct = whole.concept[whole.scored], whole.correct[whole.scored]
            yield share.spread(logits), concept, correct, share.spread(exposure), student[number].to(device)

    def step(self, batch: Batch) -> float:
        """Update the imputation and the propensity model, then the backbone.

        Weights are taken once, from the propensity model as the batches before this one have taught it. The two
        auxiliary models share no parameter, so that one pass back serves both. A worker goes by its share of the batch:
        its losses are sums over that, by how much there is of the whole, and add up to those of the whole.
        """
        readers = self._readers = self._new_readers() if batch.after is None else self._readers
        share = readers.sharing(batch)
        steps, batch = batch.scored.sum().clamp(min=1), share.batch
        scored = batch.scored
        history, logits = readers.model.follow(batch)
        equal = scored.to(logits.dtype)
        state = None if self.propensity is None else self._state(batch, history, readers)
        inverse = equal if state is None else self._weights(batch, state)
        if self.options.joint and "auxiliary" in self.optimisers:
            loss = equal.new_zeros(())
            if self.imputation is not None and self.imputation.learned is not None:
                weights = inverse if self.options.weighs("imputation") else equal
                loss = loss + self._imputation_loss(self.imputation.learned, share, logits, weights)
            of_scored = share_of(scored, share.whole.scored)
            if self.propensity is not None and state is not None and of_scored:
                told = self.propensity.loss(state, batch.concept, scored, self.options.negatives, self.team)
                loss = loss + of_scored * told
            self.update("auxiliary", loss)
        weights = inverse if self.options.weighs("kt") else equal
        errors = binary_cross_entropy_with_logits(logits, batch.correct.to(logits.dtype), reduction="none")
        observed = (weights * errors).sum() / steps
        loss = observed + _penalty(self.model, share)
        if self.imputation is not None:
            loss = loss + self.options.alpha * self._imputed(self.imputation, share, history, weights)
        if self.options.smooth == "kt":
            loss = loss + self.options.smoothness * smoothness(self.model, history, share, self.options.cells)
        self.update("model", loss)
        return float(observed.detach())

    @torch.no_grad()
    def loss_beyond_answers(self, validation: Sequences) -> float:
        """α times how far the backbone is from what is imputed, over cells of the validation students.

        The same cells every time. It is the divergence, which is ê but for what is uncertain in the pseudo-answers
        themselves. Nothing where all that imputes still learns: to be close to what moves tells nothing.
        """
        if self.imputation is None or not self.imputation.fitted:
            return 0.0
        self.model.eval()
        device, kind = device_of(self.model), self.options.imputation_loss
        total = steps = 0.0
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            torch.manual_seed(0)
            readers = self._new_readers()
            for whole in validation.batches(BATCH):
                share = readers.sharing(whole.to(device))
                batch = share.batch
                cells = draw_cells(share.whole.scored, self.model.n_concepts, VALIDATION_CELLS).of(share)
                pseudo = self.imputation.answer(readers.imputation.read(batch), cells.concept, steps=cells.steps)
                logits = self.model.answer(readers.model.read(batch), cells.concept, steps=cells.steps)
                divergence = imputed_error(logits, pseudo, kind) - imputed_error(pseudo, pseudo, kind)
                scored = float(whole.scored.sum())
                total, steps = total + scored * float(cells.mean(divergence)), steps + scored
        total = float(self.team.sum(torch.tensor(total, dtype=torch.double)))
        return self.options.alpha * total / max(steps, 1.0)

    def models(self) -> dict[str, nn.Module]:
        """The backbone and those beside it."""
        models = {
            "model": self.model,
            "imputation": None if self.imputation is None else self.imputation.learned,
            "propensity": self.propensity,
            "reference": self.reference,
        }
        return {name: model for name, model in models.items() if model is not None}

    def to(self, device: torch.device) -> Self:
        """With the models that only impute."""
        for model in [] if self.imputation is None else self.imputation.fitted:
            model.to(device)
        return super().to(device)

    def state(self) -> dict[str, Any]:
        """All that must be kept, the stack too: it is not fitted before every epoch."""
        stack = None if self.imputation is None else vars(self.imputation.stack)
        return {**super().state(), "epoch": self.epoch, "stack": stack}

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from what `state` gave; a frozen propensity model brings the backbone that it was frozen with."""
        if "reference" in state["models"]:
            self.reference = copy.deepcopy(self.model).eval()
        super().load_state(state)
        self.epoch = state["epoch"]
        if self.imputation is not None:
            self.imputation.stack = Stack(**state["stack"])

    @torch.no_grad()
    def over_all_cells(self, sequences: Sequences, size: int) -> Iterator[tuple[Batch, AllCells]]:
        """What the models say, at this point of training, of every concept at every step, batch by batch."""
        for model in self.models().values():
            model.eval()
        device, readers = device_of(self.model), self._new_readers()
        for batch in sequences.batches(size):
            yield batch.to(device), self._of_all_cells(batch.to(device), readers)

    def _of_all_cells(self, batch: Batch, readers: "_Readers") -> AllCells:
        every = torch.arange(self.model.n_concepts, device=batch.mask.device).expand(*batch.mask.shape, -1)
        history = readers.model.read(batch)
        logits = self.model.answer(history, every)
        propensity = torch.full_like(logits, 1 / self.model.n_concepts)
        if self.propensity is not None:
            weight = clipped_ratio(self.propensity.of_all(self._state(batch, history, readers)), self.options.clip)
            propensity = 1 / (self.model.n_concepts * weight)
        if self.imputation is None:
            return AllCells(logits, propensity, torch.zeros_like(logits), None)
        past = readers.imputation.read(batch)
        imputed = imputed_error(logits, self.imputation.answer(past, every), self.options.imputation_loss)
        learned = self.imputation.learned
        step = None if learned is None else float(smoothness(learned, past[-1], Share.all_of(batch), "all"))
        return AllCells(logits, propensity, imputed, step)

    def _imputation_loss(self, model: AnyBackbone, share: Share, logits: Tensor, weights: Tensor) -> Tensor:
        assert self.imputation is not None
        model.train()
        lesson = replace(share, batch=self.imputation.lesson(share.batch))
        history, imputation = self._readers.lesson.follow(lesson.batch)
        losses = imputation_losses(imputation, logits, lesson.batch.correct, self.options.imputation_loss)
        loss = (weights * losses).sum() / share.whole.scored.sum().clamp(min=1) + _penalty(model, lesson)
        if self.options.smooth == "imputation":
            loss = loss + self.options.smoothness * smoothness(model, history, share, self.options.cells)
        return loss

    def _imputed(self, imputation: Imputation, share: Share, history: object, weights: Tensor) -> Tensor:
        """mean ê over all cells, less, with the full gradient, the mean of w ê over observed steps."""
        kind = self.options.imputation_loss
        batch, scored = share.batch, share.whole.scored
        with self.team.together():
            drawn = draw_cells(scored, self.model.n_concepts, self.options.cells)
            question, asked = (None if one is None else share.of(one) for one in self._questions(drawn.concept))
        cells = drawn.of(share)
        past = self._readers.imputation.read(batch)
        pseudo = imputation.answer(past, cells.concept, question, cells.steps)
        logits = self.model.answer(history, cells.concept, asked, cells.steps)
        mean = cells.mean(imputed_error(logits, pseudo, kind))
        if self.options.correction == "stopped":
            return mean
        observed = batch.concept[..., None]
        pseudo = imputation.answer(past, observed)
        imputed = imputed_error(self.model.answer(history, observed), pseudo, kind).squeeze(-1)
        return mean - (weights * imputed).sum() / scored.sum().clamp(min=1)

    def _questions(self, concept: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Questions of concepts, drawn evenly, that imputation answers for; and those that the backbone is asked.

        Asked for the concept, the backbone learns the mean over its questions.
        """
        if self.options.ask == "concept":
            return None, None
        assert self.questions is not None
        question = self.questions.draw(concept)
        if self.options.ask == "question":
            return question, question
        return question, question.where(torch.rand(question.shape, device=question.device) < 0.5, UNKNOWN_QUESTION)

    @torch.no_grad()
    def _weights(self, batch: Batch, state: Tensor) -> Tensor:
        """w [B, T], 0 at steps that are not scored, from the state that the propensity model reads."""
        exposure = self._exposure(batch, state)
        return density_ratio(exposure, batch.scored, self.options.clip, self.options.self_normalise, self.team).value

    def _exposure(self, batch: Batch, state: Tensor) -> Tensor:
        """|C| p̂ [B, T] of what was logged: known, or as the propensity model has it."""
        if batch.exposure is not None:
            return batch.exposure
        assert self.propensity is not None
        exposure = self.model.n_concepts * self.propensity(state, batch.concept)
        if self.options.by_question and self.questions is not None:
            exposure = exposure * self.questions.frequency(batch.concept, batch.question)
        return exposure

    def _state(self, batch: Batch, history: object, readers: "_Readers") -> Tensor:
        """What the propensity model reads: the summary by the backbone, or by the one that it was frozen with."""
        if self.reference is None:
            return self.model.summary(history)
        return self.reference.summary(readers.reference.read(batch))

    def _new_readers(self) -> "_Readers":
        learned = None if self.imputation is None else self.imputation.learned
        beside = (one or self.model for one in (self.imputation, learned, self.reference))  # as if there were no other
        return _Readers(Sharing(self.team), Reader(self.model), *(Reader[Any](one) for one in beside))


class _Readers(NamedTuple):
    """What reads batches one after the other: the backbone, all that imputes, what learns to, and the reference.

    They read a worker's share of them.
    """

    sharing: Sharing
    model: Reader[Any]
    imputation: Reader[Any]
    lesson: Reader[Any]
    reference: Reader[Any]


def _penalty(model: AnyBackbone, share: Share) -> Tensor:
    """What a worker's share of a batch adds to the model's penalty of it."""
    part = model.penalty_share(share.batch, share.whole)
    return part * model.penalty(share.batch) if part else torch.zeros((), device=share.batch.mask.device)


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
