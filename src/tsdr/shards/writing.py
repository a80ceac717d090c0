"""From a log of any size to shards: its rows are dealt out by student, some at a time; then each shard is sorted."""

import hashlib
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import DTypeLike, NDArray

from tsdr.defaults import UNZIPPED_LIMIT
from tsdr.errors import InputError
from tsdr.files import new_folder
from tsdr.log import SKIPPED, Log, LogParts, Vocabulary
from tsdr.shards.folder import SCHEMA, Description, Shard, Shards, read_shards
from tsdr.tables import write_parquet

ROWS = 2**19  # of a shard, about


def write_shards(
    log: str | Path | Sequence[str | Path],
    folder: str | Path,
    columns: Mapping[str, str | None] | None = None,
    *,
    concept_separator: str | None = None,
    separator: str | None = None,
    unzipped_limit: float = UNZIPPED_LIMIT,
    rows: int = ROWS,
    on_stage: Callable[[str], None] = lambda stage: None,
) -> Shards:
    """Write a log, or several files of one, in shards of about so many `rows`, whole or not at all.

    The log may be larger than memory. Its files are read as `read_log` reads them, with the same checks; a student may
    be in several of them. A student's shard goes by the name alone.
    """
    files = [log] if isinstance(log, str | Path) else log
    parts = [
        LogParts(path, columns, concept_separator=concept_separator, separator=separator, unzipped_limit=unzipped_limit)
        for path in files
    ]
    orders = {part.order: part.path for part in parts}
    if len(orders) > 1:
        told = ", ".join(f"{path}: {order or 'none'}" for order, path in orders.items())
        raise InputError(f"the files have not the same column that answers are in the order of ({told}); give them one")
    number = max(1, round(sum(part.rows for part in parts) / rows))
    with new_folder(Path(folder)) as temporary:
        dealt = _Dealt(temporary, number)
        for part in parts:
            for some in part:
                dealt.deal(some, part.order)
                on_stage(f"Dealing: {dealt.rows:,} rows")
        if not dealt.rows:
            raise InputError(f"{files[0]}: has a header and no rows; there is nothing to learn from")
        vocabulary = dealt.vocabulary()
        shards = []
        for shard in dealt.shards():
            shards.append(shard)
            on_stage(f"Sorting: {len(shards):,} of {number:,} shards")
        vocabulary.check_learnable(sum(shard.answers for shard in shards))
        Description(concepts=vocabulary.concepts, questions=vocabulary.questions, shards=tuple(shards)).write(temporary)
    return read_shards(folder)


class _Dealt:
    """Rows that were dealt out to shards, each shard's in files that grow until it is written.

    The rows of a student that come one after the other are a run: a file has its rows, another the names of its runs.
    The names of concepts and questions are numbered as they come; what they are sorted is known at the end.
    """

    def __init__(self, folder: Path, number: int) -> None:
        self.folder = folder
        self.rows = 0
        self.names = {name: _Names() for name in ("concept", "question")}
        self.piles = [_Pile(folder / f"{shard}.rows", folder / f"{shard}.runs") for shard in range(number)]
        self.dated: bool | None = None

    def deal(self, log: Log, order: str | None) -> None:
        """Lay the rows of a part of a log down, each with its shard's."""
        if not len(log):
            return
        when = pl.repeat(0, len(log), eager=True) if order is None else log.frame[order]
        dated, self.dated = self.dated, when.dtype.is_temporal()
        if dated not in (None, self.dated):
            raise InputError(
                f"{log.source}: has times that are date-times in some rows and numbers in others; write them alike"
            )
        when = when.cast(pl.Int64) if self.dated else when
        runs = log.frame["student"].rle().struct
        names = runs.field("value").to_list()
        shard = np.array([zlib.crc32(name.encode()) % len(self.piles) for name in names])
        of_row = np.arange(len(names)).repeat(runs.field("len").to_numpy())
        rows = np.empty(len(log), _row(when.to_numpy().dtype))
        rows["order"], rows["response"] = when.to_numpy(), log.frame["correct"].fill_null(SKIPPED).to_numpy()
        for name, numbers in self.names.items():
            rows[name] = numbers.numbered(log.frame[name]).to_numpy()
        by_shard, starts = np.argsort(shard[of_row], kind="stable"), np.arange(len(self.piles) + 1)
        cuts = np.searchsorted(shard[of_row][by_shard], starts)
        for pile, begin, end in zip(self.piles, cuts[:-1], cuts[1:], strict=True):
            of_pile = by_shard[begin:end]
            own, rows["run"][of_pile] = np.unique(of_row[of_pile], return_inverse=True)
            pile.lay_down(rows[of_pile], [names[run] for run in own])
        self.rows += len(log)

    def vocabulary(self) -> Vocabulary:
        """The concepts and questions that there are, sorted by name."""
        return Vocabulary(*(tuple(self.names[name].names.sort()) for name in ("concept", "question")))

    def shards(self) -> Iterator[Shard]:
        """Write each shard, its students in the order of their names and their events in order, and drop its pile."""
        places = {name: names.places() for name, names in self.names.items()}
        for number, pile in enumerate(pile for pile in self.piles if pile.parts):
            frame = pile.take_up()
            students = (
                frame.with_columns(place.gather(frame[name]).alias(name) for name, place in places.items())
                .sort("student", "order", maintain_order=True)
                .group_by("student", maintain_order=True)
                .agg((pl.col("response") != SKIPPED).sum().cast(pl.Int64).alias("answers"), *places, "response")
            )
            path = self.folder / f"{number:05d}.parquet"
            write_parquet(students.match_to_schema(SCHEMA), path)
            answers = int(students["answers"].sum())
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            yield Shard(
                file=path.name,
                students=students.height,
                answers=answers,
                skips=frame.height - answers,
                digest=digest,
            )


class _Pile:
    """The rows of a shard as they come: `parts` says of each part how many rows and runs it has, and of which type."""

    def __init__(self, rows: Path, runs: Path) -> None:
        self.rows, self.runs = rows, runs
        self.parts: list[tuple[int, int, np.dtype[Any]]] = []

    def lay_down(self, rows: NDArray[Any], runs: Sequence[str]) -> None:
        """Put some rows on top; their runs are numbered from 0."""
        if not len(rows):
            return
        with self.rows.open("ab") as file:
            file.write(rows.tobytes())
        with self.runs.open("a") as file:
            file.writelines(f"{json.dumps(name)}\n" for name in runs)
        self.parts.append((len(rows), len(runs), rows.dtype))

    def take_up(self) -> pl.DataFrame:
        """All of them, from the first on, and nothing is left."""
        with self.runs.open() as file:
            names = pl.Series((json.loads(line) for line in file), dtype=pl.String)
        with self.rows.open("rb") as file:
            parts = [np.fromfile(file, dtype, rows) for rows, _, dtype in self.parts]
        columns = {name: np.concatenate([part[name] for part in parts]) for name in _row().names or ()}
        before = np.cumsum([0, *(runs for _, runs, _ in self.parts[:-1])]).repeat([len(part) for part in parts])
        self.rows.unlink()
        self.runs.unlink()
        return pl.DataFrame(columns).with_columns(student=names.gather(columns["run"] + before)).drop("run")


def _row(order: DTypeLike = np.int64) -> np.dtype[Any]:
    """A row as it lies in a file, with what it is in the order of."""
    numbers = [(name, np.int32) for name in ("run", "concept", "question")]
    return np.dtype([*numbers, ("response", np.int8), ("order", order)])


class _Names:
    """Names, numbered in the order in which they come."""

    def __init__(self) -> None:
        self.names = pl.Series(dtype=pl.String)

    def numbered(self, column: pl.Series) -> pl.Series:
        """The numbers of these names, of which some may be new."""
        self.names = pl.concat([self.names, column.unique()]).unique(maintain_order=True)
        numbers = pl.Series(range(len(self.names)), dtype=pl.Int32)
        return column.replace_strict(self.names, numbers, return_dtype=pl.Int32)

    def places(self) -> pl.Series:
        """The place of each number's name among the sorted names."""
        return self.names.arg_sort().arg_sort().cast(pl.Int32)
