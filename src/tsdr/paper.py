"""The paper: its numbers, and the grid on which it has them."""

import json
import re
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from tsdr.methods import OWN, Method

BACKBONES = ("dkt", "akt", "simplekt", "folibikt", "sparsekt", "diskt")
GAMMAS = (0.0, 0.2, 0.4, 0.6, 0.8, 0.999)
LAMBDAS = (0.1, 0.3, 0.5, 0.7, 1.0, 2.0)
# The steps of its ablation before the last, which is tsdr-own: auxiliary models frozen, then joint, then the backbone
# kept smooth instead of the imputation model.
ABLATION = tuple(Method.parse(f"{OWN}:{changes}") for changes in ("smooth=off:joint=false", "smooth=off", "smooth=kt"))
# How the name of a sample ends: with how many students it has, or that it is of the first.
_SAMPLE = re.compile(r"_(\d+users|first)$")
# What it calls the data sets that can be prepared here.
_NAMES = {
    "spanish": "Spanish",
    "assistments17": "ASSISTments17",
    "assist17": "ASSISTments17",
    "slepemapy": "Slepemapy",
    "algebra05": "Algebra05",
    "prob": "Prob",
    "linux": "Linux",
    "database": "Database",
    "comp": "Comp",
    "ednet": "EdNet",
}


def with_lambda(method: Method, lambdas: Sequence[float]) -> Method:
    """A method with λ chosen on the validation students of each fold; as it is if there is only its default."""
    if tuple(lambdas) == (method.options().smoothness,):
        return method
    return Method(method.name, (("smoothness", tuple(f"{value:g}" for value in lambdas)),))


def paper_numbers() -> dict[str, Any]:
    """Its tables."""
    return json.loads(files("tsdr").joinpath("paper.json").read_text())


def paper_dataset(name: str) -> str | None:
    """What the paper calls a log; a sample's name begins with that of the whole, and ends with what is of it.

    >>> paper_dataset("ednet_1000users"), paper_dataset("our_own"), paper_dataset("database_of_ours")
    ('EdNet', None, None)
    """
    return _NAMES.get(_SAMPLE.sub("", name))


def is_sample(name: str) -> bool:
    """Whether a log is a part of one of the paper's."""
    return paper_dataset(name) is not None and name not in _NAMES
