"""The records under a folder: each run once, sorted by log, model and method, methods paired fold by fold."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tsdr.errors import InputError
from tsdr.methods import OBJECTIVES, OWN, TSDR, Method, options_of
from tsdr.records.folder import read_record, record_files
from tsdr.records.run import LIMIT, LIMIT_WITH_SKIPS, LogName, Record
from tsdr.records.significance import fold_of


@dataclass(frozen=True)
class Collection:
    """The records under a folder, how many files repeat one of them, and how many are no records."""

    folder: Path
    records: list[Record]
    repeated: int
    unread: int


@dataclass(frozen=True, order=True)
class Setup:
    """A backbone with its options and those of its training: what methods are compared on."""

    backbone: str
    setting: str

    @classmethod
    def of(cls, record: Record) -> "Setup":
        """That of a run."""
        return cls(record.backbone, record.model_settings)


@dataclass(frozen=True)
class Cell:
    """The runs of one model on one log, by method, and of the best possible predictor there, where it was run."""

    dataset: str
    model: Setup
    methods: dict[Method, list[Record]]
    limit: list[Record] = field(default_factory=list)

    @property
    def log(self) -> LogName:
        """The log, by the parts of its name."""
        return LogName.parse(self.dataset)

    @property
    def has_truth(self) -> bool:
        """Whether some of the runs were held against the truth."""
        return any(run.has_truth for runs in self.methods.values() for run in runs)

    def ours(self) -> Method | None:
        """tsdr or, where it was not run, tsdr-own, with its default λ or with λ chosen; None if none of them was."""
        tuned = (method for method in self.methods if method.name == OWN.name and method.tuned == ("smoothness",))
        return next((method for method in (TSDR, OWN, *tuned) if method in self.methods), None)

    def paired(self, *methods: Method | None) -> list[list[Record]]:
        """The runs of each method on the folds that all of them have, in the same order."""
        return on_common_folds([[] if method is None else self.methods.get(method, []) for method in methods])


def collect(folder: Path) -> Collection:
    """Read every record under a folder, hidden folders left out."""
    if not folder.is_dir():
        raise InputError(f"{folder}: there is no such folder; name one that holds records")
    paths = (path for path in record_files(folder, below=True) if not _hidden(path.relative_to(folder)))
    found: dict[str, Record] = {}
    files = unread = 0
    for path in paths:
        try:
            record = read_record(path)
        except InputError:
            unread += 1
            continue
        files += 1
        about = record.method, record.backbone, record.method_settings, record.model_settings
        identity = "\n".join(map(str, [*fold_of(record), *about]))
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

    Of as many differences from the defaults, the set with the most runs is taken. Baselines are no models; of them, the
    best possible predictor goes with every model on its log.
    """
    limits = defaultdict[str, list[Record]](list)
    found: dict[tuple[str, Setup], dict[Method, dict[str, list[Record]]]] = defaultdict(dict)
    for record in records:
        if record.method.is_baseline:
            if record.backbone == (LIMIT_WITH_SKIPS if record.skips_read else LIMIT):
                limits[record.dataset].append(record)
            continue
        variants = found[record.dataset, Setup.of(record)].setdefault(record.method, {})
        variants.setdefault(record.method_settings, []).append(record)
    return [
        Cell(dataset, model, {method: _nearest(of) for method, of in methods.items()}, limits[dataset])
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
    if record.method.name not in OBJECTIVES:
        return 0
    defaults = options_of(record.method.name).model_dump(mode="json")
    return sum(defaults.get(option) != value for option, value in record.debias.items())


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)
