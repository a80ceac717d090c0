"""Hybrid: what counts explain, explained by them; what is left, by a recurrent network."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tsdr.backbones.contract import Backbone, only_if, register_backbone, share_of
from tsdr.backbones.counting import CountsHistory
from tsdr.backbones.counts import Counts
from tsdr.backbones.dropout import Dropout
from tsdr.backbones.recurrent import States, at_steps, begun, end_of, ended_with, run_on, step_on
from tsdr.backbones.scored import logits_of_scored
from tsdr.lessons import Lessons
from tsdr.sequences import SKIPPED, Batch, Sequences

OF_QUESTION = 16  # numbers that are learned of a question
OFTEN = 20  # answers in the training split from which on any are
HALVINGS = 30  # of the range in which the share that holds is sought


@dataclass(frozen=True)
class HybridHistory:
    """What the counts keep, what the recurrent network keeps, and what the former expected of each answer, [B, T]."""

    base: CountsHistory
    states: States
    expected: Tensor


@register_backbone("hybrid")
class Hybrid(Backbone[HybridHistory]):
    """A logistic model of counts, and a recurrent network for what it does not explain.

    The logit of concept c at question q is that of `counts`, fitted to its optimum and held fixed, plus
    h · (u + v_c) + V h · x_q: h is the state of an LSTM over what was answered, how, and how surprising that was to
    `counts`; u, v_c and x_q, shared and of concept and question, are nought at the start. A question that the training
    split has few answers to has no x_q, which would be learned by heart. A target without a question has the mean
    success over the concept's questions, as in `counts`. Of what the network adds, the share is kept that holds for
    students whom it did not learn from: it would say too much of others. Of what it adds to a concept, so much is left
    that a student's first answers in it move mastery the right way.
    """

    linear = True
    can_read_skips = True
    often: Tensor
    holds: Tensor

    def __init__(
        self,
        n_concepts: int,
        n_questions: int,
        *,
        d: int = 64,
        dropout: float = 0.3,
        shrinkage: float = 1e-3,
        skips: bool = False,
    ) -> None:
        super().__init__(n_concepts, n_questions)
        self.options = {"d": d, "dropout": dropout, "shrinkage": shrinkage, **only_if(skips)}
        self.shrinkage = shrinkage
        self.base = Counts(n_concepts, n_questions, skips=skips).requires_grad_(False)
        self.responses = 3 if skips else 2
        self.interaction = nn.Embedding(self.responses * n_concepts, d)
        self.question = nn.Embedding(n_questions + 1, OF_QUESTION)
        self.asked = nn.Linear(OF_QUESTION, d, bias=False)
        self.surprise = nn.Linear(self.responses, d)
        self.lstm = nn.LSTM(d, d, batch_first=True)
        self.dropout = Dropout(dropout)
        self.shared = nn.Linear(d, 1)
        self.of_concept = nn.Embedding(n_concepts, d)
        self.of_question = nn.Linear(d, OF_QUESTION, bias=False)
        with torch.no_grad():
            for weights in (self.question.weight, self.of_concept.weight, *self.shared.parameters()):
                weights.zero_()
        self.register_buffer("often", torch.arange(n_questions + 1) < n_questions)
        self.register_buffer("holds", torch.ones(()))

    @torch.no_grad()
    def prepare(self, train: Lessons) -> None:
        """Fit the counts, and find the questions that there is enough of."""
        self.base.prepare(train)
        self.often.copy_(train.pairs().of_questions(self.n_questions + 1) >= OFTEN)

    @torch.no_grad()
    def settle(self, validation: Sequences) -> None:
        """The share of what the network adds that fits these answers best, none of it at the least and all at most."""
        self.holds.fill_(1)
        of_counts, of_all = (logits_of_scored(model, validation).double() for model in (self.base, self))
        added, correct = of_all - of_counts, validation.events.correct[validation.scored]
        least, most = 0.0, 1.0
        for _ in range(HALVINGS):
            middle = (least + most) / 2
            too_much = (added * ((of_counts + middle * added).sigmoid() - correct)).sum() > 0
            least, most = (least, middle) if too_much else (middle, most)
        self.holds.fill_(most)
        self._put_in_order()

    def _put_in_order(self) -> None:
        """Of what is added to a concept keep as much as leaves first answers moving its mastery the right way."""
        often, beginners = self.base.often, self.base.beginners()
        if not len(often):
            return
        history = self.encode(beginners.batch)
        base = self.base.without_question(history.base, beginners.target, beginners.steps)
        added, _ = self._beside(at_steps(history.states, beginners.steps), beginners.target, None)
        of_base, of_network = beginners.gain(base), beginners.gain(added)
        misled = (of_network < 0) & (of_base + of_network < 0)
        share = torch.where(misled, of_base.clamp(min=0) / -of_network, 1.0).amin(1)
        kept, shared = torch.minimum(*share.chunk(2))[:, None], self.shared.weight
        self.of_concept.weight[often] = kept * (shared + self.of_concept.weight[often]) - shared

    def encode(self, batch: Batch) -> HybridHistory:
        """One pass of the counts and of the LSTM over the answers."""
        nothing = batch.map(lambda tensor: tensor[:, :0] if tensor.dim() == 2 else tensor)
        states = begun(self.lstm, batch.mask.shape[0], batch.mask.device)
        return self.go_on(HybridHistory(self.base.encode(nothing), states, nothing.concept.float()), batch)

    def go_on(self, past: HybridHistory, batch: Batch) -> HybridHistory:
        """The same, from the states at the end of the past."""
        with torch.no_grad():
            base = self.base.go_on(past.base, batch)
            expected = self.base.observed(base, batch)
        inputs = self._inputs(batch.concept, batch.question, batch.response, expected)
        return HybridHistory(base, run_on(self.lstm, past.states, inputs, batch.mask.sum(1)), expected)

    def append(self, history: HybridHistory, concept: Tensor, question: Tensor, response: Tensor) -> HybridHistory:
        """One more answer in the counts, and one more step of the LSTM."""
        target = concept[:, None, None], question[:, None, None]
        with torch.no_grad():
            expected = self.base.answer_rows(history.base, *target, history.base.length[:, None])[:, 0, 0]
        base = self.base.append(history.base, concept, question, response)
        states = step_on(self.lstm, history.states, self._inputs(concept, question, response, expected))
        return HybridHistory(base, states, expected[:, None][:, :0])

    def state_of(self, history: HybridHistory) -> dict[str, Tensor]:
        """Those of the counts, and the LSTM's at the end."""
        hidden, cell = end_of(self.lstm, history.states)
        return {"hidden": hidden, "cell": cell, **self.base.state_of(history.base)}

    def from_state(self, state: Mapping[str, Tensor]) -> HybridHistory:
        """The same, as a history."""
        hidden = state["hidden"]
        return HybridHistory(self.base.from_state(state), ended_with(hidden, state["cell"]), hidden[:, :0])

    def retrieve(
        self, history: HybridHistory, concept: Tensor, question: Tensor | None = None, steps: Tensor | None = None
    ) -> Tensor:
        """The LSTM's state before the step, whatever the target."""
        if steps is None:
            steps = torch.arange(history.states.steps, device=concept.device).expand(concept.shape[0], -1)
        return at_steps(history.states, steps)[:, :, None].expand(-1, -1, concept.shape[2], -1)

    def answer_rows(self, history: HybridHistory, concept: Tensor, question: Tensor | None, steps: Tensor) -> Tensor:
        """What the counts say, moved by what the LSTM says."""
        state = self.dropout(at_steps(history.states, steps))
        return self.base.logits(history.base, concept, question, steps, *self._beside(state, concept, question))

    def observed(self, history: HybridHistory, batch: Batch) -> Tensor:
        """The same at what was logged, for which the counts have been asked already."""
        unknown = (batch.question < 0) | ~self.base.seen[batch.question]
        if bool(unknown.any()):
            return super().observed(history, batch)
        state = self.dropout(history.states.hidden[:, :-1])
        target = batch.concept[..., None], batch.question[..., None]
        of_concept, of_question = self._beside(state, *target)
        return history.expected + (of_concept + of_question).squeeze(2)

    def summary(self, history: HybridHistory) -> Tensor:
        """The LSTM's state before each step."""
        return history.states.hidden[:, :-1].detach()

    def steps_of(self, history: HybridHistory) -> int:
        """The steps of the history."""
        return history.states.steps

    def penalty(self, batch: Batch) -> Tensor:
        """The shrinkage of what is learned of single questions and concepts."""
        parts = self._of(batch.question), self.of_concept(batch.concept)
        return self.shrinkage * sum((part.square().sum(-1)[batch.scored].mean() for part in parts), torch.zeros(()))

    def penalty_share(self, part: Batch, whole: Batch) -> float:
        """The share of the scored answers, over which it is a mean."""
        return share_of(part.scored, whole.scored)

    def _inputs(self, concept: Tensor, question: Tensor, response: Tensor, expected: Tensor) -> Tensor:
        """What the LSTM reads of events [...], of which so much was expected, as a logit."""
        success = expected.sigmoid()
        answered = response != SKIPPED
        surprise = [answered * (response - success), success - 0.5]
        if self.reads_skips:
            surprise.append(~answered * (success - 0.5))
        asked = (answered * (2 * response - 1))[..., None] * self.asked(self._of(question))
        return self.interaction(self.responses * concept + response) + asked + self.surprise(torch.stack(surprise, -1))

    def _beside(self, state: Tensor, concept: Tensor, question: Tensor | None) -> tuple[Tensor, Tensor]:
        """What the state [B, M, d] adds to the logit of concepts [B, M, K], and to that of their questions."""
        of_concept = self.shared(state) + torch.einsum("bmd,bmkd->bmk", state, self.of_concept(concept))
        if question is None:
            return self.holds * of_concept, torch.zeros_like(of_concept)
        of_question = torch.einsum("bmd,bmkd->bmk", self.of_question(state), self._of(question))
        return self.holds * of_concept, self.holds * of_question

    def _of(self, question: Tensor) -> Tensor:
        """What is learned of questions: x_q [..., 16], nought where there is none."""
        index = torch.where(question < 0, self.n_questions, question)
        return self.question(index) * self.often[index][..., None]
