"""Results on disk: one JSON file a run, written when it ends, never rewritten."""

import hashlib
import json
import re
import resource
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from tsdr.errors import InputError, in_a_sentence
from tsdr.files import replacing


class Run(BaseModel):
    """What a run is: the same run has the same file name."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dataset: str
    backbone: str
    method: str
    options: Mapping[str, Any]
    fold: int
    seed: int

    def file_name(self) -> str:
        """Readable, and different for different options."""
        options = hashlib.sha256(json.dumps(self.options, sort_keys=True).encode()).hexdigest()[:8]
        name = re.sub(r"[^A-Za-z0-9._-]", "_", f"{self.dataset}-{self.backbone}-{self.method}")
        return f"{name}-{options}-seed{self.seed}-fold{self.fold}.json"


class Record(Run):
    """A run and what it came to.

    `metrics` are pooled over the logged answers of the test students, `true_...` over all cells of a simulated log,
    `estimated_...` over all cells of any log, resting on models; `per_student` are means over students. `by_student`
    has what each test student contributes to the metrics (`of_each_student` and, on simulated logs, `TrueRisk`) and
    `student`, the place among all students of the log; `calibration` has ten bins; a value that does not exist is null.
    `bias` is that of `TrueRisk`. `chosen` is what a tuned method settled on, `watched` what was watched after each
    epoch. `seconds` are those of training, of all that was tried if it was tuned.
    """

    metrics: Mapping[str, float]
    per_student: Mapping[str, float]
    bias: Mapping[str, float] | None = None
    by_student: Mapping[str, list[float | None]] | None = None
    calibration: Mapping[str, list[float | None]] | None = None
    students: Mapping[str, int]
    scored: int
    epochs: int
    best_epoch: int
    chosen: Mapping[str, Any] | None = None
    watched: list[dict[str, float]] | None = None
    seconds: float
    peak_memory_mib: float
    versions: Mapping[str, str]

    @property
    def seconds_an_epoch(self) -> float:
        """How long an epoch took on average."""
        return self.seconds / max(self.epochs, 1)

    @field_validator("metrics", "per_student", mode="before")
    @classmethod
    def _no_value_is_not_a_number(cls, metrics: Any) -> Any:
        """JSON has no NaN: a metric that does not exist, such as the AUC of right answers only, is null there."""
        if not isinstance(metrics, Mapping):
            return metrics
        return {name: float("nan") if value is None else value for name, value in metrics.items()}


class RecordFolder:
    """A folder of records."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def checkpoints(self) -> Path:
        """Where runs that are under way are kept."""
        return self.folder / ".checkpoints"

    def find(self, run: Run) -> Record | None:
        """The record of a run that has ended, if there is one."""
        path = self.folder / run.file_name()
        return read_record(path) if path.exists() else None

    def write(self, record: Record) -> None:
        """Keep a record; one that is there already stays as it is."""
        if (self.folder / record.file_name()).exists():
            return
        with replacing(self.folder / record.file_name()) as temporary:
            temporary.write_text(record.model_dump_json(indent=1) + "\n")

    def __iter__(self) -> Iterator[Record]:
        return (read_record(path) for path in sorted(self.folder.glob("*.json")))


def read_record(path: Path) -> Record:
    """Read one record."""
    try:
        return Record.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise InputError(f"{path}: is not a record ({in_a_sentence(error)}); remove it to run it again") from error


def peak_memory_mib() -> float:
    """The most memory that this process has held, in this run and those before it.

    On Linux as the kernel counts it for the process: what getrusage says includes what the parent held as it forked.
    """
    status = Path("/proc/self/status")
    found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text()) if status.exists() else None
    if found:
        return int(found[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
