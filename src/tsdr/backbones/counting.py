"""What of a student's past can be counted, by concept, by question and overall; and who begins with answers alike."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from tsdr.sequences import Batch

HALF_LIVES = (2.0, 8.0, 30.0)  # of forgotten counts, in answers
ALIKE = (1, 2, 3, 5, 8, 13, 20)  # first answers after which it is asked whether they moved mastery the right way
AT_ONCE = 200  # steps whose forgotten counts are added up together


class Tally(NamedTuple):
    """What adds up along histories for each of many things: N numbers, such as right and wrong answers.

    `keys` [B, L] are things and steps in one number, in order, and `totals` [B, L + 1, N] what has come up to each; the
    `table` [B, things, N], if there is one, has what had come before any of them.
    """

    keys: Tensor
    totals: Tensor
    table: Tensor | None

    @classmethod
    def of(cls, thing: Tensor, told: Tensor, table: Tensor | None = None) -> "Tally":
        """Of what is told [B, L, N] of things [B, L]."""
        steps = thing.shape[1]
        keys, order = (thing * (steps + 1) + torch.arange(steps, device=thing.device)).sort(1)
        in_order = told.gather(1, order[..., None].expand_as(told))
        return cls(keys, nn.functional.pad(in_order.cumsum(1), (0, 0, 1, 0)), table)

    def before(self, thing: Tensor, step: Tensor) -> Tensor:
        """What [B, M, K, N] had come of things [B, M, K] before steps [B, M]."""
        things, counted, numbers = thing.flatten(1), [], self.totals.shape[2]
        if self.table is not None:
            counted.append(self.table.gather(1, things[..., None].expand(-1, -1, numbers)))
        if self.keys.shape[1] or self.table is None:
            first = things * self.totals.shape[1]
            until = first + step.repeat_interleave(thing.shape[2], 1)
            counted.append(self._between(first, until))
        return sum(counted[1:], counted[0]).view(*thing.shape, numbers)

    def _between(self, first: Tensor, until: Tensor) -> Tensor:
        """What [B, M, N] has keys from the first up to, and without, the last [B, M]."""
        if torch.compiler.is_exporting():  # ONNX cannot search, and has a window to compare with at most
            there = (self.keys[:, None] >= first[..., None]) & (self.keys[:, None] < until[..., None])
            return there.to(self.totals.dtype) @ self.totals.diff(dim=1)
        numbers = self.totals.shape[2]
        places = (torch.searchsorted(self.keys, key)[..., None].expand(-1, -1, numbers) for key in (until, first))
        reached, begun = (self.totals.gather(1, place) for place in places)
        return reached - begun


@dataclass(frozen=True)
class CountsHistory:
    """What of the past can still be counted, and what has been counted already.

    Events [B, L] are those that were encoded, and before them those of what came earlier, with what each is `told`
    [B, L, N] to count for: right, wrong or, where skips are read, skipped as too easy or too hard, in part. `overall`
    [B, T + 1, F] has what is known of the student before each of the T steps that were encoded, and `running`
    [B, N (1 + half-lives) + 2] the sums that it is made of, as they stand at the end. A history that has ended has no
    events, and its answers in the tables of its tallies.
    """

    concept: Tensor
    question: Tensor
    told: Tensor
    length: Tensor
    overall: Tensor
    running: Tensor
    by_concept: Tally
    by_question: Tally


class Beginners(NamedTuple):
    """Students who begin with answers alike in one concept, all right or all wrong, and `steps` [B, M] to ask at.

    The first step is before their answers.
    """

    batch: Batch
    steps: Tensor

    @classmethod
    def of(cls, concepts: Tensor) -> "Beginners":
        """Two for each concept [K]: one who is right, one who is wrong."""
        concept = concepts.repeat(2)[:, None].expand(-1, ALIKE[-1] + 1)
        correct = torch.zeros_like(concept)
        correct[: len(concepts)] = 1
        every = torch.ones_like(concept, dtype=torch.bool)
        steps = torch.tensor((0, *ALIKE), device=concepts.device).expand(len(concept), -1)
        return cls(Batch.of_answers(concept, torch.full_like(concept, -1), correct, every), steps)

    @property
    def target(self) -> Tensor:
        """Their concepts [B, M, 1], to ask for at the steps."""
        return self.batch.concept[:, :1, None].expand(*self.steps.shape, 1)

    @property
    def right(self) -> Tensor:
        """Who is right, [B, 1]."""
        return self.batch.correct[:, :1] == 1

    def gain(self, logit: Tensor) -> Tensor:
        """How far answers moved the logit [B, M, 1] the right way, [B, M - 1]."""
        raised = logit[:, 1:, 0] - logit[:, :1, 0]
        return torch.where(self.right, raised, -raised)


def without_events(running: Tensor, by_concept: Tensor | None, by_question: Tensor | None) -> CountsHistory:
    """A history of running sums, with what is in tables, if it has any."""
    none = torch.zeros_like(running[:, :0], dtype=torch.long)
    nothing = running.new_zeros(running.shape[0], 1, (running.shape[1] - 2) // (1 + len(HALF_LIVES)))
    tallies = (Tally(none, nothing, table) for table in (by_concept, by_question))
    length = torch.zeros_like(running[:, 0], dtype=torch.long)
    return CountsHistory(none, none, nothing[:, :0], length, overall_of(running[:, None]), running, *tallies)


def right_and_wrong(response: Tensor) -> Tensor:
    """[...] to [..., 2]: 1 and 0, 0 and 1 or, where there is no response, 0 and 0."""
    return torch.stack([response == 1, response == 0], -1).float()


def added_up(before: Tensor, told: Tensor, eased: Tensor) -> Tensor:
    """Sums [B, T, N (1 + half-lives) + 2] after each of T events [B, T, N], on top of those before them [B, 1, ...]."""
    at = torch.arange(told.shape[1], device=told.device)
    ago = at[:, None] - at  # [T, T]
    kept = torch.stack([_remembered(ago, half_life) for half_life in (math.inf, *HALF_LIVES)])
    new = torch.cat([torch.einsum("hts,bsr->bthr", kept, told).flatten(2), eased.cumsum(1)], -1)
    faded = torch.stack([_remembered(at + 1, half_life) for half_life in (math.inf, *HALF_LIVES)], 1)
    return new + before * torch.cat([faded.repeat_interleave(told.shape[2], 1), torch.ones_like(faded[:, :2])], 1)


def _remembered(ago: Tensor, half_life: float) -> Tensor:
    """What an answer still counts after so many more; one that is yet to come counts nothing."""
    kept = torch.ones_like(ago, dtype=torch.float) if math.isinf(half_life) else 0.5 ** (ago / half_life)
    return torch.where(ago >= 0, kept, 0.0)


def overall_of(sums: Tensor) -> Tensor:
    """Features [..., F] from sums over events: numbers of each kind, forgotten numbers, share right, and ease."""
    right, wrong = sums[..., :1], sums[..., 1:2]
    numbers, ease = sums[..., :-2], sums[..., -2:]
    return torch.cat([numbers.log1p(), (right + 1) / (right + wrong + 2), ease / (1 + sums[..., :2])], -1)
