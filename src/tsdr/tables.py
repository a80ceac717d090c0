"""The file formats that tables come in: CSV, TSV and Parquet, gzipped or not."""

import gzip
import io
import zlib
from abc import ABC, abstractmethod
from pathlib import Path

import polars as pl

from tsdr.errors import InputError
from tsdr.files import replacing

_SEPARATORS = {".csv": ",", ".tsv": "\t", ".tab": "\t", ".txt": "\t"}
_GZIP_MAGIC = b"\x1f\x8b"

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

    def __init__(self, path: Path, content: Path | io.BytesIO) -> None:
        self.path = path
        self.content = content
        try:
            self.columns = self._header()
        except (pl.exceptions.PolarsError, OSError) as error:
            raise self._unreadable(error) from error

    def read(self, columns: list[str]) -> pl.DataFrame:
        """The named columns, all rows."""
        self._rewind()
        try:
            return self._read(columns)
        except (pl.exceptions.PolarsError, OSError) as error:
            raise self._unreadable(error) from error

    def _rewind(self) -> None:
        if isinstance(self.content, io.BytesIO):
            self.content.seek(0)

    def _unreadable(self, error: Exception) -> InputError:
        reason = str(error).strip().split("\n")[0]
        return InputError(f"{self.path}: cannot be read as {self.kind} ({reason}); {self.advice}")

    kind: str
    advice: str

    @abstractmethod
    def _header(self) -> list[str]: ...

    @abstractmethod
    def _read(self, columns: list[str]) -> pl.DataFrame: ...


class _Parquet(Table):
    kind = "Parquet"
    advice = "it is damaged or of another format; export it again, or give it the ending of what it is"

    def _header(self) -> list[str]:
        return list(pl.read_parquet_schema(self.content))

    def _read(self, columns: list[str]) -> pl.DataFrame:
        return pl.read_parquet(self.content, columns=columns)


class _Text(Table):
    kind = "text in columns"
    advice = "check that it is UTF-8 and that every row has as many fields as the header"

    def __init__(self, path: Path, content: Path | io.BytesIO, separator: str) -> None:
        self.separator = separator
        super().__init__(path, content)

    def _header(self) -> list[str]:
        return self._scan(n_rows=0).columns

    def _read(self, columns: list[str]) -> pl.DataFrame:
        return self._scan(columns=columns)

    def _scan(self, columns: list[str] | None = None, n_rows: int | None = None) -> pl.DataFrame:
        # Everything is read as text: our own checks, not the reader's guess, decide what a field means.
        return pl.read_csv(self.content, separator=self.separator, columns=columns, n_rows=n_rows, infer_schema=False)


def open_table(path: Path, separator: str | None = None) -> Table:
    """Open a table by its ending; text in columns of any ending if `separator` is given."""
    if path.is_dir():
        raise InputError(f"{path}: is a folder; name the log file in it")
    try:
        with path.open("rb") as file:
            magic = file.read(2)
    except OSError as error:
        raise InputError(f"{path}: cannot be opened ({error.strerror}); check the path") from error
    if not magic:
        raise InputError(f"{path}: is empty (0 bytes); export it again")
    zipped = magic == _GZIP_MAGIC
    content = _unzip(path) if zipped else path
    endings = [ending.lower() for ending in path.suffixes if ending.lower() != ".gz"]
    ending = endings[-1] if endings else ""
    if separator is not None:
        separator = {"\\t": "\t"}.get(separator, separator)  # as shells hand it over
        if len(separator.encode()) != 1:
            raise InputError(f"{path}: the separator of columns is one character, not {separator!r}")
    if separator is None and ending in (".parquet", ".pq"):
        return _Parquet(path, content)
    if separator is None and ending not in _SEPARATORS:
        raise InputError(
            f"{path}: is of an unknown kind {ending!r}; expected .csv, .tsv, .tab, .txt or .parquet (also .gz), "
            "or give the separator of its columns"
        )
    return _Text(path, content, separator or _SEPARATORS[ending])


def _unzip(path: Path) -> io.BytesIO:
    try:
        with gzip.open(path) as file:
            content = file.read()
    except (EOFError, OSError, zlib.error) as error:
        raise InputError(f"{path}: is a damaged or truncated gzip file ({error}); fetch or write it again") from error
    if not content:
        raise InputError(f"{path}: is empty once unzipped; export it again")
    return io.BytesIO(content)
