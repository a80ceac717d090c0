"""Results on disk: one JSON file a run, written when it ends, never rewritten."""

import hashlib
import json
import resource
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

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
        return f"{self.dataset}-{self.backbone}-{self.method}-{options}-seed{self.seed}-fold{self.fold}.json"


class Record(Run):
    """A run and what it came to."""

    metrics: Mapping[str, float]
    per_student: Mapping[str, float]
    students: Mapping[str, int]
    scored: int
    epochs: int
    best_epoch: int
    seconds: float
    peak_memory_mib: float
    versions: Mapping[str, str]


class RecordFolder:
    """A folder of records."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find(self, run: Run) -> Record | None:
        """The record of a run that has ended, if there is one."""
        path = self.folder / run.file_name()
        return read_record(path) if path.exists() else None

    def write(self, record: Record) -> None:
        """Keep a record."""
        with replacing(self.folder / record.file_name()) as temporary:
            temporary.write_text(record.model_dump_json(indent=1) + "\n")

    def __iter__(self) -> Iterator[Record]:
        return (read_record(path) for path in sorted(self.folder.glob("*.json")))


def read_record(path: Path) -> Record:
    """Read one record."""
    try:
        return Record.model_validate_json(path.read_text())
    except (OSError, ValidationError) as error:
        raise InputError(f"{path}: is not a record ({in_a_sentence(error)}); remove it to run it again") from error


def peak_memory_mib() -> float:
    """The most memory that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
