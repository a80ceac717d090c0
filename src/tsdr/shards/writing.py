"""From a log of any size to shards: its rows are dealt out by student, some at a time; then each shard is sorted."""

import hashlib
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl

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
        told = " and ".join(f"{path} by {order or 'the order of its rows'}" for order, path in orders.items())
        raise InputError(f"the files are not of one log: answers are in order, in {told}; give them the same columns")
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
    """Rows that were dealt out to shards, in pieces that lie in a folder until they are gathered.

    The names of concepts and questions are numbered as they come; what they are sorted is known at the end.
    """

    def __init__(self, folder: Path, number: int) -> None:
        self.folder, self.number = folder, number
        self.rows = 0
        self.names = {name: _Names() for name in ("concept", "question")}
        self.pieces: dict[int, list[Path]] = {}
        self.dated: bool | None = None

    def deal(self, log: Log, order: str | None) -> None:
        """Lay the rows of a part of a log down, each with its shard's."""
        if not len(log):
            return
        frame = log.frame.select(
            "student",
            pl.lit(0).alias("order") if order is None else pl.col(order).alias("order"),
            *(names.numbered(log.frame[name]) for name, names in self.names.items()),
            pl.col("correct").fill_null(SKIPPED).cast(pl.Int8).alias("response"),
        )
        dated, self.dated = self.dated, frame["order"].dtype.is_temporal()
        if dated not in (None, self.dated):
            raise InputError(
                f"{log.source}: has times that are date-times in some rows and numbers in others; write them alike"
            )
        runs = frame["student"].rle().struct
        shard = np.array([zlib.crc32(name.encode()) % self.number for name in runs.field("value")])
        by_shard = frame.with_columns(shard=shard.repeat(runs.field("len").to_numpy()))
        for (to,), piece in by_shard.partition_by("shard", as_dict=True, include_key=False).items():
            paths = self.pieces.setdefault(to, [])
            paths.append(self.folder / f"{to}.{len(paths)}.piece")
            write_parquet(piece, paths[-1])
        self.rows += len(log)

    def vocabulary(self) -> Vocabulary:
        """The concepts and questions that there are, sorted by name."""
        return Vocabulary(*(tuple(self.names[name].names.sort()) for name in ("concept", "question")))

    def shards(self) -> Iterator[Shard]:
        """Write each shard, its students in the order of their names and their events in order, and drop its pieces."""
        places = {name: names.places() for name, names in self.names.items()}
        for number, (_, paths) in enumerate(sorted(self.pieces.items())):
            frame = pl.concat([pl.read_parquet(path) for path in paths], how="vertical_relaxed")
            for path in paths:
                path.unlink()
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
