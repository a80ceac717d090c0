"""Debiased knowledge tracing: what students really know, from logs that were never a fair sample."""

from tsdr.backbones import Backbone, build_backbone, register_backbone
from tsdr.backbones.checks import check_backbone
from tsdr.errors import InputError
from tsdr.evaluation.diagnostics import diagnose
from tsdr.inspection import inspect_log
from tsdr.log import Log, Vocabulary, read_log
from tsdr.masking import mask_responses
from tsdr.sequences import Batch, Folds, Sequences
from tsdr.serving.model import load
from tsdr.simulator import Population, Recommender, read_simulation, simulate

__all__ = [
    "Backbone",
    "Batch",
    "Folds",
    "InputError",
    "Log",
    "Population",
    "Recommender",
    "Sequences",
    "Vocabulary",
    "build_backbone",
    "check_backbone",
    "diagnose",
    "inspect_log",
    "load",
    "mask_responses",
    "read_log",
    "read_simulation",
    "register_backbone",
    "simulate",
]
