"""Causal attention, written once: what a row may look at, how scores are shaped, one softmax; and the stack of it.

Every attention backbone asks the past with a target as query. The observed target is a row like any other, so the
ordinary pass and counterfactual targets run through the same blocks; only the keys and values of the past are kept.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from tsdr.backbones.contract import Backbone, only_if
from tsdr.backbones.dropout import Dropout
from tsdr.backbones.sizes import SIZES, Size
from tsdr.errors import InputError
from tsdr.sequences import Batch

HIDDEN = -1e32  # the score of a position that may not be seen: its softmax weight is exactly 0


class View(NamedTuple):
    """What each query row may see: [1 or B, 1, rows, keys], and how many steps back each key lies."""

    visible: Tensor
    distance: Tensor

    @classmethod
    def of_past(cls, step: Tensor, keys: int) -> "View":
        """Rows at `step` [1 or B, rows] see the keys before it."""
        distance = (step[..., None] - torch.arange(keys, device=step.device))[:, None]
        return cls(distance > 0, distance.clamp(min=0).to(torch.get_default_dtype()))

    def seen(self) -> Tensor:
        """Which rows see anything at all: [1 or B, 1, rows, 1]."""
        return self.visible.any(-1, keepdim=True)

    def with_own(self) -> "View":
        """Each row also sees a key and value of its own, in one more column at the end."""
        visible = nn.functional.pad(self.visible, (0, 1), value=True)
        return View(visible, nn.functional.pad(self.distance, (0, 1), value=0.0))


class KeysValues(NamedTuple):
    """Keys and values by head: [B, heads, positions, d / heads] each."""

    keys: Tensor
    values: Tensor

    def write(self, new: "KeysValues", at: Tensor) -> "KeysValues":
        """One more position a sequence: `new` [B, heads, 1, ...] at position `at` [B]."""
        rows = torch.arange(len(at), device=at.device)

        def written(old: Tensor, more: Tensor) -> Tensor:
            grown = nn.functional.pad(old, (0, 0, 0, 1)).transpose(1, 2)
            return grown.index_put((rows, at), more[:, :, 0]).transpose(1, 2)

        return KeysValues(written(self.keys, new.keys), written(self.values, new.values))


class ForgettingDecay(nn.Module):
    """AKT's monotonic attention: scores times exp(-θ √δ), θ = softplus(a learned number a head).

    δ of a key τ steps back is τ times the mass that a plain softmax puts on the visible positions after it; it
    carries no gradient. The factor is kept within [1e-5, 1e5].
    """

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.rate = nn.Parameter(torch.zeros(heads, 1, 1))

    def forward(self, scores: Tensor, view: View) -> Tensor:
        """Shape the scores [B, heads, rows, keys]."""
        with torch.no_grad():
            mass = scores.masked_fill(~view.visible, HIDDEN).softmax(-1)
            # Summed, not 1 minus what came before: the root would blow up the rounding error of a difference near 0.
            later = torch.ones(mass.shape[-1], mass.shape[-1], device=mass.device).tril_(-1)
            root = (mass @ later).mul_(view.distance).sqrt_()
        return scores * torch.exp(-nn.functional.softplus(self.rate) * root).clamp(1e-5, 1e5)


class LinearBias(nn.Module):
    """FoLiBiKT's forgetting-aware bias: scores minus m_head times the distance, m fixed at 2^(-8 i / heads)."""

    slope: Tensor

    def __init__(self, heads: int) -> None:
        super().__init__()
        slope = 2.0 ** (-8 * torch.arange(1, heads + 1) / heads)
        self.register_buffer("slope", slope[:, None, None], persistent=False)

    def forward(self, scores: Tensor, view: View) -> Tensor:
        """Shape the scores [B, heads, rows, keys]."""
        return scores - self.slope * view.distance


class TopK(nn.Module):
    """sparseKT's selection: a row that sees more than k positions keeps its k largest scores."""

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k

    def forward(self, scores: Tensor, view: View) -> Tensor:
        """Hide all but the k largest visible scores of each row."""
        if scores.shape[-1] <= self.k:
            return scores
        seen = scores.detach().masked_fill(~view.visible, HIDDEN)
        kept = torch.zeros_like(seen, dtype=torch.bool).scatter_(-1, seen.topk(self.k, sorted=False).indices, True)
        return scores.masked_fill(~kept, HIDDEN)


def attend(scores: Tensor, view: View) -> Tensor:
    """The one softmax, over visible positions; what a row that sees nothing retrieves is to be multiplied by 0."""
    return scores.masked_fill(~view.visible, HIDDEN).softmax(-1)


def split_heads(x: Tensor, heads: int) -> Tensor:
    """[B, rows, d] to [B, heads, rows, d / heads]."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    """[B, heads, rows, d / heads] to [B, rows, d]."""
    return x.transpose(1, 2).flatten(2)


class Block(nn.Module):
    """A post-norm attention block: x ← LN(x + dropout(attention)), then, if it has one, the same with feed-forward.

    Query and key share one projection. `inclusive` blocks attend from x to x, the row itself included; the others
    retrieve from values that are not x, strictly before the row.
    """

    def __init__(
        self, d: int, heads: int, d_ff: int | None, dropout: float, shaping: Sequence[nn.Module], inclusive: bool
    ) -> None:
        super().__init__()
        self.heads, self.inclusive = heads, inclusive
        self.query_key, self.value, self.out = (nn.Linear(d, d) for _ in range(3))
        for linear in (self.query_key, self.value, self.out):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)
        self.shaping = nn.ModuleList(shaping)
        self.norm = nn.LayerNorm(d)
        self.dropout = Dropout(dropout)
        self.feed_forward = None
        if d_ff is not None:
            widen, narrow = nn.Linear(d, d_ff), nn.Linear(d_ff, d)
            self.feed_forward = nn.Sequential(widen, nn.ReLU(inplace=True), Dropout(dropout), narrow, Dropout(dropout))
        self.feed_forward_norm = None if d_ff is None else nn.LayerNorm(d)

    def keys_values(self, x: Tensor, y: Tensor) -> KeysValues:
        """What rows x (the queries' side) and y (what is retrieved) give to later rows."""
        return KeysValues(split_heads(self.query_key(x), self.heads), split_heads(self.value(y), self.heads))

    def forward(self, x: Tensor, past: KeysValues, view: View, own: KeysValues | None = None) -> Tensor:
        """Rows x [B, rows, d] look at the past, and at keys and values of their `own`, one a row, if given."""
        query = split_heads(self.query_key(x), self.heads) / math.sqrt(past.keys.shape[-1])
        scores = query @ past.keys.transpose(-1, -2)
        if own is not None:
            scores = torch.cat([scores, (query * own.keys).sum(-1, keepdim=True)], dim=-1)
            view = view.with_own()
        for shape in self.shaping:
            scores = shape(scores, view)
        weights = attend(scores, view)
        if own is None:
            retrieved = (weights @ past.values) * view.seen()
        else:
            retrieved = weights[..., :-1] @ past.values + weights[..., -1:] * own.values
        x = self.norm(x + self.dropout(self.out(merge_heads(retrieved))))
        if self.feed_forward is None or self.feed_forward_norm is None:
            return x
        return self.feed_forward_norm(x + self.feed_forward(x))


class Blocks(nn.ModuleList):
    """Blocks in the order in which rows run through them."""

    def __iter__(self) -> Iterator[Block]:
        return cast(Iterator[Block], super().__iter__())


class SummaryQuery(nn.Module):
    """One learned query and a learned preference for the recent: the past, retrieved with no target.

    Keys and values carry no gradient: only what is learned here is moved by what reads the summary.
    """

    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.randn(heads, 1, d // heads))
        self.recency = nn.Parameter(torch.zeros(heads, 1, 1))

    def forward(self, past: KeysValues, view: View) -> Tensor:
        """States [B, rows, d]."""
        keys, values = past.keys.detach(), past.values.detach()
        scores = self.query @ keys.transpose(-1, -2) / math.sqrt(keys.shape[-1])
        scores = scores - nn.functional.softplus(self.recency) * view.distance
        return merge_heads((attend(scores, view) @ values) * view.seen())


class RaschEmbedding(nn.Module):
    """A target's embedding e_c + μ_q d_c: the concept, varied by how hard the question is.

    μ_q has `width` numbers (1, or d for a vector), 0 at the start and for an unknown question.
    """

    def __init__(self, n_concepts: int, n_questions: int, d: int, width: int) -> None:
        super().__init__()
        self.concept = nn.Embedding(n_concepts, d)
        self.variation = nn.Embedding(n_concepts, d)
        self.difficulty = nn.Embedding(n_questions + 1, width, padding_idx=n_questions)
        nn.init.zeros_(self.difficulty.weight)

    def mu(self, question: Tensor) -> Tensor:
        """The difficulty of questions, 0 where the question is -1."""
        return self.difficulty(torch.where(question < 0, self.difficulty.num_embeddings - 1, question))

    def forward(self, concept: Tensor, question: Tensor | None) -> Tensor:
        """Targets of any shape [...] to [..., d]."""
        if question is None:
            return self.concept(concept)
        return self.concept(concept) + self.mu(question) * self.variation(concept)


def head(inputs: int, widths: tuple[int, int], dropout: float) -> nn.Sequential:
    """The MLP that turns a retrieved state and its target into a logit."""
    first, second = widths
    return nn.Sequential(
        nn.Linear(inputs, first),
        nn.ReLU(inplace=True),
        Dropout(dropout),
        nn.Linear(first, second),
        nn.ReLU(inplace=True),
        Dropout(dropout),
        nn.Linear(second, 1),
    )


def sinusoids(positions: int, d: int, device: torch.device) -> Tensor:
    """Fixed sine and cosine positions [positions, d]."""
    at = torch.arange(positions, device=device)[:, None]
    rate = torch.exp(torch.arange(0, d, 2, device=device) * (-math.log(10_000.0) / d))
    table = torch.zeros(positions, d, device=device)
    table[:, 0::2] = torch.sin(at * rate)
    table[:, 1::2] = torch.cos(at * rate)[:, : d // 2]
    return table


@dataclass(frozen=True)
class AttentionHistory:
    """The past as keys and values: of the knowledge encoder's blocks, and of the blocks that a target runs through."""

    length: Tensor
    knowledge: list[KeysValues]
    retrieval: list[KeysValues]
    positions: int
    extra: dict[str, Tensor] = field(default_factory=dict)


class AttentionBackbone(Backbone[AttentionHistory]):
    """A stack of blocks over targets x and answered interactions y.

    A subclass embeds y and adds its blocks. `knowledge` blocks encode y among itself, inclusively. Then x runs
    through the `retrieval` blocks: inclusive ones attend among targets, the others retrieve y, strictly. It says
    whether positions are added (`positional`) and whether a question's difficulty is a vector or a number.
    """

    can_read_skips = True
    parallel = True
    positional = False
    vector_difficulty = False

    def __init__(
        self,
        n_concepts: int,
        n_questions: int,
        *,
        d: int = 64,
        heads: int = 8,
        blocks: int = 2,
        dropout: float = 0.05,
        size: Size = "paper",
        skips: bool = False,
    ) -> None:
        super().__init__(n_concepts, n_questions)
        if size not in SIZES:
            raise InputError(f"there is no size {size!r}; choose from {', '.join(SIZES)}")
        if heads < 1 or d < 1 or d % (2 * heads):
            raise InputError(f"d is {d}, which is not a multiple of {2 * heads}: {heads} heads of an even width")
        self.options = {"d": d, "heads": heads, "blocks": blocks, "dropout": dropout, "size": size, **only_if(skips)}
        self.d, self.heads, self.dropout = d, heads, dropout
        self.d_ff, self.head_widths = SIZES[size]
        self.target = RaschEmbedding(n_concepts, n_questions, d, d if self.vector_difficulty else 1)
        self.responses = 3 if skips else 2
        self.answered = nn.Embedding(self.responses, d)
        self.knowledge, self.retrieval = Blocks(), Blocks()
        for _ in range(blocks):
            self.add_block()
        self.summary_query = SummaryQuery(d, heads)
        self.head = head(self.head_inputs(), self.head_widths, dropout)

    @property
    def light_options(self) -> dict[str, Any]:
        """Narrow layers, and half of the heads if they can be halved."""
        return {"size": "light", "heads": self.heads // 2 if self.heads % 2 == 0 else self.heads}

    def add_block(self) -> None:
        """Add one of the `blocks` that the model is deep, to `retrieval` and, if it has them, to `knowledge`."""
        raise NotImplementedError

    def block(self, *shaping: nn.Module, inclusive: bool = False, feed_forward: bool = True) -> Block:
        """A block of this model's sizes."""
        return Block(self.d, self.heads, self.d_ff if feed_forward else None, self.dropout, shaping, inclusive)

    def head_inputs(self) -> int:
        """How wide the head's input is: a state and a target."""
        return 2 * self.d

    def interaction(self, concept: Tensor, question: Tensor, response: Tensor) -> Tensor:
        """The embedding y of an answered interaction."""
        raise NotImplementedError

    def encode(self, batch: Batch) -> AttentionHistory:
        """One pass over the interactions, which keeps keys and values; the last block need not run."""
        return self._observe(batch, to_the_end=False)[0]

    def follow(self, batch: Batch) -> tuple[AttentionHistory, Tensor]:
        """The observed targets are the rows of the ordinary pass."""
        history, state = self._observe(batch, to_the_end=True)
        target = self.target(batch.concept, batch.question)
        return history, self.read(history, state, target, batch.question, self._every_step(history))

    def summary_parameters(self) -> list[nn.Parameter]:
        """The learned query."""
        return list(self.summary_query.parameters())

    def retrieve(
        self,
        history: AttentionHistory,
        concept: Tensor,
        question: Tensor | None = None,
        steps: Tensor | None = None,
    ) -> Tensor:
        """Run the targets, as query rows, through the blocks over the cached past."""
        if steps is None:
            steps = torch.arange(history.positions, device=concept.device).expand(concept.shape[0], -1)
        return self._rows(history, concept, question, steps)[1].unflatten(1, concept.shape[1:])

    def answer_rows(self, history: AttentionHistory, concept: Tensor, question: Tensor | None, steps: Tensor) -> Tensor:
        """Retrieve, then read."""
        target, state, view = self._rows(history, concept, question, steps)
        flat = None if question is None else question.flatten(1)
        return self.read(history, state, target, flat, view).unflatten(1, concept.shape[1:])

    def read(
        self, history: AttentionHistory, state: Tensor, target: Tensor, question: Tensor | None, view: View
    ) -> Tensor:
        """Logits [B, rows] from retrieved states and targets [B, rows, d]."""
        return self.head(torch.cat([state, target], dim=-1)).squeeze(-1)

    def summary(self, history: AttentionHistory) -> Tensor:
        """The past, retrieved by one learned query from the last block's keys and values."""
        steps = torch.arange(history.positions, device=history.length.device)
        at = torch.minimum(steps[None], history.length[:, None])
        return self.summary_query(history.retrieval[-1], View.of_past(at, history.positions))

    def append(
        self, history: AttentionHistory, concept: Tensor, question: Tensor, response: Tensor
    ) -> AttentionHistory:
        """Run the new interaction through the blocks as one more row, and keep its keys and values."""
        at = history.length
        view = View.of_past(at[:, None], history.positions)
        concept, question, response = concept[:, None], question[:, None], response[:, None]
        place = self._place(at[:, None], history.positions)
        answered = self.interaction(concept, question, response)
        y = answered + place
        knowledge = []
        for block, past in zip(self.knowledge, history.knowledge, strict=True):
            own = block.keys_values(y, y)
            y = block(y, past, view, own)
            knowledge.append(past.write(own, at))
        x = self.target(concept, question) + place
        retrieval = []
        for block, past in zip(self.retrieval, history.retrieval, strict=True):
            own = block.keys_values(x, x if block.inclusive else y)
            x = block(x, past, view, own if block.inclusive else None)
            retrieval.append(past.write(own, at))
        extra = self.extend(history, x, answered, concept, response)
        return AttentionHistory(at + 1, knowledge, retrieval, history.positions + 1, extra)

    def extend(
        self, history: AttentionHistory, state: Tensor, y: Tensor, concept: Tensor, response: Tensor
    ) -> dict[str, Tensor]:
        """What a model keeps of a new interaction beyond keys and values."""
        return {}

    def steps_of(self, history: AttentionHistory) -> int:
        """The steps of the history."""
        return history.positions

    def keep(self, state: Tensor | None, y: Tensor, batch: Batch) -> dict[str, Tensor]:
        """What a model keeps of the ordinary pass beyond keys and values."""
        return {}

    def _observe(self, batch: Batch, to_the_end: bool) -> tuple[AttentionHistory, Tensor]:
        """The ordinary pass. The state is that of the observed targets if it is run to the end."""
        steps = batch.mask.shape[1]
        every = torch.arange(steps, device=batch.mask.device)[None]
        strict, inclusive = View.of_past(every, steps), View.of_past(every + 1, steps)
        inclusive = View(inclusive.visible, strict.distance)
        place = self._place(every, steps)
        answered = self.interaction(batch.concept, batch.question, batch.response)
        y = answered + place
        knowledge = []
        for block in self.knowledge:
            knowledge.append(block.keys_values(y, y))
            y = block(y, knowledge[-1], inclusive)
        x = self.target(batch.concept, batch.question) + place
        retrieval = []
        for index, block in enumerate(self.retrieval, start=1):
            retrieval.append(block.keys_values(x, x if block.inclusive else y))
            if to_the_end or index < len(self.retrieval):
                x = block(x, retrieval[-1], inclusive if block.inclusive else strict)
        extra = self.keep(x, answered, batch)
        return AttentionHistory(batch.mask.sum(1), knowledge, retrieval, steps, extra), x

    def _rows(
        self, history: AttentionHistory, concept: Tensor, question: Tensor | None, steps: Tensor
    ) -> tuple[Tensor, Tensor, View]:
        """Targets [B, M, K] as rows [B, M K]: their embedding, the state that they retrieve, what they see."""
        at = torch.minimum(steps, history.length[:, None])[..., None].expand_as(concept).flatten(1)
        view = View.of_past(at, history.positions)
        target = self.target(concept.flatten(1), None if question is None else question.flatten(1))
        x = target + self._place(at, history.positions)
        for block, past in zip(self.retrieval, history.retrieval, strict=True):
            x = block(x, past, view, block.keys_values(x, x) if block.inclusive else None)
        return target, x, view

    def _every_step(self, history: AttentionHistory) -> View:
        return View.of_past(torch.arange(history.positions, device=history.length.device)[None], history.positions)

    def _place(self, at: Tensor, positions: int) -> Tensor | float:
        return sinusoids(positions + 1, self.d, at.device)[at] if self.positional else 0.0
