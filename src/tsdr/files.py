"""Writing files so that an interrupted run leaves the old file or the new one, never half of one."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tsdr.errors import InputError

_PART = ".part"


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`, which takes the place of `path` once the block has succeeded."""
    if path.is_dir():
        raise InputError(f"{path}: is a folder; name a file to write")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}{_PART}")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def sweep(folder: Path) -> None:
    """Remove what processes that are no more have left half-written in a folder."""
    for left in folder.glob(f".*{_PART}"):
        process = left.name.removesuffix(_PART).rpartition(".")[2]
        if process.isdigit() and not Path(f"/proc/{process}").exists():
            left.unlink(missing_ok=True)
