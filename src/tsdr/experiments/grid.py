"""A grid of runs: what has a record is not run again, and every record is written as its run ends."""

import fcntl
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tsdr.errors import InputError
from tsdr.experiments.engines import Engine, Failure, Job
from tsdr.files import sweep
from tsdr.records.folder import RecordFolder
from tsdr.records.run import Record

LOCK = ".running"


def each_once(jobs: Iterable[Job]) -> list[Job]:
    """Jobs without those of a run that is among them already."""
    return list({job.name: job for job in jobs}.values())


def run_grid(
    jobs: Sequence[Job],
    records: RecordFolder,
    engine: Engine,
    on_end: Callable[[Record | Failure], None] = lambda came: None,
) -> tuple[list[Record], list[Failure]]:
    """Compute the jobs that have no record yet; the records of all jobs that have one now, and what failed.

    A grid that is stopped, in whatever way, goes on where it was when it is called again: runs under way go on from
    their checkpoints, to the same numbers.
    """
    failures = []
    with _alone_in(records.folder):
        for folder in (records.folder, records.checkpoints):
            sweep(folder)
        missing = [job for job in jobs if records.find(job.run) is None]
        for came in engine.run(missing):
            if isinstance(came, Record):
                records.write(came)
            else:
                failures.append(came)
            on_end(came)
        found = [records.find(job.run) for job in jobs]
    return [record for record in found if record is not None], failures


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Hold the folder: two commands that write checkpoints of the same run would spoil them."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(
                f"{folder}: another command is running in this folder; wait for it or choose another folder"
            ) from error
        yield
