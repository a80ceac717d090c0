"""FoLiBiKT: AKT with a forgetting-aware linear bias."""

from torch import nn

from tsdr.backbones.akt import AKT
from tsdr.backbones.attention import LinearBias
from tsdr.backbones.contract import register_backbone


@register_backbone("folibikt")
class FoLiBiKT(AKT):
    """Forgetting-aware linear bias for attentive knowledge tracing (Im et al., 2023).

    AKT; before the decay, -m_head |t - τ| is added to the scores, with fixed slopes m = 2^(-8 i / heads).
    """

    def shaping(self) -> list[nn.Module]:
        """The bias, then AKT's decay."""
        return [LinearBias(self.heads), *super().shaping()]
