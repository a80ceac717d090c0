"""sparseKT: simpleKT that attends to a few past answers only."""

from typing import Any

from torch import nn

from tsdr.backbones.attention import TopK
from tsdr.backbones.contract import register_backbone
from tsdr.backbones.simplekt import SimpleKT


@register_backbone("sparsekt")
class SparseKT(SimpleKT):
    """sparseKT with top-k attention (Huang et al., 2023).

    simpleKT, but a row that sees more than k positions keeps its k largest scores. Causality and top-k mask the
    scores before the one softmax: a second, unmasked softmax would give weight to the future.
    """

    def __init__(self, n_concepts: int, n_questions: int, *, k: int = 5, **options: Any) -> None:
        self.k = k
        super().__init__(n_concepts, n_questions, **options)
        self.options["k"] = k

    def shaping(self) -> list[nn.Module]:
        """Keep the k largest."""
        return [TopK(self.k)]
