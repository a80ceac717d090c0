"""Where the runs of a grid are computed: this process, processes of this machine, or a Ray cluster.

An engine takes jobs and gives back records as they end, in any order. A run whose worker dies is given to another one,
up to ATTEMPTS times; a run that raises an error is reported as failed, and the others go on. This process raises it.
"""

import multiprocessing
import os
import signal
import traceback
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Protocol

from tsdr.backbones.plugins import Plugin, loaded_plugins
from tsdr.cluster import connected
from tsdr.devices import share_threads
from tsdr.errors import InputError, in_a_sentence
from tsdr.judging.crossval import OnEpoch, run_fold
from tsdr.judging.experiment import Experiment, FoldRun
from tsdr.processes import end_with_parent
from tsdr.records.run import Record, Run

ATTEMPTS = 5


@dataclass(frozen=True)
class Job:
    """A fold to be trained and tested, with the log that it is a fold of."""

    experiment: Experiment
    fold_run: FoldRun

    @property
    def run(self) -> Run:
        """What its record will be of."""
        return self.fold_run.run

    @property
    def name(self) -> str:
        """That of its record's file."""
        return self.run.file_name()

    def compute(self, on_epoch: OnEpoch = lambda run, epoch: None) -> Record:
        """Train and test."""
        return run_fold(self.experiment, self.fold_run, on_epoch)


@dataclass(frozen=True)
class Failure:
    """A run that ended in an error, or whose workers died."""

    job: Job
    reason: str


class Engine(Protocol):
    """Computes jobs."""

    @property
    def workers(self) -> int:
        """How many jobs are computed at a time."""

    def run(self, jobs: Sequence[Job]) -> Iterator[Record | Failure]:
        """What each job came to, as it ends."""


class InProcess:
    """This process, one job after another, which tells of every epoch."""

    workers = 1

    def __init__(self, on_epoch: OnEpoch = lambda run, epoch: None) -> None:
        self._on_epoch = on_epoch

    def run(self, jobs: Sequence[Job]) -> Iterator[Record | Failure]:
        """Train and test."""
        for job in jobs:
            yield job.compute(self._on_epoch)


class Processes:
    """Worker processes of this machine, each with an equal share of the threads that this process would have.

    They end with the process that started them, however that ends. With `fresh`, every job gets a process of its own,
    so that the peak memory in its record is its own.
    """

    def __init__(self, workers: int | None = None, *, fresh: bool = False) -> None:
        self.workers = workers or len(os.sched_getaffinity(0))
        self._fresh = fresh

    def run(self, jobs: Sequence[Job]) -> Iterator[Record | Failure]:
        """Hand the jobs out one by one."""
        waiting, deaths = deque(jobs), Counter[str]()
        crew: dict[Connection, _Worker] = {}
        try:
            while waiting or crew:
                while waiting and len(crew) < self.workers:
                    worker = _Worker(waiting.popleft(), self.workers)
                    crew[worker.pipe] = worker
                for pipe in wait(list(crew)):
                    assert isinstance(pipe, Connection)
                    worker = crew[pipe]
                    came = worker.result()
                    if came is None:
                        deaths[worker.job.name] += 1
                    if came is None and deaths[worker.job.name] < ATTEMPTS:
                        waiting.appendleft(worker.job)
                    else:
                        yield came or Failure(worker.job, f"its worker died {ATTEMPTS} times; use fewer --workers")
                    if came is None or self._fresh or not waiting:
                        crew.pop(pipe).end()
                    else:
                        worker.give(waiting.popleft())
        finally:
            for worker in crew.values():
                worker.end()


class _Worker:
    """A process that computes one job after another."""

    def __init__(self, job: Job, workers: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, workers, loaded_plugins()), daemon=True)
        # An interrupt from the keyboard is for the process that starts it; a blocked signal stays so from the first.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        self.give(job)

    def give(self, job: Job) -> None:
        self.job = job
        with suppress(BrokenPipeError):  # it has just died, and `result` will say so
            self.pipe.send(job)

    def result(self) -> Record | Failure | None:
        """What the job came to; None if the process died over it."""
        try:
            came = self.pipe.recv()
        except (EOFError, ConnectionResetError):
            return None
        return came if isinstance(came, Record) else Failure(self.job, came)

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _work(pipe: Connection, workers: int, plugins: Sequence[Plugin]) -> None:
    """The life of one of so many workers."""
    end_with_parent()
    for plugin in plugins:
        plugin.load()
    share_threads(workers)
    with suppress(EOFError, OSError):  # the process that started it is gone
        while True:
            pipe.send(_outcome(pipe.recv()))


def _outcome(job: Job) -> Record | str:
    """The record, or why there is none."""
    try:
        return job.compute()
    except Exception as error:
        return _reason(error)


def _reason(error: Exception) -> str:
    """A refusal in its own sentence; of anything else, where it happened."""
    if isinstance(error, InputError):
        return str(error)
    return "".join(traceback.format_exception(error)[-2:]).strip()


class RayCluster:
    """The workers of a Ray cluster; without an address, of one that is started on this machine alone.

    Logs and plugins go to the workers through Ray, and records come back the same way: nothing has to be shared but the
    package.
    A job has a core, and by Ray's OMP_NUM_THREADS one thread, unless another number is set where the workers are.
    """

    def __init__(self, address: str | None = None) -> None:
        self._ray = connected(address)
        self.workers = max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def run(self, jobs: Sequence[Job]) -> Iterator[Record | Failure]:
        """Submit all jobs; Ray gives a job whose worker died to another one."""
        ray = self._ray
        compute = ray.remote(num_cpus=1, max_retries=ATTEMPTS - 1)(_compute)
        logs = {id(job.experiment): job.experiment for job in jobs}
        there = {key: ray.put(experiment) for key, experiment in logs.items()}
        plugins = loaded_plugins()
        running = {compute.remote(there[id(job.experiment)], job.fold_run, plugins): job for job in jobs}
        try:
            while running:
                (ended,), _ = ray.wait(list(running))
                job = running.pop(ended)
                try:
                    yield ray.get(ended)
                except ray.exceptions.RayTaskError as error:
                    yield Failure(job, _reason(error.cause))
                except ray.exceptions.RayError as error:
                    yield Failure(job, in_a_sentence(error))
        finally:
            for task in running:
                ray.cancel(task, force=True)
            ray.shutdown()


def _compute(experiment: Experiment, fold_run: FoldRun, plugins: Sequence[Plugin]) -> Record:
    for plugin in plugins:
        plugin.load()
    return run_fold(experiment, fold_run)
