"""How the results page calls and orders logs, models, methods and metrics, and what numbers rest on."""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Any

from tsdr.methods import Method
from tsdr.paper import BACKBONES, is_sample, paper_dataset
from tsdr.records.changes import OWN_AUC
from tsdr.records.collection import Cell, Setup
from tsdr.records.run import PAPER_SIZES, LogName, Record

METRIC_NAMES = {
    "auc": "AUC",
    "acc": "ACC",
    "rmse": "RMSE",
    OWN_AUC: "AUC of a student's own answers, mean over students",
    "true_bce": "cross-entropy",
    "true_rmse": "RMSE",
    "true_auc": "AUC",
    "estimated_snips": "self-normalised inverse propensity weighting (SNIPS)",
    "estimated_dr": "doubly robust (DR)",
}


def log_name(log: LogName) -> str:
    """A log in words: what the paper calls it, whether it is a sample of that, how strongly it is selected.

    >>> log_name(LogName("simulated", 0.8, (1000, 200, 5, 50)))
    'simulated, gamma 0.8, 5 concepts, 50 answers at most'
    """
    if log.gamma is not None:
        sizes = zip(log.sizes or (), ("students", "questions", "concepts", "answers at most"), strict=False)
        other = [of for of, usual in zip_longest(sizes, PAPER_SIZES) if of and of[0] != usual]
        size = "".join(f", {number} {what}" for number, what in other)
        masked = "complete answers masked at " if log.is_masked else ""
        return f"{log.log}, {masked}gamma {log.gamma:g}{size}"
    paper = paper_dataset(log.log)
    if paper is None:
        return log.log
    return f"{log.log}, a sample of the paper's {paper}" if is_sample(log.log) else paper


def is_papers(log: LogName) -> bool:
    """Whether it is one of the paper's logs or a sample of one, and not a user's own."""
    return log.is_the_papers if log.gamma is not None else paper_dataset(log.log) is not None


def method_name(method: Method) -> str:
    """A method; which λ it is tuned over is left to a note.

    >>> method_name(Method.parse("tsdr-own:smoothness=0.5|2")), method_name(Method("tsdr"))
    ('tsdr-own, λ tuned', 'tsdr')
    """
    return f"{method.name}, λ tuned" if method.tuned == ("smoothness",) and len(method.changes) == 1 else str(method)


def model_names(cells: Iterable[Cell]) -> dict[tuple[str, Setup], str]:
    """What the model of each cell is called: its backbone and, if that was run otherwise on the same log, how."""
    on_log = defaultdict[tuple[str, str], list[Setup]](list)
    for cell in cells:
        on_log[cell.dataset, cell.model.backbone].append(cell.model)
    names = {}
    for (dataset, backbone), models in on_log.items():
        flat = {model: _flat(json.loads(model.setting)) for model in models}
        keys = sorted({key for settings in flat.values() for key in settings})
        differing = [key for key in keys if len({str(settings.get(key)) for settings in flat.values()}) > 1]
        for model in models:
            told = ", ".join(f"{key} {flat[model][key]}" for key in differing if key in flat[model])
            names[dataset, model] = f"{backbone} ({told})" if told else backbone
    return names


def _flat(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings of the backbone and of the training beside the others."""
    flat: dict[str, Any] = {}
    for key, found in settings.items():
        flat |= found if isinstance(found, dict) else {key: found}
    return flat


def basis(runs: Sequence[Record]) -> str:
    """What numbers rest on: how many held-out students of a log, seeds and folds."""
    tested = defaultdict[tuple[object, ...], dict[int, int]](dict)
    for run in runs:
        log = run.dataset, run.data, run.options.get("folds"), run.seed
        tested[log][run.fold] = run.students.get("test", 0)
    students = max((sum(of_fold.values()) for of_fold in tested.values()), default=0)
    return f"{counted(students, 'student')}, {seeds_by_folds(runs)} (seeds x folds)"


def seeds_by_folds(runs: Sequence[Record]) -> str:
    """Such as 3 x 5; the number of runs where seeds have not as many folds each."""
    seeds, folds = {run.seed for run in runs}, {(run.seed, run.fold) for run in runs}
    even = bool(seeds) and len(folds) % len(seeds) == 0
    return f"{len(seeds)} x {len(folds) // len(seeds)}" if even else f"{len(folds)} runs"


def counted(number: int, what: str) -> str:
    """A number of things.

    >>> counted(1, "log"), counted(1200, "log")
    ('1 log', '1,200 logs')
    """
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def place_of_backbone(backbone: str) -> tuple[int, str]:
    """The paper's order, then the alphabet's."""
    return (BACKBONES.index(backbone) if backbone in BACKBONES else len(BACKBONES)), backbone
