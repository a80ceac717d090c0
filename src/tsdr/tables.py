"""The file formats that tables come in: CSV, TSV and Parquet, gzipped or not."""

import gzip
import tempfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import polars as pl

from tsdr.defaults import UNZIPPED_LIMIT
from tsdr.errors import InputError
from tsdr.files import replacing
from tsdr.parquet import Expanded

_SEPARATORS = {".csv": ",", ".tsv": "\t", ".tab": "\t", ".txt": "\t"}
_GZIP_MAGIC = b"\x1f\x8b"
# What polars would unpack unasked, however large: gzip, zstd, and zlib by its levels.
_PACKED = (_GZIP_MAGIC, b"\x28\xb5\x2f\xfd", b"x\x01", b"x\x9c", b"x\xda")
_CHUNK = 2**20
ROWS_AT_ONCE, BYTES_AT_ONCE = 1_000_000, 2**25  # of a table that is read in parts
LONGEST_HEADER = 2**20

# How exports write times: in the order of the calendar, without a zone and with one.
DATE_TIMES = (
    "%Y-%m-%d %H:%M:%S%.f",
    "%Y-%m-%dT%H:%M:%S%.f",
    "%Y-%m-%d %H:%M",
    "%Y-%m-%dT%H:%M",
    "%Y/%m/%d %H:%M:%S%.f",
    "%Y/%m/%d %H:%M",
)
ZONED_DATE_TIMES = ("%Y-%m-%dT%H:%M:%S%.f%#z", "%Y-%m-%d %H:%M:%S%.f%#z")


def write_table(frame: pl.DataFrame, path: Path) -> None:
    """Write a table as Parquet or CSV, as the name of the file has it."""
    if path.suffix not in (".parquet", ".csv"):
        raise InputError(f"{path}: name a file that ends in .parquet or .csv")
    if path.suffix == ".parquet":
        return write_parquet(frame, path)
    with replacing(path) as temporary:
        frame.write_csv(temporary)


def write_parquet(frame: pl.DataFrame, path: Path) -> None:
    """Write a table as Parquet, whole or not at all."""
    with replacing(path) as temporary:
        try:
            frame.write_parquet(temporary)
        except pl.exceptions.PolarsError as error:  # so it says that a disk is full
            raise OSError(str(error)) from error


class Table(ABC):
    """A file whose column names are known and whose columns can be read."""

    def __init__(self, path: Path, unzipped: IO[bytes] | None) -> None:
        self.path = path
        self.unzipped = unzipped  # a temporary file, which is there for as long as it is held
        self.content = path if unzipped is None else Path(unzipped.name)
        try:
            self.columns = self._header()
        except (pl.exceptions.PolarsError, OSError) as error:
            raise self._unreadable(error) from error

    def read(self, columns: list[str]) -> pl.DataFrame:
        """The named columns, all rows."""
        try:
            return self._read(columns)
        except (pl.exceptions.PolarsError, OSError) as error:
            raise self._unreadable(error) from error

    def parts(self, columns: list[str]) -> Iterator[pl.DataFrame]:
        """The same, some rows at a time: no more of the table is in memory."""
        try:
            yield from self._parts(columns)
        except (pl.exceptions.PolarsError, OSError) as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> InputError:
        reason = str(error).strip().split("\n")[0]
        return InputError(f"{self.path}: cannot be read as {self.kind} ({reason}); {self.advice}")

    kind: str
    advice: str

    @abstractmethod
    def _header(self) -> list[str]: ...

    @abstractmethod
    def _read(self, columns: list[str]) -> pl.DataFrame: ...

    @abstractmethod
    def _parts(self, columns: list[str]) -> Iterator[pl.DataFrame]: ...

    @abstractmethod
    def rows(self) -> int:
        """About how many rows there are."""


class _Parquet(Table):
    kind = "Parquet"
    advice = "it is damaged or of another format; export it again, or give it the ending of what it is"

    def __init__(self, path: Path, unzipped: IO[bytes] | None, limit: float) -> None:
        self.limit = limit
        super().__init__(path, unzipped)

    def _header(self) -> list[str]:
        return list(pl.read_parquet_schema(self.content))

    def _read(self, columns: list[str]) -> pl.DataFrame:
        self._check(self._expanded().whole)
        return pl.read_parquet(self.content, columns=columns)

    def _parts(self, columns: list[str]) -> Iterator[pl.DataFrame]:
        self._check(self._expanded().largest)
        yield from pl.scan_parquet(self.content).select(columns).collect_batches(chunk_size=ROWS_AT_ONCE)

    def rows(self) -> int:
        """As the file says."""
        return pl.scan_parquet(self.content).select(pl.len()).collect().item()

    def _expanded(self) -> Expanded:
        try:
            return Expanded.of(self.content)
        except ValueError as error:
            raise self._unreadable(error) from error

    def _check(self, size: int) -> None:
        if size > self.limit * 1e9:
            raise _too_large(self.path, self.limit)


class _Text(Table):
    kind = "text in columns"
    advice = "check that it is UTF-8 and that every row has as many fields as the header"

    def __init__(self, path: Path, unzipped: IO[bytes] | None, separator: str) -> None:
        self.separator = separator
        super().__init__(path, unzipped)

    def _header(self) -> list[str]:
        with self.content.open("rb") as file:
            header = file.readline(LONGEST_HEADER)
        if header.startswith(_PACKED):
            raise InputError(f"{self.path}: is packed in a way that is not read; unpack it, or pack it once, by gzip")
        if len(header) == LONGEST_HEADER:
            raise InputError(f"{self.path}: has no header in its first {LONGEST_HEADER:,} bytes; {self.advice}")
        return self._scan(n_rows=0).columns

    def _read(self, columns: list[str]) -> pl.DataFrame:
        return self._scan(columns=columns)

    def _parts(self, columns: list[str]) -> Iterator[pl.DataFrame]:
        header = b""
        for block in self._blocks():
            yield pl.read_csv(header + block, separator=self.separator, columns=columns, infer_schema=False)
            header = pl.DataFrame(schema=self.columns).write_csv(separator=self.separator).encode()

    def _blocks(self) -> Iterator[bytes]:
        """The file, cut after the ends of rows: what is in quotes may have ends of lines of its own."""
        left = b""
        with self.content.open("rb") as file:
            while read := file.read(BYTES_AT_ONCE):
                left += read
                end = left.rfind(b"\n") + 1
                while left.count(b'"', 0, end) % 2:
                    end = left.rfind(b"\n", 0, left.rfind(b'"', 0, end)) + 1
                if end:
                    yield left[:end]
                    left = left[end:]
        if left:
            yield left

    def rows(self) -> int:
        """As many as there would be if they were as long as the first ones."""
        with self.content.open("rb") as file:
            lines = file.read(_CHUNK)
        return int(self.content.stat().st_size / len(lines) * lines.count(b"\n"))

    def _scan(self, columns: list[str] | None = None, n_rows: int | None = None) -> pl.DataFrame:
        # Everything is read as text: our own checks, not the reader's guess, decide what a field means.
        return pl.read_csv(self.content, separator=self.separator, columns=columns, n_rows=n_rows, infer_schema=False)


def open_table(path: Path, separator: str | None = None, unzipped_limit: float = UNZIPPED_LIMIT) -> Table:
    """Open a table by its ending; text in columns of any ending if `separator` is given.

    A gzipped one is unzipped into a temporary file first, of so many GB at most; so many may what is read of Parquet
    at once expand to, by its own account.
    """
    if path.is_dir():
        raise InputError(f"{path}: is a folder; name the log file in it")
    try:
        with path.open("rb") as file:
            magic = file.read(2)
    except OSError as error:
        raise InputError(f"{path}: cannot be opened ({error.strerror}); check the path") from error
    if not magic:
        raise InputError(f"{path}: is empty (0 bytes); export it again")
    endings = [ending.lower() for ending in path.suffixes if ending.lower() != ".gz"]
    ending = endings[-1] if endings else ""
    if separator is not None:
        separator = {"\\t": "\t"}.get(separator, separator)  # as shells hand it over
        if len(separator.encode()) != 1:
            raise InputError(f"{path}: the separator of columns is one character, not {separator!r}")
    if separator is None and ending not in (".parquet", ".pq", *_SEPARATORS):
        raise InputError(
            f"{path}: is of an unknown kind {ending!r}; expected .csv, .tsv, .tab, .txt or .parquet (also .gz), "
            "or give the separator of its columns"
        )
    unzipped = _unzip(path, unzipped_limit) if magic == _GZIP_MAGIC else None
    if separator is None and ending not in _SEPARATORS:
        return _Parquet(path, unzipped, unzipped_limit)
    return _Text(path, unzipped, separator or _SEPARATORS[ending])


def _unzip(path: Path, limit: float) -> IO[bytes]:
    """What is in a gzip file, in a temporary one: it takes no more memory the larger it is."""
    unzipped = tempfile.NamedTemporaryFile(prefix="tsdr-")  # noqa: SIM115  (it is held by the table)
    with gzip.open(path) as file:
        while chunk := _next_chunk(path, file):
            if unzipped.tell() + len(chunk) > limit * 1e9:
                raise _too_large(path, limit)
            try:
                unzipped.write(chunk)
                unzipped.flush()
            except OSError as error:
                raise InputError(
                    f"{path}: cannot be unzipped to {unzipped.name} ({error.strerror}); free some space there, or name "
                    "a folder that has it by TMPDIR"
                ) from error
    if not unzipped.tell():
        raise InputError(f"{path}: is empty once unzipped; export it again")
    return unzipped


def _too_large(path: Path, limit: float) -> InputError:
    return InputError(
        f"{path}: has {path.stat().st_size:,} bytes and expands to more than {limit:g} GB; if it is meant to, allow "
        "for more with --unzipped-limit (in Python: unzipped_limit)"
    )


def _next_chunk(path: Path, file: gzip.GzipFile) -> bytes:
    try:
        return file.read(_CHUNK)
    except (EOFError, OSError, zlib.error) as error:
        raise InputError(f"{path}: is a damaged or truncated gzip file ({error}); fetch or write it again") from error
