"""The records under a folder: each run once, sorted by log, model and method, methods paired fold by fold."""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tsdr.debias.objective import METHODS, DebiasOptions
from tsdr.errors import InputError
from tsdr.evaluation.records import Record, read_record
from tsdr.evaluation.significance import fold_of

# Options of a record that belong to its method, to its fold, or to what was watched; the others are the model's.
_OF_THE_METHOD = ("debias", "tuned")
_OF_THE_FOLD = ("data", "fold_seed")
_WATCHED = ("watched", "estimated")


@dataclass(frozen=True)
class Collection:
    """The records under a folder, how many files repeat one of them, and how many are no records."""

    folder: Path
    records: list[Record]
    repeated: int
    unread: int


@dataclass(frozen=True, order=True)
class Model:
    """A backbone with its options and those of its training: what methods are compared on."""

    backbone: str
    setting: str

    @classmethod
    def of(cls, record: Record) -> "Model":
        """The model of a run."""
        return cls(record.backbone, _without(record.options, *_OF_THE_METHOD, *_OF_THE_FOLD, *_WATCHED))


@dataclass(frozen=True)
class Cell:
    """The runs of one model on one log, by method."""

    dataset: str
    model: Model
    methods: dict[str, list[Record]]

    def ours(self) -> str | None:
        """tsdr with λ chosen on validation students, or else with its default λ; None if neither was run."""
        tuned = [name for name, runs in self.methods.items() if _tunes_smoothness(runs[0])]
        return max(tuned, key=lambda name: len(self.methods[name]), default="tsdr" if "tsdr" in self.methods else None)

    def paired(self, *methods: str) -> list[list[Record]]:
        """The runs of each method on the folds that all of them have, in the same order."""
        return on_common_folds([self.methods.get(method, []) for method in methods])


def collect(folder: Path) -> Collection:
    """Read every record under a folder, hidden folders left out."""
    if not folder.is_dir():
        raise InputError(f"{folder}: there is no such folder; name one that holds records")
    paths = (path for path in sorted(folder.rglob("*.json")) if not _hidden(path.relative_to(folder)))
    found: dict[str, Record] = {}
    files = unread = 0
    for path in paths:
        try:
            record = read_record(path)
        except InputError:
            unread += 1
            continue
        files += 1
        identity = "\n".join([*map(str, fold_of(record)), record.method, *_names(record)])
        known = found.get(identity)
        if known is None or len(record.by_student or ()) > len(known.by_student or ()):
            found[identity] = record  # of the same run, the record that says most
    if not found:
        others = f" ({unread} JSON files in it are no records)" if unread else ""
        raise InputError(
            f"{folder}: there are no records in it{others}; `tsdr reproduce` and `tsdr compare` write them"
        )
    return Collection(folder, list(found.values()), files - len(found), unread)


def cells(records: Iterable[Record]) -> list[Cell]:
    """Records by log and model; of a method with several sets of options, those nearest to its defaults.

    Of as many differences from the defaults, the set with the most runs is taken.
    """
    found: dict[tuple[str, Model], dict[str, dict[str, list[Record]]]] = defaultdict(dict)
    for record in records:
        variants = found[record.dataset, Model.of(record)].setdefault(record.method, {})
        variants.setdefault(_variant(record), []).append(record)
    return [
        Cell(dataset, model, {method: _nearest(variants) for method, variants in methods.items()})
        for (dataset, model), methods in sorted(found.items())
    ]


def on_common_folds(groups: Sequence[Sequence[Record]]) -> list[list[Record]]:
    """Of each group of runs, those on the folds that all groups have, in the same order."""
    by_fold = [{fold_of(run): run for run in runs} for runs in groups]
    common = [fold for fold in by_fold[0] if all(fold in other for other in by_fold)]
    return [[runs[fold] for fold in sorted(common, key=str)] for runs in by_fold]


def _nearest(variants: dict[str, list[Record]]) -> list[Record]:
    return min(variants.values(), key=lambda runs: (_differences(runs[0]), -len(runs)))


def _differences(record: Record) -> int:
    """How many of a method's options are not its defaults."""
    name, debias = record.method.split(":")[0], record.options.get("debias", {})
    if name not in METHODS:
        return 0
    defaults = DebiasOptions.of_method(name).model_dump(mode="json")
    return sum(defaults.get(option) != value for option, value in debias.items())


def _tunes_smoothness(record: Record) -> bool:
    """Whether a run is of tsdr with nothing changed but λ, chosen from several."""
    return record.method.startswith("tsdr:") and ":" not in record.method[5:] and _tuned(record) == ["smoothness"]


def _tuned(record: Record) -> list[str]:
    return list(record.options.get("tuned", {}))


def _names(record: Record) -> list[str]:
    return [record.backbone, _variant(record), Model.of(record).setting]


def _variant(record: Record) -> str:
    return json.dumps({name: record.options.get(name) for name in _OF_THE_METHOD}, sort_keys=True)


def _without(options: Any, *names: str) -> str:
    return json.dumps({name: value for name, value in options.items() if name not in names}, sort_keys=True)


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)
