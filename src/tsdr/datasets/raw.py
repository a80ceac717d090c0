"""The files of a data set as they were downloaded: found by pattern, checked by header, opened as UTF-8."""

import codecs
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import polars as pl

from tsdr.errors import InputError, in_a_sentence

CHUNK = 1 << 22


class RawFolder:
    """A folder of downloaded files; what it unpacks for reading is gone when it is closed."""

    def __init__(self, dataset: str, folder: Path, on_stage: Callable[[str], None]) -> None:
        self.dataset, self.folder, self.on_stage = dataset, folder, on_stage
        if not folder.exists():
            raise InputError(f"{folder}: there is no such folder; {dataset} needs the folder that holds its files")
        self._scratch = tempfile.TemporaryDirectory(prefix="tsdr-")

    def __enter__(self) -> "RawFolder":
        return self

    def __exit__(self, *error: object) -> None:
        self._scratch.cleanup()

    def find(self, *patterns: str) -> list[Path]:
        """The files below the folder (or the file itself) that fit the first pattern that any file fits, sorted."""
        for pattern in patterns:
            if self.folder.is_file():
                found = [self.folder] if self.folder.match(pattern.removeprefix("**/")) else []
            else:
                found = sorted(path for path in self.folder.glob(f"**/{pattern.removeprefix('**/')}") if path.is_file())
            if found:
                return found
        return []

    def need(self, *patterns: str) -> list[Path]:
        """The same, or a sentence that says what was expected and what is there."""
        found = self.find(*patterns)
        if found:
            return found
        there = [self.folder] if self.folder.is_file() else sorted(p for p in self.folder.rglob("*") if p.is_file())
        names = ", ".join(path.name for path in there[:5]) + (f" and {len(there) - 5:,} more" if len(there) > 5 else "")
        raise InputError(
            f"{self.folder}: {self.dataset} expects {' or '.join(patterns)} in it or below, and there is "
            f"{names or 'no file'}; name the folder that the download unpacked to"
        )

    def one(self, *patterns: str) -> Path:
        """The one file that fits."""
        found = self.need(*patterns)
        if len(found) > 1:
            names = ", ".join(str(path.relative_to(self.folder)) for path in found[:4])
            raise InputError(
                f"{self.folder}: {self.dataset} expects one file {' or '.join(patterns)}, and there are {len(found)}: "
                f"{names}; name one of them instead of the folder"
            )
        return found[0]

    def utf8(self, path: Path) -> Path:
        """The file itself, or, where it is not UTF-8, a copy read as ISO-8859-1, as old exports are."""
        decoder = codecs.getincrementaldecoder("utf-8")()
        try:
            with path.open("rb") as file:
                while chunk := file.read(CHUNK):
                    decoder.decode(chunk)
                decoder.decode(b"", final=True)
            return path
        except UnicodeDecodeError:
            copy = Path(self._scratch.name) / path.name
            with path.open("rb") as file, copy.open("wb") as out:
                while chunk := file.read(CHUNK):
                    out.write(chunk.decode("iso-8859-1").encode())
            return copy

    def table(
        self, paths: Sequence[Path], columns: Sequence[str], *, separator: str = ",", file_name: str | None = None
    ) -> pl.LazyFrame:
        """These columns of text files with a header, all as text, to be read in passing.

        A file without one of the columns is refused. `file_name` names a column for the path of each row's file.
        """
        texts = [self.utf8(path) for path in paths]
        for path, text in zip(paths, texts, strict=True):
            found = header(text, separator)
            missing = [name for name in columns if name not in found]
            if missing:
                raise InputError(
                    f"{path}: column {missing[0]!r} is missing, so it is not a file of {self.dataset}; it has "
                    f"{', '.join(map(repr, found[:12]))}"
                )
        frames = pl.scan_csv(
            [str(text) for text in texts],
            separator=separator,
            infer_schema=False,
            glob=False,
            include_file_paths=file_name,
            extra_columns="ignore",
        )
        return frames.select([*columns, *([file_name] if file_name else [])])

    def collect(self, frame: pl.LazyFrame) -> pl.DataFrame:
        """Read what was asked for, or refuse the file with the reason."""
        try:
            return frame.collect(engine="streaming")
        except (pl.exceptions.PolarsError, OSError) as error:
            raise InputError(
                f"{self.folder}: a file of {self.dataset} cannot be read ({in_a_sentence(error)}); is it damaged, or "
                "cut off? Fetch it again"
            ) from error


def header(path: Path, separator: str) -> list[str]:
    """The names of the columns of a text file; none if it is empty."""
    with path.open(encoding="utf-8") as file:
        line = file.readline().lstrip("\ufeff").rstrip("\r\n")
    return [name.strip().strip('"') for name in line.split(separator)] if line else []
