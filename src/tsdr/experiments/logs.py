"""The logs that experiments run on: simulated, real, or complete real answers seen through a known policy."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tsdr.errors import InputError
from tsdr.judging.experiment import PAPER_VIEW, Experiment, View
from tsdr.log import Log, read_log
from tsdr.masking import mask_responses
from tsdr.records.folder import RecordFolder
from tsdr.records.run import PAPER_SIZES, LogName
from tsdr.simulator import Population, Recommender, simulate

USUAL_ANSWERS = Population().answers
SUFFIXES = (".parquet", ".csv", ".tsv", ".csv.gz", ".tsv.gz")


class LogSource(Protocol):
    """Where a log comes from."""

    @property
    def name(self) -> str:
        """What records call it."""

    def experiment(self, records: RecordFolder, folds: int, seed: int, view: View = PAPER_VIEW) -> Experiment:
        """Cross-validation on the log of a seed, with what is known of it; a real log is the same for every seed."""


@dataclass(frozen=True)
class Simulated:
    """A log by the simulator, drawn anew for every seed."""

    gamma: float
    students: int = PAPER_SIZES[0]
    questions: int = PAPER_SIZES[1]
    concepts: int = PAPER_SIZES[2]
    most_answers: int = USUAL_ANSWERS[1]
    recommended: bool = field(default=False, kw_only=True)

    @property
    def name(self) -> str:
        """The strength of selection, and the sizes where they are not the paper's."""
        sizes: tuple[int, ...] = self.students, self.questions, self.concepts
        if self.most_answers != USUAL_ANSWERS[1]:
            sizes = *sizes, self.most_answers
        name = LogName.simulated(self.gamma, None if sizes == PAPER_SIZES else sizes, recommended=self.recommended)
        return str(name)

    def experiment(self, records: RecordFolder, folds: int, seed: int, view: View = PAPER_VIEW) -> Experiment:
        """Simulate it."""
        recommender = Recommender() if self.recommended else None
        answers = min(USUAL_ANSWERS[0], self.most_answers), self.most_answers
        drawn = simulate(
            self.gamma,
            self.students,
            self.questions,
            self.concepts,
            seed,
            population=Population(answers=answers),
            recommender=recommender,
        )
        log = drawn.offers() if view.skips else drawn.log
        return Experiment.of_log(self.name, log, records, simulation=drawn, folds=folds, seed=seed, view=view)


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

    def read(self) -> Log:
        """Read it."""
        return read_log(self.path, self.columns)

    def experiment(self, records: RecordFolder, folds: int, seed: int, view: View = PAPER_VIEW) -> Experiment:
        """Read it."""
        return Experiment.of_log(self.name, self.read(), records, folds=folds, seed=seed, view=view)


@dataclass(frozen=True)
class MaskedAnswers:
    """Complete real answers, logged through the simulator's skip policy: the answers that are not logged are known."""

    complete: LogFile
    gamma: float

    @property
    def name(self) -> str:
        """Of the log, and the strength of selection."""
        return str(LogName(self.complete.name, self.gamma))

    def experiment(self, records: RecordFolder, folds: int, seed: int, view: View = PAPER_VIEW) -> Experiment:
        """Read and mask it."""
        masked = mask_responses(self.complete.read(), self.gamma, seed)
        truth = masked.truth()
        log = masked.offers() if view.skips else masked.log
        return Experiment.of_log(self.name, log, records, truth=truth, folds=folds, seed=seed, view=view)


def source_named(name: str, data: Path | None, columns: Mapping[str, str]) -> LogSource:
    """The log of a name: simulated-gamma0.8, a file in the folder `data`, or one with its answers masked.

    >>> source_named("recommended-gamma0", None, {}).name
    'recommended-gamma0'
    """
    log = LogName.parse(name)
    if log.gamma is None:
        return LogFile.find(name, data, columns)
    if log.gamma > 1:
        raise InputError(f"{name}: gamma is from 0 to 1")
    if log.is_masked:
        return MaskedAnswers(LogFile.find(log.log, data, columns), log.gamma)
    return Simulated(log.gamma, *(log.sizes or PAPER_SIZES), recommended=log.is_recommended)
