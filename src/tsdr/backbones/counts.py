"""Counts: a logistic model of what a student got right and wrong so far, fitted to its optimum at once."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import one_hot

from tsdr.backbones.contract import Backbone, Reader, only_if, register_backbone
from tsdr.backbones.counting import (
    AT_ONCE,
    HALF_LIVES,
    Beginners,
    CountsHistory,
    Tally,
    added_up,
    overall_of,
    right_and_wrong,
    without_events,
)
from tsdr.backbones.logistic import APART, PRICE, ROUGHLY, Order, Term, fit_logistic
from tsdr.devices import device_of
from tsdr.lessons import Lessons
from tsdr.pairs import Pairs
from tsdr.sequences import SKIPPED, Batch, Sequences

FREE_RIGHT, FREE_WRONG = 15, 12  # up to so many answers in a concept, each pair of numbers has an effect of its own
REPRESENTATIVES = 7  # questions that stand for all of a concept
LEAST = 1e-30  # a success, or failure, that is as good as none
# How strongly effects are shrunk: those that all concepts share hardly, the others as the answers ask for.
HARDLY = 1e-3
SHRUNK = ("cross", "concept.weight", "concept_slope.weight", "free.weight", "question.weight")
PREPARED_AT_ONCE = 256
OFTEN = 20  # answers to learn from, from which on a concept's mastery is to move the right way
# What a skip counts for is a multiple of 1 / 128: sums of such parts are exact, in whatever order, and so not one bit
# of what is known before a step depends on what comes after it.
GRAINS = 128


class _Rows(NamedTuple):
    """Answers, a row each, with what they are explained by."""

    concept: NDArray[np.int64]
    question: NDArray[np.int64]
    correct: NDArray[np.int64]
    in_concept: NDArray[np.float64]
    pair: NDArray[np.int64]
    overall: NDArray[np.float64]
    at_question: NDArray[np.float64]

    @classmethod
    def of(cls, parts: Iterable[tuple[NDArray[Any], ...]]) -> "_Rows":
        """Put together of parts of them."""
        return cls(*map(np.concatenate, zip(*parts, strict=True)))


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

    Logs tell little of first answers, and what they tell of later ones would let some of them move mastery the wrong
    way: right ones down, wrong ones up. So that has its price, in `prepare` and in training.

    With `skips`, an offer that was turned down counts like an answer, of two further kinds: as too easy, by the success
    that was to be expected of it, and as too hard, by what is left of that. Expected is what a first fit, that does not
    know why offers are turned down, has to say by the question and by what was answered in the concept.
    """

    fits_itself = True
    linear = True
    can_read_skips = True
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
    often: Tensor
    expected: Tensor

    def __init__(self, n_concepts: int, n_questions: int, *, skips: bool = False) -> None:
        super().__init__(n_concepts, n_questions)
        self.options = only_if(skips)
        self.kinds = 4 if skips else 2
        overall = self.kinds * (1 + len(HALF_LIVES)) + 3
        self.bias = nn.Parameter(torch.zeros(()))
        self.concept = nn.Embedding(n_concepts, 1)
        self.slope, self.concept_slope = nn.Parameter(torch.zeros(self.kinds)), nn.Embedding(n_concepts, self.kinds)
        self.free = nn.Embedding((FREE_RIGHT + 1) * (FREE_WRONG + 1), 1)
        self.overall, self.cross = (nn.Parameter(torch.zeros(*n, overall)) for n in ((), (self.kinds,)))
        self.question = nn.Embedding(n_questions + 1, 1, padding_idx=n_questions)
        self.question_slope = nn.Parameter(torch.zeros(self.kinds))
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
        self.register_buffer("often", torch.zeros(0, dtype=torch.long), persistent=False)
        self.register_buffer("ease_of_concept", self.concept.weight.detach()[:, 0].clone())
        self.register_buffer("ease_of_question", self.question.weight.detach()[:, 0].clone())
        if skips:
            self.register_buffer("expected", torch.zeros(3))

    def encode(self, batch: Batch) -> CountsHistory:
        """The events, and what is known of the student before each step."""
        sums = self.kinds * (1 + len(HALF_LIVES)) + 2
        running = torch.zeros(batch.mask.shape[0], sums, device=batch.mask.device)
        return self.go_on(without_events(running, None, None), batch)

    def go_on(self, past: CountsHistory, batch: Batch) -> CountsHistory:
        """The same, on top of what came earlier."""
        told = self._told_by(past, batch)
        eased = told[..., :2] * self._ease(batch.concept, batch.question)[..., None]
        sums = [past.running[:, None]]
        for part, ease in zip(told.split(AT_ONCE, 1), eased.split(AT_ONCE, 1), strict=True):
            sums.append(added_up(sums[-1][:, -1:], part, ease))
        known = torch.cat(sums, 1)
        length = batch.mask.sum(1)
        end = known.gather(1, length[:, None, None].expand(-1, 1, known.shape[-1])).squeeze(1)
        now = batch.concept, torch.where(batch.question < 0, self.n_questions, batch.question), told
        earlier = past.concept, past.question, past.told
        concept, question, told = (torch.cat(both, 1) for both in zip(earlier, now, strict=True))
        by_concept = Tally.of(concept, told, past.by_concept.table)
        at_question = told * (question < self.n_questions)[..., None]
        by_question = Tally.of(question, at_question, past.by_question.table)
        return CountsHistory(concept, question, told, length, overall_of(known), end, by_concept, by_question)

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
        return self.logits(history, concept, question, steps)

    def logits(
        self,
        history: CountsHistory,
        concept: Tensor,
        question: Tensor | None,
        steps: Tensor,
        beside: Tensor | float = 0.0,
        at_question: Tensor | float = 0.0,
    ) -> Tensor:
        """The same, with what else is known of a concept, and of a question, added to its logit."""
        logit = self.without_question(history, concept, steps) + beside
        if question is None:
            return self._mean_over_questions(logit, history, concept, steps)
        index = torch.where(question < 0, self.n_questions, question)
        known = (question >= 0) & self.seen[index]
        if not torch.compiler.is_exporting() and not bool(known.any()):
            return self._mean_over_questions(logit, history, concept, steps)
        of_one = logit + self._of_question(history, index, steps) + at_question
        if not torch.compiler.is_exporting() and bool(known.all()):
            return of_one
        return torch.where(known, of_one, self._mean_over_questions(logit, history, concept, steps))

    def summary(self, history: CountsHistory) -> Tensor:
        """What is known of the student overall, before each step."""
        return history.overall[:, :-1].detach()

    def append(self, history: CountsHistory, concept: Tensor, question: Tensor, response: Tensor) -> CountsHistory:
        """One more answer in the tables: the cost does not grow with the history."""
        state = self.state_of(history)
        rows = torch.arange(concept.shape[0], device=concept.device)
        told = self._told(concept, question, response, state["by_concept"][rows, concept, :2])
        asked = torch.where(question < 0, self.n_questions, question)
        eased = told[:, :2] * self._ease(concept, question)[:, None]
        at_question = told * (question >= 0)[:, None]
        return self.from_state(
            {
                "running": added_up(state["running"][:, None], told[:, None], eased[:, None])[:, 0],
                "by_concept": state["by_concept"].index_put((rows, concept), told, accumulate=True),
                "by_question": state["by_question"].index_put((rows, asked), at_question, accumulate=True),
            }
        )

    def state_of(self, history: CountsHistory) -> dict[str, Tensor]:
        """The running sums, and what was told in tables: by concept, and by question."""
        told = history.told
        rows = torch.arange(told.shape[0], device=told.device)[:, None].expand(told.shape[:2])

        def table(tally: Tally, size: int, thing: Tensor, counted: Tensor) -> Tensor:
            before = told.new_zeros(told.shape[0], size, self.kinds) if tally.table is None else tally.table
            return before.index_put((rows, thing), counted, accumulate=True) if thing.shape[1] else before

        at_question = told * (history.question < self.n_questions)[..., None]
        return {
            "running": history.running,
            "by_concept": table(history.by_concept, self.n_concepts, history.concept, told),
            "by_question": table(history.by_question, self.n_questions + 1, history.question, at_question),
        }

    def from_state(self, state: Mapping[str, Tensor]) -> CountsHistory:
        """The same, with no events left."""
        return without_events(state["running"], state["by_concept"], state["by_question"])

    def steps_of(self, history: CountsHistory) -> int:
        """The steps of the history."""
        return history.overall.shape[1] - 1

    def penalty(self, batch: Batch) -> Tensor:
        """The shrinkage, for training by gradients: as much of it as in `prepare`, whose answers share it.

        And the price of first answers that move mastery the wrong way.
        """
        squares = torch.stack([self.get_parameter(name).square().sum() for name in SHRUNK])
        shrinkage = 0.5 * (self.strength * squares).sum() / self.answers.clamp(min=1)
        return shrinkage + self._price() if len(self.often) else shrinkage

    @torch.no_grad()
    def prepare(self, train: Lessons) -> None:
        """Fit every effect to the optimum on the scored answers of the training split, or of a sample that fits memory.

        Twice: how easy concepts and questions are, which the features of a student go by, is taken from a first fit
        that does not know it.
        """
        for known in (self.ease_of_concept, self.ease_of_question, *([self.expected] if self.reads_skips else [])):
            known.zero_()
        sample = train.sample()
        self._fit(sample, in_order=False)
        if self.reads_skips:
            self.expected.copy_(torch.cat([self.bias[None], self.slope[:2]]))
        self.ease_of_concept.copy_(self.concept.weight[:, 0])
        self.ease_of_question.copy_(self.question.weight[:, 0])
        self._fit(sample, in_order=True)
        self._choose_representatives(sample.pairs())

    def _fit(self, train: Sequences, *, in_order: bool) -> None:
        rows = _Rows.of(self._rows(train))
        average = rows.overall.mean(0)
        self.average.copy_(torch.from_numpy(average))
        terms = self._terms(rows, average)
        if in_order:
            times = torch.from_numpy(rows.concept).bincount(minlength=self.n_concepts)
            self.often = torch.nonzero(times >= OFTEN).flatten().to(self.bias.device)
            order = self._order(average) if len(self.often) else None
            effects, strength = fit_logistic(terms, rows.correct, order=order)
        else:
            effects, strength = fit_logistic(terms, rows.correct, tolerance=ROUGHLY)
        for name, values in effects.items():
            parameter = self.get_parameter(name)
            parameter.copy_(torch.from_numpy(values).reshape(parameter.shape))
        self.strength.copy_(torch.tensor([strength[name] for name in SHRUNK]))
        self.answers.fill_(len(rows.correct))

    def _terms(self, rows: "_Rows", average: NDArray[np.float64]) -> list[Term]:
        """What answers are explained by."""
        differs = rows.overall - average
        crossed = (rows.in_concept[:, :, None] * differs[:, None]).reshape(len(differs), -1)
        return [
            Term("bias", 0.0, np.ones((len(differs), 1))),
            Term("slope", HARDLY, rows.in_concept),
            Term("overall", HARDLY, differs),
            Term("question_slope", HARDLY, rows.at_question),
            Term("cross", 10.0, crossed, adaptive=True),
            Term("concept.weight", 1.0, None, rows.concept, self.n_concepts, adaptive=True),
            Term("concept_slope.weight", 3.0, rows.in_concept, rows.concept, self.n_concepts, adaptive=True),
            Term("free.weight", 1.0, None, rows.pair, self.free.num_embeddings, adaptive=True),
            Term("question.weight", 1.0, None, rows.question, self.n_questions + 1, adaptive=True),
        ]

    def _order(self, average: NDArray[np.float64]) -> Order:
        """What first answers are to do."""
        beginners = self.beginners()
        batch, steps = beginners
        wanted = torch.zeros_like(batch.mask).scatter_(1, steps, value=True)
        rows = _Rows.of([self._columns(batch, self.encode(batch), wanted)])
        number = np.arange(len(rows.correct)).reshape(*steps.shape)
        before, after = np.broadcast_arrays(number[:, :1], number[:, 1:])
        right = beginners.right.cpu().numpy()
        less, more = (np.where(right, *pair).ravel() for pair in ((before, after), (after, before)))
        return Order(self._terms(rows, average), less, more)

    def _price(self) -> Tensor:
        """What it costs that they do not."""
        beginners = self.beginners()
        history = self.encode(beginners.batch)
        gain = beginners.gain(self.without_question(history, beginners.target, beginners.steps))
        return 0.5 * PRICE * (APART - gain).relu().square().mean()

    def beginners(self) -> Beginners:
        """Those who begin in a concept that there is enough of."""
        return Beginners.of(self.often)

    def _rows(self, train: Sequences) -> Iterator[tuple[NDArray[Any], ...]]:
        """The scored answers, in batches, so that nothing is held of steps and concepts that are not asked for."""
        device, reader = device_of(self), Reader(self)
        for batch in train.batches(PREPARED_AT_ONCE):
            there = batch.to(device)
            yield self._columns(there, reader.read(there), there.scored)

    def _columns(self, batch: Batch, history: CountsHistory, wanted: Tensor) -> tuple[NDArray[Any], ...]:
        """What `_Rows` have of the wanted answers of a batch."""
        steps = torch.arange(batch.mask.shape[1], device=batch.mask.device).expand(len(batch), -1)
        question = torch.where(batch.question < 0, self.n_questions, batch.question)
        counted = self._counted(history, batch.concept[..., None], steps, "concept")[:, :, 0]
        asked = self._counted(history, question[..., None], steps, "question")[:, :, 0]
        columns = (
            batch.concept,
            question,
            batch.correct,
            counted.log1p().double(),
            _pair(counted),
            history.overall[:, :-1].double(),
            asked.log1p().double(),
        )
        return tuple(column[wanted].cpu().numpy() for column in columns)

    @torch.no_grad()
    def ease(self) -> Tensor:
        """How much easier a question is than its concept's are on average, as a logit; 0 where that is unknown."""
        average = (self.weight * (self.question(self.representative).squeeze(-1) + self.beside)).sum(1)
        return torch.where(self.seen, self.question.weight[:, 0] - average[self.concept_of], 0.0)[: self.n_questions]

    @torch.no_grad()
    def worth(self, right: int, wrong: int) -> Tensor:
        """What the first so many answers in a concept change, as a logit, for each concept."""
        every = torch.arange(self.n_concepts, device=self.bias.device)
        answered = torch.zeros(self.n_concepts, self.kinds, device=self.bias.device)
        answered[:, 0], answered[:, 1] = right, wrong
        return self._of_concept(every, answered) - self._of_concept(every, torch.zeros_like(answered))

    def _ease(self, concept: Tensor, question: Tensor) -> Tensor:
        """How easy questions are, as far as it was known before anything of a student was."""
        index = torch.where(question < 0, self.n_questions, question)
        return self.ease_of_concept[concept] + self.ease_of_question[index]

    def _told_by(self, past: CountsHistory, batch: Batch) -> Tensor:
        """What the events of a batch count for [B, T, N], after a past."""
        answer = right_and_wrong(torch.where(batch.mask, batch.response, -1))
        if not self.reads_skips:
            return answer
        concept = torch.cat([past.concept, batch.concept], 1)
        table = past.by_concept.table
        tally = Tally.of(concept, torch.cat([past.told[..., :2], answer], 1), None if table is None else table[..., :2])
        steps = past.concept.shape[1] + torch.arange(batch.mask.shape[1], device=concept.device)
        before = tally.before(batch.concept[..., None], steps.expand(len(batch), -1))[:, :, 0]
        return self._told(batch.concept, batch.question, torch.where(batch.mask, batch.response, -1), before)

    def _told(self, concept: Tensor, question: Tensor, response: Tensor, before: Tensor) -> Tensor:
        """What events [...] count for [..., N], with what was answered in the concept before [..., 2]."""
        answer = right_and_wrong(response)
        if not self.reads_skips:
            return answer
        known = (before.log1p() * self.expected[1:]).sum(-1)
        success = (self.expected[0] + self._ease(concept, question) + known).sigmoid()
        easy = (success * GRAINS).round() / GRAINS
        skipped = (response == SKIPPED).float()
        return torch.cat([answer, torch.stack([skipped * easy, skipped * (1 - easy)], -1)], -1)

    def without_question(self, history: CountsHistory, concept: Tensor, steps: Tensor) -> Tensor:
        """The logit [B, M, K] of concepts before steps, as far as it does not depend on the question."""
        counted = self._counted(history, concept, steps, "concept")
        differs = self._at(history, steps) - self.average
        of_student = (differs @ self.overall)[:, :, None]
        in_concept = (counted.log1p() * (differs @ self.cross.T)[:, :, None]).sum(-1)
        return self._of_concept(concept, counted) + of_student + in_concept

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
        each, weight = logit[..., None] + of_each + self.beside[concept], self.weight[concept]
        right, wrong = ((weight * sign.sigmoid()).sum(-1).clamp(min=LEAST).log() for sign in (each, -each))
        return right - wrong

    def _counted(self, history: CountsHistory, target: Tensor, steps: Tensor, by: str) -> Tensor:
        """What was told [B, M, K, N] of target concepts, or questions, before their steps."""
        tally = history.by_concept if by == "concept" else history.by_question
        earlier = history.concept.shape[1] - self.steps_of(history)
        return tally.before(target, earlier + torch.minimum(steps, history.length[:, None]))

    def _at(self, history: CountsHistory, steps: Tensor) -> Tensor:
        """What is known of the student [B, M, F] before steps [B, M]."""
        at = torch.minimum(steps, history.length[:, None])
        return history.overall.gather(1, at[..., None].expand(-1, -1, history.overall.shape[-1]))

    def _choose_representatives(self, answered: Pairs) -> None:
        """Questions that stand for all of a concept: every one of few, or those at quantiles of their effects.

        Where one stands for several, it does so with their mean effect: what its own is `beside` that is added.
        """
        pairs = torch.stack([answered.concept, answered.question], -1)[answered.question >= 0]
        self.seen.fill_(False)
        self.seen[pairs[:, 1]] = True
        self.concept_of[pairs[:, 1]] = pairs[:, 0]
        self.representative.fill_(self.n_questions)
        self.weight.zero_()
        self.weight[:, 0] = 1
        self.beside.zero_()
        effect = self.question.weight[:, 0].cpu()
        _, number, sizes = pairs[:, 0].unique(return_inverse=True, return_counts=True)
        alone = sizes[number] == 1
        self.representative[pairs[alone, 0], 0] = pairs[alone, 1]
        several = pairs[~alone]
        concepts, sizes = several[:, 0].unique(return_counts=True)
        for concept, questions in zip(concepts.tolist(), several[:, 1].split(sizes.tolist()), strict=True):
            in_order = questions[effect[questions].argsort(stable=True)].numpy()
            groups = np.array_split(in_order, min(REPRESENTATIVES, len(in_order)))
            for place, group in enumerate(groups):
                middle = int(group[len(group) // 2])
                self.representative[concept, place] = middle
                self.beside[concept, place] = effect[group].mean() - effect[middle]
                self.weight[concept, place] = len(group) / len(in_order)


def _pair(counted: Tensor) -> Tensor:
    """The number of a pair of right and wrong answers [..., 2], of which there are so many at most."""
    right, wrong = counted[..., :2].long().unbind(-1)
    return right.clamp(max=FREE_RIGHT) * (FREE_WRONG + 1) + wrong.clamp(max=FREE_WRONG)
