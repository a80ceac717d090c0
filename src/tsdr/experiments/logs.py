"""The logs that experiments run on: simulated, real, or complete real answers seen through a known policy."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tsdr.errors import InputError
from tsdr.evaluation.crossval import Experiment
from tsdr.evaluation.records import RecordFolder
from tsdr.evaluation.truth import KnownSuccess
from tsdr.log import Log, read_log
from tsdr.masking import mask_responses
from tsdr.sequences import Folds, Sequences
from tsdr.simulator import simulate

SUFFIXES = (".parquet", ".csv", ".tsv", ".csv.gz", ".tsv.gz")


class LogSource(Protocol):
    """Where a log comes from."""

    @property
    def name(self) -> str:
        """What records call it."""

    def load(self, seed: int) -> tuple[Log, KnownSuccess | None]:
        """The log of a seed, and its truth if that is known; a real log is the same for every seed."""


@dataclass(frozen=True)
class Simulated:
    """A log by the simulator, drawn anew for every seed."""

    gamma: float
    students: int = 1000
    questions: int = 200
    concepts: int = 20

    @property
    def name(self) -> str:
        """The strength of selection, and the sizes where they are not the paper's."""
        sizes = (self.students, self.questions, self.concepts)
        shown = "" if sizes == (1000, 200, 20) else "-{}x{}x{}".format(*sizes)
        return f"simulated-gamma{self.gamma:g}{shown}"

    def load(self, seed: int) -> tuple[Log, KnownSuccess | None]:
        """Simulate it."""
        simulation = simulate(self.gamma, self.students, self.questions, self.concepts, seed)
        return simulation.log, simulation.truth


@dataclass(frozen=True)
class LogFile:
    """A log on disk."""

    name: str
    path: Path
    columns: Mapping[str, str]

    @classmethod
    def find(cls, name: str, folder: Path | None, columns: Mapping[str, str]) -> "LogFile":
        """The log of this name in a folder, as `tsdr prepare` or anybody else wrote it."""
        if folder is None:
            raise InputError(f"{name} is a real log: say with --data in which folder it lies")
        for suffix in SUFFIXES:
            if (folder / f"{name}{suffix}").is_file():
                return cls(name, folder / f"{name}{suffix}", columns)
        there = sorted({path.name.split(".")[0] for suffix in SUFFIXES for path in folder.glob(f"*{suffix}")})
        raise InputError(
            f"{folder}: there is no log {name} in it; choose with --datasets from what there is "
            f"({', '.join(there) or 'nothing'}), or add it as {name}.parquet or {name}.csv"
        )

    def load(self, seed: int) -> tuple[Log, KnownSuccess | None]:
        """Read it."""
        return read_log(self.path, self.columns), None


@dataclass(frozen=True)
class MaskedAnswers:
    """Complete real answers, logged through the simulator's skip policy: the answers that are not logged are known."""

    complete: LogFile
    gamma: float

    @property
    def name(self) -> str:
        """Of the log, and the strength of selection."""
        return f"{self.complete.name}-gamma{self.gamma:g}"

    def load(self, seed: int) -> tuple[Log, KnownSuccess | None]:
        """Read and mask it."""
        masked = mask_responses(self.complete.load(seed)[0], self.gamma, seed)
        return masked.log, masked.truth()


def experiment(source: LogSource, records: RecordFolder, folds: int, seed: int) -> Experiment:
    """Cross-validation on a log, as the paper does it."""
    log, truth = source.load(seed)
    sequences = Sequences.from_log(log)
    return Experiment(source.name, sequences, Folds.by_student(sequences.student, folds, seed=seed), records, truth)
