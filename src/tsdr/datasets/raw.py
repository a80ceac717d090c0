"""The files of a data set as they were downloaded: found by pattern, checked by header, opened as UTF-8."""

import codecs
import tempfile
from collections.abc import Callable, Iterable, Sequence
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
        self._texts: dict[Path, Path] = {}

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
                f"{names}; name the folder that holds the right one, with the files that belong to it"
            )
        return found[0]

    def utf8(self, path: Path) -> Path:
        """The file itself, or, where it is not UTF-8, a copy read as ISO-8859-1, as old exports are."""
        if path not in self._texts:
            self._texts[path] = path if _is_utf8(path) else self._copy(path)
        return self._texts[path]

    def _copy(self, path: Path) -> Path:
        copy = Path(self._scratch.name) / str(len(self._texts)) / path.name
        copy.parent.mkdir()
        try:
            with path.open("rb") as file, copy.open("wb") as out:
                while chunk := file.read(CHUNK):
                    out.write(chunk.decode("iso-8859-1").encode())
        except OSError as error:
            raise InputError(
                f"{path}: cannot be copied to {copy} to read it ({error.strerror}); make room there"
            ) from error
        return copy

    def header(self, path: Path, separator: str) -> list[str]:
        """The names of the columns of a text file, repeated ones numbered; none if it is empty."""
        with self.utf8(path).open(encoding="utf-8-sig") as file:
            line = file.readline().rstrip("\r\n")
        names = [name.strip().strip('"') for name in line.split(separator)] if line else []
        seen: dict[str, int] = {}
        for place, name in enumerate(names):
            if name in seen:
                names[place] = f"{name}_duplicated_{seen[name] - 1}"
            seen[name] = seen.get(name, 0) + 1
        return names

    def separator(self, path: Path) -> str:
        """What separates the columns of an export that may be of either kind: a tab, or else a comma."""
        return "\t" if len(self.header(path, "\t")) > 1 else ","

    def table(
        self, paths: Sequence[Path], columns: Sequence[str], *, separator: str = ",", file_name: str | None = None
    ) -> pl.LazyFrame:
        """These columns of text files with a header, all as text, to be read in passing.

        A file without one of the columns is refused. `file_name` names a column for the path of each row's file.
        """
        headers = [tuple(self.header(path, separator)) for path in paths]
        for path, found in zip(paths, headers, strict=True):
            missing = [name for name in columns if name not in found]
            if missing:
                raise InputError(
                    f"{path}: column {missing[0]!r} is missing, so it is not a file of {self.dataset}; it has "
                    f"{', '.join(map(repr, found[:12])) or 'no columns'}"
                )
        alike = [[self.utf8(path) for path in paths]]
        if len(set(headers)) > 1:
            alike = [[path] for path in alike[0]]
        wanted = [*columns, *([file_name] if file_name else [])]
        return pl.concat(
            pl.scan_csv(
                [str(path) for path in texts],
                separator=separator,
                # What people write in a tab-separated table may have quotes in it, and they are not there to quote.
                quote_char=None if separator == "\t" else '"',
                infer_schema=False,
                glob=False,
                include_file_paths=file_name,
            ).select(wanted)
            for texts in alike
        )

    def laid_down(self, parts: Iterable[pl.LazyFrame]) -> pl.LazyFrame:
        """Parts of a table, one after the other, on disk until the folder is closed; not all may have all columns."""
        paths = []
        for number, part in enumerate(parts):
            paths.append(Path(self._scratch.name) / f"{number}.parquet")
            try:
                part.sink_parquet(paths[-1], maintain_order=True)
            except (pl.exceptions.PolarsError, OSError) as error:
                raise InputError(
                    f"{paths[-1]}: what was read of {self.dataset} cannot be laid down ({in_a_sentence(error)}); make "
                    "room there, or name a folder that has it by TMPDIR"
                ) from error
        return pl.concat([pl.scan_parquet(path) for path in paths], how="diagonal")

    def collect(self, frame: pl.LazyFrame) -> pl.DataFrame:
        """Read what was asked for, or refuse the file with the reason."""
        try:
            return frame.collect(engine="streaming")
        except (pl.exceptions.PolarsError, OSError) as error:
            raise InputError(
                f"{self.folder}: a file of {self.dataset} cannot be read ({in_a_sentence(error)}); is it damaged, or "
                "cut off? Fetch it again"
            ) from error


def _is_utf8(path: Path) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK):
                decoder.decode(chunk)
            decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True
