"""Debiased knowledge tracing: what students really know, from logs that were never a fair sample."""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tsdr.backbones import Backbone, build_backbone, register_backbone
    from tsdr.backbones.checks import check_backbone
    from tsdr.backbones.plugins import load_plugin
    from tsdr.comparison import Comparison, compare
    from tsdr.datasets import prepare
    from tsdr.diagnosis.diagnose import diagnose
    from tsdr.errors import InputError
    from tsdr.fitting import fit
    from tsdr.folds import Folds
    from tsdr.inspection import inspect_log
    from tsdr.log import Log, Vocabulary, read_log
    from tsdr.masking import mask_responses
    from tsdr.methods import DebiasOptions, Method
    from tsdr.models.model import Model, Session, load
    from tsdr.sequences import Batch, Sequences
    from tsdr.shards.folder import Shards, read_shards
    from tsdr.shards.writing import write_shards
    from tsdr.simulator import Population, Recommender, Simulation, read_simulation, simulate
    from tsdr.training.options import TrainingOptions

# A thread that waits for another one gives up its core: the other may be waiting for one, where cores are shared. (What
# torch computes with reads this as it is loaded.)
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# Each is imported when it is first asked for: torch takes a second, and most of what a log is asked needs none of it.
_WHERE = {
    "tsdr.backbones": ("Backbone", "build_backbone", "register_backbone"),
    "tsdr.backbones.checks": ("check_backbone",),
    "tsdr.backbones.plugins": ("load_plugin",),
    "tsdr.comparison": ("Comparison", "compare"),
    "tsdr.datasets": ("prepare",),
    "tsdr.diagnosis.diagnose": ("diagnose",),
    "tsdr.errors": ("InputError",),
    "tsdr.fitting": ("fit",),
    "tsdr.folds": ("Folds",),
    "tsdr.inspection": ("inspect_log",),
    "tsdr.log": ("Log", "Vocabulary", "read_log"),
    "tsdr.masking": ("mask_responses",),
    "tsdr.methods": ("DebiasOptions", "Method"),
    "tsdr.models.model": ("Model", "Session", "load"),
    "tsdr.sequences": ("Batch", "Sequences"),
    "tsdr.shards.folder": ("Shards", "read_shards"),
    "tsdr.shards.writing": ("write_shards",),
    "tsdr.simulator": ("Population", "Recommender", "Simulation", "read_simulation", "simulate"),
    "tsdr.training.options": ("TrainingOptions",),
}
_MODULE = {name: module for module, names in _WHERE.items() for name in names}

__all__ = [
    "Backbone",
    "Batch",
    "Comparison",
    "DebiasOptions",
    "Folds",
    "InputError",
    "Log",
    "Method",
    "Model",
    "Population",
    "Recommender",
    "Sequences",
    "Session",
    "Shards",
    "Simulation",
    "TrainingOptions",
    "Vocabulary",
    "build_backbone",
    "check_backbone",
    "compare",
    "diagnose",
    "fit",
    "inspect_log",
    "load",
    "load_plugin",
    "mask_responses",
    "prepare",
    "read_log",
    "read_shards",
    "read_simulation",
    "register_backbone",
    "simulate",
    "write_shards",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULE[name]), name)


def __dir__() -> list[str]:
    return __all__
