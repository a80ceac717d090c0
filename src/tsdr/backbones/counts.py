"""Counts: a logistic model of what a student got right and wrong so far, fitted to its optimum at once."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import logsigmoid, one_hot

from tsdr.backbones.contract import Backbone, register_backbone
from tsdr.backbones.logistic import CLOSELY, ROUGHLY, Term, fit_logistic
from tsdr.devices import device_of
from tsdr.sequences import Batch, Sequences

HALF_LIVES = (2.0, 8.0, 30.0)  # of forgotten counts, in answers
FREE_RIGHT, FREE_WRONG = 15, 12  # up to so many answers in a concept, each pair of numbers has an effect of its own
REPRESENTATIVES = 7  # questions that stand for all of a concept
UNLIKELY = -1e4  # the logarithm of a weight that is none
# How strongly effects are shrunk: those that all concepts share hardly, the others as the answers ask for.
HARDLY = 1e-3
SHRUNK = ("cross", "concept.weight", "concept_slope.weight", "free.weight", "question.weight")
PREPARED_AT_ONCE = 256


@dataclass(frozen=True)
class CountsHistory:
    """What of the past can still be counted, and what has been counted already.

    Events [B, T] are those that were encoded; `overall` [B, T + 1, F] has what is known of the student before each
    step. Answers that were appended one by one are in the tables of right and wrong answers by concept [B, C, 2] and by
    question [B, Q, 2], and so are the events that came before them: such a history answers for its latest step only,
    and does not grow. `running` [B, 4 + 2 half-lives] are the sums that `overall` is made of, as they stand at the end.
    """

    concept: Tensor
    question: Tensor
    response: Tensor
    length: Tensor
    overall: Tensor
    running: Tensor
    by_concept: Tensor | None = None
    by_question: Tensor | None = None


@register_backbone("counts")
class Counts(Backbone[CountsHistory]):
    """A logistic regression on counts, of the kind of Best-LR (Gervet et al., 2020), with forgotten counts.

    logit = b + b_c + (w + w_c) · [log(1 + right), log(1 + wrong) in the concept]
            + a free effect of every pair of numbers, right and wrong, up to 15 and 12
            + (v + X [log(1 + right), log(1 + wrong) in the concept]) · s
            + b_q + u · [log(1 + right), log(1 + wrong) at the question]

    where s is how the student differs overall from the average of the training split in [log(1 + right), log(1 +
    wrong), log(1 + forgotten right and wrong), share right, and how easy what was right and what was wrong was on
    average], and an answer counts 2^(-k / h) towards a forgotten count after k more, for half-lives h of 2, 8 and 30.
    What a student is like overall says more of a concept without answers than of one with many, hence X. Effects of
    concepts, questions and single counts, and X, are shrunk, as strongly as the answers ask for. `prepare` fits them to
    the optimum on the training split, by L-BFGS on all of it. A target
    without a question, or with one that was not in the training split, has the mean success over the concept's
    questions (over 7 of them, by quantiles of their effects): no average question, and no matter which of them the log
    shows most often.
    """

    fits_itself = True
    seen: Tensor
    representative: Tensor
    beside: Tensor
    weight: Tensor
    concept_of: Tensor
    answers: Tensor
    strength: Tensor
    ease_of_concept: Tensor
    ease_of_question: Tensor
    average: Tensor

    def __init__(self, n_concepts: int, n_questions: int) -> None:
        super().__init__(n_concepts, n_questions)
        overall = 5 + 2 * len(HALF_LIVES)
        self.bias = nn.Parameter(torch.zeros(()))
        self.concept = nn.Embedding(n_concepts, 1)
        self.slope, self.concept_slope = nn.Parameter(torch.zeros(2)), nn.Embedding(n_concepts, 2)
        self.free = nn.Embedding((FREE_RIGHT + 1) * (FREE_WRONG + 1), 1)
        self.overall, self.cross = nn.Parameter(torch.zeros(overall)), nn.Parameter(torch.zeros(2, overall))
        self.question = nn.Embedding(n_questions + 1, 1, padding_idx=n_questions)
        self.question_slope = nn.Parameter(torch.zeros(2))
        with torch.no_grad():
            for effects in self.parameters():
                effects.normal_(0, 0.1)  # `prepare` finds better ones
            self.question.weight[n_questions] = 0
        self.register_buffer("seen", torch.ones(n_questions + 1, dtype=torch.bool))
        self.register_buffer("representative", torch.full((n_concepts, REPRESENTATIVES), n_questions))
        self.register_buffer("beside", torch.zeros(n_concepts, REPRESENTATIVES))
        self.register_buffer("weight", one_hot(torch.zeros(n_concepts, dtype=torch.long), REPRESENTATIVES).float())
        self.register_buffer("concept_of", torch.zeros(n_questions + 1, dtype=torch.long))
        self.register_buffer("answers", torch.zeros((), dtype=torch.long))
        self.register_buffer("strength", torch.ones(len(SHRUNK)))
        self.register_buffer("average", torch.zeros(overall))
        self.register_buffer("ease_of_concept", self.concept.weight.detach()[:, 0].clone())
        self.register_buffer("ease_of_question", self.question.weight.detach()[:, 0].clone())

    def encode(self, batch: Batch) -> CountsHistory:
        """The events, and what is known of the student before each step."""
        right = ((batch.response == 1) & batch.mask).float()
        wrong = ((batch.response == 0) & batch.mask).float()
        steps = batch.mask.shape[1]
        at = torch.arange(steps + 1, device=batch.mask.device)
        ago = at[:, None] - 1 - at[None, :steps]  # [T + 1, T]
        decay = torch.stack([_remembered(ago, half_life) for half_life in (math.inf, *HALF_LIVES)])
        answer = torch.stack([right, wrong], -1)
        sums = torch.einsum("hts,bsr->bthr", decay, answer).flatten(2)
        eased = torch.einsum("ts,bsr->btr", decay[0], answer * self._ease(batch.concept, batch.question)[..., None])
        sums = torch.cat([sums, eased], -1)
        length = batch.mask.sum(1)
        running = sums.gather(1, length[:, None, None].expand(-1, 1, sums.shape[-1])).squeeze(1)
        return CountsHistory(batch.concept, batch.question, batch.response, length, _overall(sums), running)

    def retrieve(
        self, history: CountsHistory, concept: Tensor, question: Tensor | None = None, steps: Tensor | None = None
    ) -> Tensor:
        """Counts in the concept, and what is known of the student overall: all that is asked of the past."""
        if steps is None:
            steps = torch.arange(self.steps_of(history), device=concept.device).expand(concept.shape[0], -1)
        overall = self._at(history, steps)[:, :, None].expand(-1, -1, concept.shape[2], -1)
        return torch.cat([self._counted(history, concept, steps, "concept").log1p(), overall], -1)

    def answer_rows(self, history: CountsHistory, concept: Tensor, question: Tensor | None, steps: Tensor) -> Tensor:
        """The logit of a question, or of the mean success over those of the concept."""
        counted = self._counted(history, concept, steps, "concept")
        differs = self._at(history, steps) - self.average
        of_student = (differs @ self.overall)[:, :, None]
        in_concept = (counted.log1p() * (differs @ self.cross.T)[:, :, None]).sum(-1)
        logit = self._of_concept(concept, counted) + of_student + in_concept
        of_all = self._mean_over_questions(logit, history, concept, steps)
        if question is None:
            return of_all
        index = torch.where(question < 0, self.n_questions, question)
        of_one = logit + self._of_question(history, index, steps)
        return torch.where((question >= 0) & self.seen[index], of_one, of_all)

    def summary(self, history: CountsHistory) -> Tensor:
        """What is known of the student overall, before each step."""
        return history.overall[:, :-1].detach()

    def append(self, history: CountsHistory, concept: Tensor, question: Tensor, response: Tensor) -> CountsHistory:
        """One more answer in the tables: the cost does not grow with the history."""
        if history.by_concept is None or history.by_question is None:
            history = self._folded(history)
        assert history.by_concept is not None
        assert history.by_question is not None
        answer = torch.stack([response == 1, response == 0], -1).float()
        rows = torch.arange(len(concept), device=concept.device)
        asked = torch.where(question < 0, self.n_questions, question)
        decay = [_remembered(torch.ones(()), half_life) for half_life in (math.inf, *HALF_LIVES)]
        fades = torch.stack(decay).to(concept.device).repeat_interleave(2)
        at_question = answer * (question >= 0)[:, None]
        new = torch.cat([answer.repeat(1, 1 + len(HALF_LIVES)), answer * self._ease(concept, question)[:, None]], -1)
        running = history.running * torch.cat([fades, fades.new_ones(2)]) + new
        return replace(
            history,
            length=history.length + 1,
            overall=_overall(running[:, None]),
            running=running,
            by_concept=history.by_concept.index_put((rows, concept), answer, accumulate=True),
            by_question=history.by_question.index_put((rows, asked), at_question, accumulate=True),
        )

    def steps_of(self, history: CountsHistory) -> int:
        """The steps of the history."""
        return history.overall.shape[1] - 1

    def penalty(self, batch: Batch) -> Tensor:
        """The shrinkage, for training by gradients: as much of it as in `prepare`, whose answers share it."""
        squares = torch.stack([self.get_parameter(name).square().sum() for name in SHRUNK])
        return 0.5 * (self.strength * squares).sum() / self.answers.clamp(min=1)

    @torch.no_grad()
    def prepare(self, train: Sequences) -> None:
        """Fit every effect to the optimum on the scored answers of the training split.

        Twice: how easy concepts and questions are, which the features of a student go by, is taken from a first fit
        that does not know it.
        """
        self.ease_of_concept.zero_()
        self.ease_of_question.zero_()
        self._fit(train, ROUGHLY)
        self.ease_of_concept.copy_(self.concept.weight[:, 0])
        self.ease_of_question.copy_(self.question.weight[:, 0])
        self._fit(train)
        self._choose_representatives(train)

    def _fit(self, train: Sequences, tolerance: float = CLOSELY) -> None:
        parts = zip(*self._rows(train), strict=True)
        concept, question, correct, in_concept, pair, overall, at_question = map(np.concatenate, parts)
        self.average.copy_(torch.from_numpy(overall.mean(0)))
        differs = overall - overall.mean(0)
        crossed = (in_concept[:, :, None] * differs[:, None]).reshape(len(correct), -1)
        terms = [
            Term("bias", 0.0, np.ones((len(correct), 1))),
            Term("slope", HARDLY, in_concept),
            Term("overall", HARDLY, differs),
            Term("question_slope", HARDLY, at_question),
            Term("cross", 10.0, crossed, adaptive=True),
            Term("concept.weight", 1.0, None, concept, self.n_concepts, adaptive=True),
            Term("concept_slope.weight", 3.0, in_concept, concept, self.n_concepts, adaptive=True),
            Term("free.weight", 1.0, None, pair, self.free.num_embeddings, adaptive=True),
            Term("question.weight", 1.0, None, question, self.n_questions + 1, adaptive=True),
        ]
        effects, strength = fit_logistic(terms, correct, tolerance=tolerance)
        for name, values in effects.items():
            parameter = self.get_parameter(name)
            parameter.copy_(torch.from_numpy(values).reshape(parameter.shape))
        self.strength.copy_(torch.tensor([strength[name] for name in SHRUNK]))
        self.answers.fill_(len(correct))

    def _rows(self, train: Sequences) -> Iterator[tuple[NDArray[Any], ...]]:
        """The scored answers, in batches, so that nothing is held of steps and concepts that are not asked for."""
        device = device_of(self)
        for batch in train.batches(PREPARED_AT_ONCE):
            there = batch.to(device)
            history = self.encode(there)
            steps = torch.arange(batch.mask.shape[1], device=device).expand(len(batch), -1)
            counted, asked = (
                self._counted(history, getattr(there, by)[..., None], steps, by)[:, :, 0]
                for by in ("concept", "question")
            )
            columns = (
                there.concept,
                torch.where(there.question < 0, self.n_questions, there.question),
                there.correct,
                counted.log1p().double(),
                _pair(counted),
                history.overall[:, :-1].double(),
                asked.log1p().double(),
            )
            yield tuple(column[there.scored].cpu().numpy() for column in columns)

    @torch.no_grad()
    def ease(self) -> Tensor:
        """How much easier a question is than its concept's are on average, as a logit; 0 where that is unknown."""
        average = (self.weight * (self.question(self.representative).squeeze(-1) + self.beside)).sum(1)
        return torch.where(self.seen, self.question.weight[:, 0] - average[self.concept_of], 0.0)[: self.n_questions]

    @torch.no_grad()
    def worth(self, right: int, wrong: int) -> Tensor:
        """What the first so many answers in a concept change, as a logit, for each concept."""
        every = torch.arange(self.n_concepts, device=self.bias.device)
        answered = torch.tensor([float(right), float(wrong)], device=self.bias.device).expand(self.n_concepts, 2)
        return self._of_concept(every, answered) - self._of_concept(every, torch.zeros_like(answered))

    def _ease(self, concept: Tensor, question: Tensor) -> Tensor:
        """How easy questions are, as far as it was known before anything of a student was."""
        index = torch.where(question < 0, self.n_questions, question)
        return self.ease_of_concept[concept] + self.ease_of_question[index]

    def _of_concept(self, concept: Tensor, counted: Tensor) -> Tensor:
        slopes = self.slope + self.concept_slope(concept)
        own = self.concept(concept) + self.free(_pair(counted))
        return self.bias + own.squeeze(-1) + (slopes * counted.log1p()).sum(-1)

    def _of_question(self, history: CountsHistory, question: Tensor, steps: Tensor) -> Tensor:
        counted = self._counted(history, question, steps, "question")
        return self.question(question).squeeze(-1) + counted.log1p() @ self.question_slope

    def _mean_over_questions(self, logit: Tensor, history: CountsHistory, concept: Tensor, steps: Tensor) -> Tensor:
        """The logit of the mean success over the concept's questions."""
        questions = self.representative[concept]
        of_each = self._of_question(history, questions.flatten(2), steps).view_as(questions)
        each = logit[..., None] + of_each + self.beside[concept]
        weight = self.weight[concept]
        log_weight = torch.where(weight > 0, weight.clamp(min=1e-12).log(), UNLIKELY)
        return torch.logsumexp(log_weight + logsigmoid(each), -1) - torch.logsumexp(log_weight + logsigmoid(-each), -1)

    def _counted(self, history: CountsHistory, target: Tensor, steps: Tensor, by: str) -> Tensor:
        """Right and wrong answers [B, M, K, 2] to target concepts, or questions, before their steps."""
        events = history.concept if by == "concept" else history.question
        table = history.by_concept if by == "concept" else history.by_question
        if table is not None:
            index = torch.where(target < 0, table.shape[1] - 1, target)
            return table.gather(1, index.flatten(1)[..., None].expand(-1, -1, 2)).view(*target.shape, 2)
        at = torch.minimum(steps, history.length[:, None])
        past = torch.arange(events.shape[1], device=events.device) < at[..., None]  # [B, M, T]
        same = (target[..., None] == events[:, None, None, :]) & past[:, :, None, :]
        answer = torch.stack([history.response == 1, history.response == 0], -1).float()
        return same.float() @ answer[:, None]

    def _at(self, history: CountsHistory, steps: Tensor) -> Tensor:
        """What is known of the student [B, M, F] before steps [B, M]."""
        if history.by_concept is not None:
            return history.overall[:, -1:].expand(-1, steps.shape[1], -1)
        at = torch.minimum(steps, history.length[:, None])
        return history.overall.gather(1, at[..., None].expand(-1, -1, history.overall.shape[-1]))

    def _folded(self, history: CountsHistory) -> CountsHistory:
        """The history with its events counted into the tables, and let go of."""
        students, steps = history.concept.shape
        real = torch.arange(steps, device=history.length.device) < history.length[:, None]
        answer = torch.stack([history.response == 1, history.response == 0], -1).float() * real[..., None]
        rows = torch.arange(students, device=real.device)[:, None].expand_as(real)
        asked = torch.where(history.question < 0, self.n_questions, history.question)
        at_question = answer * (history.question >= 0)[..., None]
        nothing = answer.new_zeros(students, self.n_concepts, 2), answer.new_zeros(students, self.n_questions + 1, 2)
        return replace(
            history,
            by_concept=nothing[0].index_put((rows, history.concept), answer, accumulate=True),
            by_question=nothing[1].index_put((rows, asked), at_question, accumulate=True),
        )

    def _choose_representatives(self, train: Sequences) -> None:
        """Questions that stand for all of a concept: every one of few, or those at quantiles of their effects.

        Where one stands for several, it does so with their mean effect: what its own is `beside` that is added.
        """
        batch = train.batch
        pairs = torch.stack([batch.concept, batch.question], -1)[batch.mask & (batch.question >= 0)].unique(dim=0).cpu()
        self.seen.fill_(False)
        self.seen[pairs[:, 1]] = True
        self.concept_of[pairs[:, 1]] = pairs[:, 0]
        self.representative.fill_(self.n_questions)
        self.weight.zero_()
        self.weight[:, 0] = 1
        self.beside.zero_()
        effect = self.question.weight[:, 0].cpu()
        concepts, sizes = pairs[:, 0].unique(return_counts=True)
        for concept, questions in zip(concepts.tolist(), pairs[:, 1].split(sizes.tolist()), strict=True):
            in_order = questions[effect[questions].argsort(stable=True)].numpy()
            groups = np.array_split(in_order, min(REPRESENTATIVES, len(in_order)))
            for place, group in enumerate(groups):
                middle = int(group[len(group) // 2])
                self.representative[concept, place] = middle
                self.beside[concept, place] = effect[group].mean() - effect[middle]
                self.weight[concept, place] = len(group) / len(in_order)


def _pair(counted: Tensor) -> Tensor:
    """The number of a pair of right and wrong answers [..., 2], of which there are so many at most."""
    right, wrong = counted.long().unbind(-1)
    return right.clamp(max=FREE_RIGHT) * (FREE_WRONG + 1) + wrong.clamp(max=FREE_WRONG)


def _remembered(ago: Tensor, half_life: float) -> Tensor:
    """What an answer still counts after so many more; one that is yet to come counts nothing."""
    kept = torch.ones_like(ago, dtype=torch.float) if math.isinf(half_life) else 0.5 ** (ago / half_life)
    return torch.where(ago >= 0, kept, 0.0)


def _overall(sums: Tensor) -> Tensor:
    """Features [..., F] from the sums over right and wrong answers: their numbers, forgotten numbers, and ease."""
    right, wrong = sums[..., :1], sums[..., 1:2]
    numbers, ease = sums[..., :-2], sums[..., -2:]
    return torch.cat([numbers.log1p(), (right + 1) / (right + wrong + 2), ease / (1 + sums[..., :2])], -1)
