"""simpleKT: plain attention over Rasch embeddings."""

from torch import Tensor, nn

from tsdr.backbones.attention import AttentionBackbone
from tsdr.backbones.contract import register_backbone
from tsdr.backbones.sizes import Size


@register_backbone("simplekt")
class SimpleKT(AttentionBackbone):
    """simpleKT (Liu et al., 2023).

    x = e_c + μ_q ⊙ d_c, μ_q a vector, and y = e_c + g_r, with fixed sine and cosine positions added to both;
    `blocks` strict retrievals of y by x with plain dot-product attention.
    """

    positional = True

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
    ) -> None:
        super().__init__(n_concepts, n_questions, d=d, heads=heads, dropout=dropout, size=size, difficulty_width=d)
        self.options["blocks"] = blocks
        self.retrieval.extend(self.block(*self.shaping()) for _ in range(blocks))

    def shaping(self) -> list[nn.Module]:
        """Plain scores."""
        return []

    def interaction(self, concept: Tensor, question: Tensor, correct: Tensor) -> Tensor:
        """y = e_c + g_r."""
        return self.target.concept(concept) + self.answered(correct)
