"""Knowledge-tracing models behind one contract: six of them, and a user's own."""

from tsdr.backbones import akt, diskt, dkt, folibikt, simplekt, sparsekt  # noqa: F401  (registers them)
from tsdr.backbones.contract import (
    AnyBackbone,
    Backbone,
    backbone_names,
    build_backbone,
    register_backbone,
)

__all__ = ["AnyBackbone", "Backbone", "backbone_names", "build_backbone", "register_backbone"]
