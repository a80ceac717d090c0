"""DisKT: right and wrong answers apart, contradictory ones masked, and their effect subtracted."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from tsdr.backbones.attention import (
    AttentionHistory,
    View,
    attend,
    merge_heads,
    split_heads,
)
from tsdr.backbones.contract import register_backbone
from tsdr.backbones.dropout import Dropout
from tsdr.backbones.simplekt import SimpleKT
from tsdr.lessons import Lessons
from tsdr.sequences import SKIPPED, Batch

DISTANCE_PENALTY = 1e-3
ATTENTION_DROPOUT = 0.1
FIRST_MEAN = 0.2
LEAST_CERTAINTY = 0.1
SMOOTHING = 5.0
TIE = 1e-5  # an answer as likely as the earlier ones does not contradict, however the mean is rounded


class AbilityEncoder(nn.Module):
    """One residual feed-forward: y ← LN(y + W₂ GELU(W₁ y))."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))
        self.norm = nn.LayerNorm(d)

    def forward(self, y: Tensor) -> Tensor:
        """[..., d] to [..., d]."""
        return self.norm(y + self.layers(y))


@register_backbone("diskt")
class DisKT(SimpleKT):
    """Disentangled knowledge tracing (Zhou et al., 2025).

    x = e_c + μ_q ⊙ d_c and y = e_c + g_r + μ_q ⊙ f_r; h is simpleKT's retrieval. Two streams, y⁺ with the right
    answers and y⁻ with the wrong ones (a blank token in place of the others), are read by an attention whose
    queries and keys are h itself, past contradictory answers, with one softmax: o⁺ and o⁻. The head reads
    [h - (o⁺ + o⁻) - μ_q, x, o⁺ - o⁻].

    An answer contradicts when it is unlikely for its concept: v = 1 - r + (2r - 1) s_c, s_c the concept's share
    right in the training split (`prepare`), and u v lies below the mean of the student's earlier u v, 0.2 for the
    first; u is uniform in [0.1, 1] in training, 0.55 in evaluation. The penalty is 0.001 times the mean distance
    between y⁺ and y⁻. An offer that was skipped is blank in both streams, and is passed over by the attention to them.
    """

    share_right: Tensor

    def __init__(self, n_concepts: int, n_questions: int, **options: Any) -> None:
        super().__init__(n_concepts, n_questions, **options)
        self.answered_variation = nn.Embedding(self.responses, self.d)
        self.blank = nn.Parameter(torch.randn(self.d))
        self.familiar, self.unfamiliar = AbilityEncoder(self.d), AbilityEncoder(self.d)
        self.attention_dropout = Dropout(ATTENTION_DROPOUT)
        self.register_buffer("share_right", torch.full((n_concepts,), 0.5))

    def head_inputs(self) -> int:
        """State, target and the difference of the streams."""
        return 3 * self.d

    def prepare(self, train: Lessons) -> None:
        """Take each concept's share right in the training split, smoothed towards the overall share."""
        answers, right = train.pairs().of_concepts(self.n_concepts)
        overall = right.sum().double() / answers.sum() if answers.any() else 0.5
        self.share_right.copy_((right + SMOOTHING * overall) / (answers + SMOOTHING))

    def interaction(self, concept: Tensor, question: Tensor, response: Tensor) -> Tensor:
        """y = e_c + g_r + μ_q ⊙ f_r."""
        return super().interaction(concept, question, response) + self.target.mu(question) * self.answered_variation(
            response
        )

    def penalty(self, batch: Batch) -> Tensor:
        """The two streams are drawn together."""
        y = self.interaction(batch.concept, batch.question, batch.response)
        right, wrong = self._streams(y, batch.response)
        distance = torch.linalg.vector_norm(right - wrong + 1e-6, dim=-1)
        return DISTANCE_PENALTY * distance[batch.mask].mean()

    def encode(self, batch: Batch) -> AttentionHistory:
        """The ordinary pass to its end: the states of past targets are the keys of the contradiction attention."""
        return self._observe(batch, to_the_end=True)[0]

    def keep(self, state: Tensor | None, y: Tensor, batch: Batch) -> dict[str, Tensor]:
        """Past states, the two streams, and which answers contradict."""
        assert state is not None
        right, wrong = self._streams(y, batch.response)
        evidence = self._evidence(batch.concept, batch.response)
        answered = (batch.response != SKIPPED) & batch.mask
        before, count = evidence.cumsum(1) - evidence, answered.cumsum(1) - answered.long()
        mean = torch.where(count == 0, FIRST_MEAN, before / count.clamp(min=1))
        return {
            "state": state,
            "right": right,
            "wrong": wrong,
            "evidence": evidence * batch.mask,
            "answered": answered,
            "contradicts": (evidence < mean - TIE) | ~answered,
        }

    def extend(
        self, history: AttentionHistory, state: Tensor, y: Tensor, concept: Tensor, response: Tensor
    ) -> dict[str, Tensor]:
        """The same for one more interaction."""
        right, wrong = self._streams(y, response)
        evidence = self._evidence(concept, response)
        count, answered = history.extra["answered"].sum(1), response != SKIPPED
        mean = torch.where(count == 0, FIRST_MEAN, history.extra["evidence"].sum(1) / count.clamp(min=1))
        new = {
            "state": state,
            "right": right,
            "wrong": wrong,
            "evidence": evidence,
            "answered": answered,
            "contradicts": (evidence < mean[:, None] - TIE) | ~answered,
        }
        rows = torch.arange(len(concept), device=concept.device)
        return {name: _grow(history.extra[name]).index_put((rows, history.length), new[name][:, 0]) for name in new}

    def retrieve(
        self, history: AttentionHistory, concept: Tensor, question: Tensor | None = None, steps: Tensor | None = None
    ) -> Tensor:
        """h - (o⁺ + o⁻): what is retrieved, less what right and wrong answers alone bring."""
        if steps is None:
            steps = torch.arange(history.positions, device=concept.device).expand(concept.shape[0], -1)
        _, state, view = self._rows(history, concept, question, steps)
        right, wrong = self._abilities(history, state, view)
        return (state - right - wrong).unflatten(1, concept.shape[1:])

    def read(
        self, history: AttentionHistory, state: Tensor, target: Tensor, question: Tensor | None, view: View
    ) -> Tensor:
        """The head on [h - (o⁺ + o⁻) - μ_q, x, o⁺ - o⁻]."""
        right, wrong = self._abilities(history, state, view)
        difficulty = 0.0 if question is None else self.target.mu(question)
        return self.head(torch.cat([state - right - wrong - difficulty, target, right - wrong], dim=-1)).squeeze(-1)

    def _abilities(self, history: AttentionHistory, state: Tensor, view: View) -> tuple[Tensor, Tensor]:
        """o⁺ and o⁻ of query rows."""
        query, keys, right, wrong = (
            split_heads(rows, self.heads)
            for rows in (state, history.extra["state"], history.extra["right"], history.extra["wrong"])
        )
        scores = query @ keys.transpose(-1, -2) / math.sqrt(keys.shape[-1])
        agreeing = View(view.visible & ~history.extra["contradicts"][:, None, None], view.distance)
        weights = self.attention_dropout(attend(scores, agreeing))
        return merge_heads((weights @ right) * agreeing.seen()), merge_heads((weights @ wrong) * agreeing.seen())

    def _streams(self, y: Tensor, response: Tensor) -> tuple[Tensor, Tensor]:
        right, wrong = (torch.where((response == kind)[..., None], y, self.blank) for kind in (1, 0))
        return self.familiar(right), self.unfamiliar(wrong)

    def _evidence(self, concept: Tensor, response: Tensor) -> Tensor:
        """u v: how much an answer says, and how likely it is for its concept; nothing of what was skipped."""
        likely = 1 - response + (2 * response - 1) * self.share_right[concept]
        likely = torch.where(response == SKIPPED, 0.0, likely)
        if self.training:
            return likely * torch.empty_like(likely).uniform_(LEAST_CERTAINTY, 1)
        return likely * (LEAST_CERTAINTY + 1) / 2


def _grow(tensor: Tensor) -> Tensor:
    """Room for one more position, at dimension 1."""
    return (
        torch.cat([tensor, torch.zeros_like(tensor[:, :1])], dim=1)
        if tensor.shape[1]
        else tensor.new_zeros(tensor.shape[0], 1, *tensor.shape[2:])
    )
