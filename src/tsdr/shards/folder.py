"""A folder of shards: what is in it, checked, and the students of some of its shards."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Literal

import polars as pl
from pydantic import BaseModel, ConfigDict, ValidationError

from tsdr.errors import InputError
from tsdr.files import replacing
from tsdr.log import Vocabulary

DESCRIPTION = "shards.json"
VERSION = 1
# A row a student, in the order of their names; lists are of the student's events, in order. A response of 2 is an
# offer that was skipped, and concepts and questions are places in the vocabulary.
SCHEMA = pl.Schema(
    {
        "student": pl.String(),
        "answers": pl.Int64(),
        "concept": pl.List(pl.Int32()),
        "question": pl.List(pl.Int32()),
        "response": pl.List(pl.Int8()),
    }
)


class Shard(BaseModel):
    """A file of the folder: its students, their answers and skipped offers, and the digest of its bytes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str
    students: int
    answers: int
    skips: int
    digest: str


class Description(BaseModel):
    """What is written of all shards; `written_by` is the version of tsdr."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["shards of a log"] = "shards of a log"
    version: int = VERSION
    written_by: str = metadata.version("tsdr")
    concepts: tuple[str, ...]
    questions: tuple[str, ...]
    shards: tuple[Shard, ...]

    def digest(self) -> str:
        """Tells this content from any other."""
        return hashlib.sha256(self.model_dump_json(exclude={"written_by"}).encode()).hexdigest()

    def write(self, folder: Path) -> None:
        """Write it, with its digest: a folder that has it is whole."""
        with replacing(folder / DESCRIPTION) as temporary:
            temporary.write_text(json.dumps({"digest": self.digest()} | self.model_dump(mode="json")))


@dataclass(frozen=True)
class Shards:
    """A log in shards, of which one holds all of a student's answers, and any is as good a sample of the students."""

    folder: Path
    description: Description

    def __len__(self) -> int:
        return len(self.description.shards)

    def __repr__(self) -> str:
        return f"Shards({self.folder}: {self.answers:,} answers of {self.students:,} students in {len(self)} shards)"

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The concepts and questions of the log."""
        return Vocabulary(self.description.concepts, self.description.questions)

    @property
    def students(self) -> int:
        """How many students there are."""
        return sum(shard.students for shard in self.description.shards)

    @property
    def answers(self) -> int:
        """How many answers there are."""
        return sum(shard.answers for shard in self.description.shards)

    @property
    def skipped_offers(self) -> int:
        """How many offers were shown and not answered."""
        return sum(shard.skips for shard in self.description.shards)

    def digest(self) -> str:
        """Tells this log from any other."""
        return self.description.digest()

    def read(self, number: int) -> pl.DataFrame:
        """A shard; it is checked when it is first read."""
        shard = self.description.shards[number]
        path = self.folder / shard.file
        if number not in self._checked:
            with _readable(path), path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            if digest != shard.digest:
                raise InputError(f"{path}: is not as it was written: altered or damaged; write the shards anew")
            self._checked.add(number)
        with _readable(path):
            return pl.read_parquet(path)

    @cached_property
    def _checked(self) -> set[int]:
        return set()


def is_shards(folder: str | Path) -> bool:
    """Whether it is a folder of shards, or was meant to be."""
    return (Path(folder) / DESCRIPTION).is_file()


def read_shards(folder: str | Path) -> Shards:
    """The shards that `write_shards` wrote into a folder."""
    folder = Path(folder)
    path = folder / DESCRIPTION
    if not folder.is_dir() or not path.is_file():
        raise InputError(f"{folder}: is no folder of shards, as `tsdr shard` writes it; there is no {DESCRIPTION}")
    try:
        content = json.loads(path.read_text())
        if not isinstance(content, dict) or content.get("version") != VERSION:
            found = content.get("version") if isinstance(content, dict) else None
            raise InputError(f"{path}: is of version {found}, and this is read: {VERSION}; write the shards anew")
        digest = content.pop("digest", None)
        description = Description.model_validate_json(json.dumps(content))
    except (OSError, ValidationError, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as what describes shards; write the shards anew") from error
    if description.digest() != digest:
        raise InputError(f"{path}: is not as it was written: altered or damaged; write the shards anew")
    return Shards(folder.resolve(), description)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Say of a shard that cannot be read that it cannot, and what to do."""
    try:
        yield
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InputError(f"{path}: cannot be read, and its folder says it is there; copy the folder anew") from error
