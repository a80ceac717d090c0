"""The propensity model: how likely is it that a concept is the one logged next, given the history alone?

And, within the concept, how often is a question the one logged? What a student knows of a concept is a mean over its
questions, but a log shows some of them far more often than others.
"""

import math
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, linear, softplus

from tsdr.methods import PropensityKind
from tsdr.pairs import Pairs
from tsdr.parallel import ALONE, Team
from tsdr.sequences import UNKNOWN_QUESTION

# Seen so many times more than it was, each question of a concept: a question seen once is not taken for rare.
PRIOR_COUNT = 2


class Propensity(nn.Module):
    """One linear output a concept on a summary of the history: sigmoid (bernoulli) or softmax (categorical).

    It starts at 1 / |C| for every concept. The summary carries no gradient into the model that made it.
    """

    def __init__(self, d: int, n_concepts: int, kind: PropensityKind = "bernoulli") -> None:
        super().__init__()
        self.kind = kind
        self.n_concepts = n_concepts
        self.output = nn.Linear(d, n_concepts)
        nn.init.zeros_(self.output.weight)
        nn.init.constant_(self.output.bias, -math.log(max(n_concepts - 1, 1)))

    def forward(self, state: Tensor, concept: Tensor) -> Tensor:
        """p̂ [B, T] of the concepts [B, T] given states [B, T, d]."""
        if self.kind == "categorical":
            return self.of_all(state).gather(-1, concept[..., None]).squeeze(-1)
        return self._logit(state, concept).sigmoid()

    def of_all(self, state: Tensor) -> Tensor:
        """p̂ [B, T, C] of every concept."""
        logits = self.output(state)
        return logits.softmax(-1) if self.kind == "categorical" else logits.sigmoid()

    def loss(
        self, state: Tensor, concept: Tensor, scored: Tensor, negatives: int | Literal["all"], team: Team = ALONE
    ) -> Tensor:
        """Mean loss over scored steps: for bernoulli, BCE with every unlogged concept of the step as a negative.

        With a number of `negatives`, so many concepts are drawn uniformly for the batch and weighted by the inverse
        of their chance to be drawn: the same on average, at a cost that does not grow with |C|. The categorical
        loss is the cross-entropy of the logged concept, over all concepts.
        """
        state, concept = state[scored], concept[scored]
        if self.kind == "categorical":
            return nn.functional.cross_entropy(self.output(state), concept)
        drawn = torch.arange(self.n_concepts, device=state.device)
        if negatives != "all" and negatives < self.n_concepts:
            with team.together():
                drawn = torch.randint(self.n_concepts, (negatives,), device=state.device)
        logits = linear(state, embedding(drawn, self.output.weight), self.output.bias[drawn])
        own = self._logit(state, concept)
        times_drawn = drawn.bincount(minlength=self.n_concepts)[concept]
        against = softplus(logits).sum(-1) - times_drawn * softplus(own)
        return (softplus(-own) + against * self.n_concepts / len(drawn)).mean() / self.n_concepts

    def _logit(self, state: Tensor, concept: Tensor) -> Tensor:
        return (state * embedding(concept, self.output.weight)).sum(-1) + self.output.bias[concept]


class ConceptQuestions:
    """The questions of each concept in the training split, and how often each of them is logged."""

    def __init__(self, train: Pairs, n_concepts: int, n_questions: int) -> None:
        self.n_questions = n_questions
        self.pairs, of_concept = self._pair(train.concept, train.question), train.concept
        seen = train.answers + PRIOR_COUNT
        total, self.number = seen.new_zeros(2, n_concepts).unbind()
        total.scatter_add_(0, of_concept, seen)
        self.number.scatter_add_(0, of_concept, torch.ones_like(seen))
        self.relative = seen * self.number[of_concept] / total[of_concept]

    def frequency(self, concept: Tensor, question: Tensor) -> Tensor:
        """|Q_c| p̂(q | c): how often a question is logged, relative to the average question of its concept.

        From counts in the training split, with a prior. 1 where a concept was never logged with the question.
        """
        pair = self._pair(concept, question)
        pairs, relative = self.pairs.to(pair.device), self.relative.to(pair.device)
        place = torch.searchsorted(pairs, pair).clamp(max=len(pairs) - 1)
        return torch.where(pairs[place] == pair, relative[place], 1.0)

    def draw(self, concept: Tensor) -> Tensor:
        """A question of each concept, drawn evenly from those that it has; -1, none, where it was never logged."""
        pairs, number = self.pairs.to(concept.device), self.number.to(concept.device)
        first = number.cumsum(0) - number
        place = first[concept] + (torch.rand(concept.shape, device=concept.device) * number[concept]).long()
        question = pairs[place.clamp(max=len(pairs) - 1)] % (self.n_questions + 1) - 1
        return torch.where(number[concept] > 0, question, UNKNOWN_QUESTION)

    def _pair(self, concept: Tensor, question: Tensor) -> Tensor:
        return concept * (self.n_questions + 1) + question + 1
