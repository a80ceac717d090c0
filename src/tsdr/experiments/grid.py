"""A grid of runs: what has a record is not run again, and every record is written as its run ends."""

from collections.abc import Callable, Iterable, Sequence

from tsdr.experiments.engines import Engine, Failure, Job
from tsdr.files import alone, sweep
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
    taken = f"{records.folder}: another command is running in this folder; wait for it or choose another folder"
    with alone(records.folder / LOCK, taken):  # two that write checkpoints of the same run would spoil them
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
