"""How often what was answered: counts of answers by concept and question, which add up over parts of a log."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Pairs:
    """The pairs of concept and question that were answered, in order: how many `answers` each has, how many `right`."""

    concept: Tensor
    question: Tensor
    answers: Tensor
    right: Tensor

    @classmethod
    def of(cls, concept: Tensor, question: Tensor, correct: Tensor) -> "Pairs":
        """Of answers [N] one by one."""
        return cls._summed(concept, question, torch.ones_like(correct), correct)

    @classmethod
    def together(cls, parts: Sequence["Pairs"]) -> "Pairs":
        """Of the answers of all parts."""
        columns = zip(*((part.concept, part.question, part.answers, part.right) for part in parts), strict=True)
        return cls._summed(*map(torch.cat, columns))

    @classmethod
    def _summed(cls, concept: Tensor, question: Tensor, answers: Tensor, right: Tensor) -> "Pairs":
        base = int(question.max()) + 2 if len(question) else 1  # an unknown question is -1
        pairs, place = (concept * base + question + 1).unique(return_inverse=True)
        sums = (torch.zeros_like(pairs).index_add_(0, place, values) for values in (answers, right))
        return cls(pairs // base, pairs % base - 1, *sums)

    def of_concepts(self, n_concepts: int) -> tuple[Tensor, Tensor]:
        """The answers in each concept [C], and those of them that were right."""
        none = self.answers.new_zeros(n_concepts)
        return none.index_add(0, self.concept, self.answers), none.index_add(0, self.concept, self.right)

    def of_questions(self, n_questions: int) -> Tensor:
        """The answers to each question [Q]; those to unknown questions are to none."""
        known = self.question >= 0
        return self.answers.new_zeros(n_questions).index_add(0, self.question[known], self.answers[known])
