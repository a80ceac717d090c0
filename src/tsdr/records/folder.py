"""Results on disk: one JSON file a run, written when it ends, never rewritten."""

from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from tsdr.errors import InputError, in_a_sentence
from tsdr.files import replacing
from tsdr.records.run import Record, Run


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
