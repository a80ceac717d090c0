"""The paper's experiments as data: for each, its logs and its methods; and the paper's own numbers."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

from tsdr.datasets import SOURCES
from tsdr.debias.objective import DebiasOptions
from tsdr.errors import InputError
from tsdr.evaluation.crossval import RANDOM_EXPOSURE, plan_folds
from tsdr.evaluation.records import RecordFolder
from tsdr.experiments.engines import Job
from tsdr.experiments.logs import LogFile, LogSource, MaskedAnswers, Simulated, experiment
from tsdr.training.trainer import TrainingOptions

BACKBONES = ("dkt", "akt", "simplekt", "folibikt", "sparsekt", "diskt")
GAMMAS = (0.0, 0.2, 0.4, 0.6, 0.8, 0.999)
LAMBDAS = (0.1, 0.3, 0.5, 0.7, 1.0, 2.0)
FOLDS, SEED = 5, 42
# What a log is called that was selected by a known policy: simulated, or complete answers of a log that were masked.
SELECTED = re.compile(r"(?P<log>.+)-gamma(?P<gamma>\d+(?:\.\d+)?)(?:-(?P<sizes>\d+x\d+x\d+))?")
# How the paper calls the data sets that can be prepared here.
PAPER_NAMES = {
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


@dataclass(frozen=True)
class Study:
    """An experiment: the logs and the methods that it takes if it is not told otherwise.

    `methods` gets the values of λ. Runs that are `timed` are computed one at a time, each in a process of its own, and
    are not held against the truth, which would take far longer than they do.
    """

    what: str
    datasets: tuple[str, ...]
    methods: Callable[[Sequence[float]], Sequence[str]]
    training: Mapping[str, Any] = field(default_factory=dict)
    timed: bool = False


def tsdr_with(lambdas: Sequence[float]) -> str:
    """tsdr with λ chosen on the validation students of each fold; plain `tsdr` if there is only its default."""
    if tuple(lambdas) == (DebiasOptions().smoothness,):
        return "tsdr"
    return "tsdr:smoothness=" + "|".join(f"{value:g}" for value in lambdas)


STUDIES = {
    "table1": Study(
        "every backbone on real logs, with and without tsdr (Table 1)",
        tuple(name for name, source in SOURCES.items() if source.paper),
        lambda lambdas: ("naive", tsdr_with(lambdas)),
    ),
    "synthetic": Study(
        "the same on simulated logs at six strengths of selection (Figure 3 and its table), against the truth",
        tuple(f"simulated-gamma{gamma:g}" for gamma in GAMMAS),
        lambda lambdas: ("naive", tsdr_with(lambdas), RANDOM_EXPOSURE),
    ),
    "sensitivity": Study(
        "tsdr at every λ (Figure 4)",
        ("simulated-gamma0.8",),
        lambda lambdas: ("naive", *(tsdr_with([value]) for value in (0.0, *lambdas))),
    ),
    "ablation": Study(
        "doubly robust learning: frozen, joint, the backbone smooth, the imputation model smooth (the ablation table)",
        ("simulated-gamma0.8",),
        lambda lambdas: (
            "naive",
            "tsdr:smooth=off:joint=false",
            "tsdr:smooth=off",
            "tsdr:smooth=kt",
            tsdr_with(lambdas),
        ),
    ),
    "overhead": Study(
        "time and memory of an epoch (the overhead table), on a simulated log of the size of Prob",
        ("simulated-gamma0.8-512x1054x247",),
        lambda lambdas: ("naive", "tsdr"),
        training={"max_epochs": 3},
        timed=True,
    ),
    "real-answers": Study(
        "complete real answers seen through a known skip policy: risk over all answers of held-out students",
        ("math1-gamma0.8", "math2-gamma0.8", "frcsub-gamma0.8"),
        lambda lambdas: ("naive", "tsdr-unweighted", tsdr_with(lambdas), RANDOM_EXPOSURE),
    ),
}


def source_named(name: str, data: Path | None, columns: Mapping[str, str]) -> LogSource:
    """The log of a name: simulated-gamma0.8, a file in the folder `data`, or one with its answers masked.

    >>> source_named("simulated-gamma0.4", None, {}).name
    'simulated-gamma0.4'
    """
    found = SELECTED.fullmatch(name)
    if found is None:
        return LogFile.find(name, data, columns)
    gamma = float(found["gamma"])
    if gamma > 1:
        raise InputError(f"{name}: gamma is from 0 to 1")
    if found["log"] != "simulated":
        return MaskedAnswers(LogFile.find(found["log"], data, columns), gamma)
    return Simulated(gamma, *(int(size) for size in (found["sizes"] or "1000x200x20").split("x")))


def plan_study(
    study: Study,
    sources: Sequence[LogSource],
    backbones: Iterable[str],
    methods: Sequence[str],
    records: RecordFolder,
    *,
    folds: int,
    seeds: Iterable[int],
) -> Iterator[Job]:
    """The runs of a study, log by log and backbone by backbone; what is named twice is run once."""
    for seed, source in product(dict.fromkeys(seeds), {source.name: source for source in sources}.values()):
        tested = experiment(source, records, folds, seed)
        if study.timed:
            tested = replace(tested, truth=None)
        training = TrainingOptions(seed=seed, **study.training)
        for backbone, method in product(dict.fromkeys(backbones), dict.fromkeys(methods)):
            for fold_run in plan_folds(tested, backbone=backbone, options={}, training=training, method=method):
                yield Job(tested, fold_run)


def paper_numbers() -> dict[str, Any]:
    """The tables of the paper."""
    return json.loads(files("tsdr.experiments").joinpath("paper.json").read_text())


def paper_dataset(name: str) -> str | None:
    """What the paper calls a log; a sample's name begins with that of the whole.

    >>> paper_dataset("ednet_1000users"), paper_dataset("our_own")
    ('EdNet', None)
    """
    return PAPER_NAMES.get(name.split("_")[0])
