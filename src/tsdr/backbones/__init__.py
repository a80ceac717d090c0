"""Knowledge-tracing models behind one contract: the paper's six, a logistic one to be beaten, and a user's own."""

from tsdr.backbones import akt, counts, diskt, dkt, folibikt, hybrid, simplekt, sparsekt  # noqa: F401  (registers them)
from tsdr.backbones.contract import (
    AnyBackbone,
    Backbone,
    backbone_names,
    build_backbone,
    register_backbone,
)

__all__ = ["AnyBackbone", "Backbone", "backbone_names", "build_backbone", "register_backbone"]
