"""How the results page calls logs, models, methods and metrics."""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from tsdr.evaluation.changes import OWN_AUC
from tsdr.evaluation.collection import Cell, Model
from tsdr.evaluation.records import Record
from tsdr.experiments.paper import SELECTED, paper_dataset

METRIC_NAMES = {
    "auc": "AUC",
    "acc": "ACC",
    "rmse": "RMSE",
    OWN_AUC: "AUC of a student's own answers, mean over students",
    "true_bce": "cross-entropy",
    "true_rmse": "RMSE",
    "true_auc": "AUC",
}


def log_name(dataset: str) -> str:
    """A log in words: what the paper calls it, whether it is a sample of that, how strongly it is selected."""
    selected = SELECTED.fullmatch(dataset)
    if selected:
        sizes = selected["sizes"].split("x") if selected["sizes"] else None
        size = "" if sizes is None else ", {} students, {} questions, {} concepts".format(*sizes)
        return f"{selected['log']}, gamma {selected['gamma']}{size}"
    paper = paper_dataset(dataset)
    if paper is None:
        return dataset
    return f"{dataset}, a sample of the paper's {paper}" if is_sample(dataset) else paper


def is_sample(dataset: str) -> bool:
    """Whether a log is a part of one of the paper's."""
    return paper_dataset(dataset) is not None and "_" in dataset


def method_name(method: str) -> str:
    """A method, with what is chosen in every fold told apart from what is given.

    >>> method_name("tsdr:smoothness=0.5|2"), method_name("tsdr")
    ('tsdr, λ of 0.5|2', 'tsdr')
    """
    return method.replace(":smoothness=", ", λ of " if "|" in method else ", λ ")


def model_names(cells: Iterable[Cell]) -> dict[Model, str]:
    """The backbone of each model and, where it was run with several settings, what tells them apart."""
    by_backbone = defaultdict[str, set[Model]](set)
    for cell in cells:
        by_backbone[cell.model.backbone].add(cell.model)
    names = {}
    for backbone, models in by_backbone.items():
        flat = {model: _flat(json.loads(model.setting)) for model in models}
        keys = sorted({key for settings in flat.values() for key in settings})
        differing = [key for key in keys if len({str(settings.get(key)) for settings in flat.values()}) > 1]
        for model in models:
            told = ", ".join(f"{key} {flat[model][key]}" for key in differing if key in flat[model])
            names[model] = f"{backbone} ({told})" if told else backbone
    return names


def _flat(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings of the backbone and of the training beside the others."""
    flat: dict[str, Any] = {}
    for key, found in settings.items():
        flat |= found if isinstance(found, dict) else {key: found}
    return flat


def basis(runs: Sequence[Record]) -> str:
    """What numbers rest on: how many students, seeds and folds."""
    tested = defaultdict[tuple[object, ...], int](int)
    for run in runs:
        tested[run.dataset, run.backbone, run.options.get("data"), run.seed] += run.students.get("test", 0)
    seeds = {run.seed for run in runs}
    folds = {(run.seed, run.fold) for run in runs}
    students = f"{max(tested.values()):,} students, " if any(tested.values()) else ""
    if seeds and len(folds) % len(seeds) == 0:
        return f"{students}{counted(len(seeds), 'seed')} x {counted(len(folds) // len(seeds), 'fold')}"
    return f"{students}{counted(len(folds), 'run')} of {counted(len(seeds), 'seed')}"


def counted(number: int, what: str) -> str:
    """A number of things.

    >>> counted(1, "log"), counted(1200, "log")
    ('1 log', '1,200 logs')
    """
    return f"{number:,} {what}" + ("" if number == 1 else "s")
