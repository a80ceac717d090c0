"""Writing files so that an interrupted run leaves the old file or the new one, never half of one."""

import errno
import fcntl
import glob
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from tsdr.errors import InputError

_PART = ".part"


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`, which takes the place of `path` once the block has succeeded."""
    if path.is_dir():
        raise InputError(f"{path}: is a folder; name a file to write")
    temporary = path.with_name(f".{path.name}.{os.getpid()}{_PART}")
    with _written(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield temporary
            os.replace(temporary, path)
        finally:
            with suppress(OSError):  # where nothing could be written, there is nothing to remove
                temporary.unlink()


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder beside `path`, which becomes `path` once the block has succeeded."""
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise InputError(f"{path}: is there already; name another folder, or remove it")
    temporary = path.with_name(f".{path.name}.{os.getpid()}{_PART}")
    with _written(path):
        try:
            sweep(path.parent, f"{path.name}.")
            temporary.mkdir(parents=True)
            yield temporary
            os.replace(temporary, path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def _written(path: Path) -> Iterator[None]:
    """Say of what cannot be written where that is, why, and what to do about it."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT) or "No space left" in str(error)
        reason = os.strerror(errno.ENOSPC) if full else error.strerror or str(error)
        advice = "free some space there, or choose another place" if full else "choose a place that can be written to"
        raise InputError(f"{path}: cannot be written ({reason}); {advice}") from error


def sweep(folder: Path, name: str = "") -> None:
    """Remove what processes that are no more have left half-written in a folder; of that name, if one is given."""
    for left in folder.glob(f".{glob.escape(name)}*{_PART}"):
        process = left.name.removesuffix(_PART).rpartition(".")[2]
        if process.isdigit() and not Path(f"/proc/{process}").exists():
            if left.is_dir():
                shutil.rmtree(left, ignore_errors=True)
            else:
                left.unlink(missing_ok=True)


@contextmanager
def alone(lock: Path, taken: str) -> Iterator[None]:
    """Hold a lock, which ends with the process at the latest; say what is `taken` where another one holds it."""
    with _written(lock):
        lock.parent.mkdir(parents=True, exist_ok=True)
        file = _held(lock, taken)
    with file:
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)


def _held(lock: Path, taken: str) -> IO[str]:
    """The lock file, locked, and the one that is there: who held it before removes it at the end."""
    while True:
        file = lock.open("w")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(file.fileno()), lock.stat()):
                return file
        except BlockingIOError as error:
            file.close()
            raise InputError(taken) from error
        except FileNotFoundError:
            pass
        file.close()
