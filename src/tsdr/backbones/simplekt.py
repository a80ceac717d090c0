"""simpleKT: plain attention over Rasch embeddings."""

from torch import Tensor, nn

from tsdr.backbones.attention import AttentionBackbone
from tsdr.backbones.contract import register_backbone


@register_backbone("simplekt")
class SimpleKT(AttentionBackbone):
    """simpleKT (Liu et al., 2023).

    x = e_c + μ_q ⊙ d_c, μ_q a vector, and y = e_c + g_r, with fixed sine and cosine positions added to both;
    `blocks` strict retrievals of y by x with plain dot-product attention.
    """

    positional = True
    vector_difficulty = True

    def add_block(self) -> None:
        """A strict retrieval."""
        self.retrieval.append(self.block(*self.shaping()))

    def shaping(self) -> list[nn.Module]:
        """Plain scores."""
        return []

    def interaction(self, concept: Tensor, question: Tensor, response: Tensor) -> Tensor:
        """y = e_c + g_r."""
        return self.target.concept(concept) + self.answered(response)
