"""AKT: context-aware attentive knowledge tracing."""

from typing import Any

import torch
from torch import Tensor, nn

from tsdr.backbones.attention import AttentionBackbone, ForgettingDecay
from tsdr.backbones.contract import register_backbone
from tsdr.sequences import Batch

DIFFICULTY_PENALTY = 1e-5


@register_backbone("akt")
class AKT(AttentionBackbone):
    """Attentive knowledge tracing (Ghosh, Heffernan and Lan, 2020).

    x = e_c + μ_q d_c and y = e_c + g_r + μ_q (f_r + d_c), μ_q a number. `blocks` blocks of inclusive self-attention
    over y; then, as many times, inclusive self-attention over x without feed-forward and a strict retrieval of y
    by x. Scores s are multiplied by exp(-θ √δ): monotonic attention. No positions. The penalty is
    1e-5 Σ μ_q² over the batch's interactions.
    """

    def __init__(self, n_concepts: int, n_questions: int, **options: Any) -> None:
        super().__init__(n_concepts, n_questions, **options)
        self.answered_variation = nn.Embedding(self.responses, self.d)

    def add_block(self) -> None:
        """Self-attention over y, self-attention over x without feed-forward, and a retrieval of y by x."""
        self.knowledge.append(self.block(*self.shaping(), inclusive=True))
        self.retrieval.append(self.block(*self.shaping(), inclusive=True, feed_forward=False))
        self.retrieval.append(self.block(*self.shaping()))

    def shaping(self) -> list[nn.Module]:
        """How a block's attention scores are shaped."""
        return [ForgettingDecay(self.heads)]

    def interaction(self, concept: Tensor, question: Tensor, response: Tensor) -> Tensor:
        """y = e_c + g_r + μ_q (f_r + d_c)."""
        variation = self.answered_variation(response) + self.target.variation(concept)
        return self.target.concept(concept) + self.answered(response) + self.target.mu(question) * variation

    def penalty(self, batch: Batch) -> Tensor:
        """Difficulties are kept small."""
        return DIFFICULTY_PENALTY * torch.sum(self.target.mu(batch.question[batch.mask]) ** 2)

    def penalty_share(self, part: Batch, whole: Batch) -> float:
        """All of it: it is a sum."""
        return 1.0
