"""Results on disk: one JSON file a run, written when it ends, never rewritten; who likes may gzip it."""

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tsdr.errors import InputError, in_a_sentence
from tsdr.files import replacing
from tsdr.records.run import Record, Run

_ZIPPED = ".gz"


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
        path = self._path(run)
        return None if path is None else read_record(path)

    def write(self, record: Record) -> None:
        """Keep a record; one that is there already stays as it is."""
        if self._path(record) is not None:
            return
        with replacing(self.folder / record.file_name()) as temporary:
            temporary.write_text(_laid_out(json.loads(record.model_dump_json())) + "\n")

    def __iter__(self) -> Iterator[Record]:
        return (read_record(path) for path in record_files(self.folder))

    def _path(self, run: Run) -> Path | None:
        plain = self.folder / run.file_name()
        return next((path for path in (plain, plain.with_name(plain.name + _ZIPPED)) if path.exists()), None)


def record_files(folder: Path, *, below: bool = False) -> list[Path]:
    """The JSON files of a folder, gzipped ones among them, and those of folders `below` it, in order."""
    found = folder.rglob if below else folder.glob
    return sorted(path for ending in ("", _ZIPPED) for path in found(f"*.json{ending}"))


def read_record(path: Path) -> Record:
    """Read one record."""
    try:
        content = path.read_bytes()
        return Record.model_validate_json(gzip.decompress(content) if path.suffix == _ZIPPED else content)
    except (OSError, EOFError, zlib.error, ValidationError) as error:
        raise InputError(f"{path}: is not a record ({in_a_sentence(error)}); remove it to run it again") from error


def _laid_out(value: Any, depth: int = 0) -> str:
    """JSON with a line for each member of an object, and one for a whole list."""
    if not isinstance(value, dict) or not value:
        return json.dumps(value, separators=(",", ":"))
    indent = " " * depth
    members = (f"{indent} {json.dumps(name)}: {_laid_out(of, depth + 1)}" for name, of in value.items())
    return "{\n" + ",\n".join(members) + f"\n{indent}}}"
