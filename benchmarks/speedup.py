"""How much faster two workers train one model than one does, and what that foretells of 16 machines.

    python -m benchmarks.speedup [NAME ...] [--batches 20] [--batch-size 64] [--window 200] [--repeats 5]

Each model learns plainly (naive) from simulated students with a full window: alone on one thread, by two processes of a
thread each that gloo joins over the loopback, and alone with a sixteenth of the students in a batch, in turn. An epoch
of so many batches is timed, after one that warms up; told are medians over the repeats. `speed-up` is one's time by
two's. `exchange` is the sum of gradients of two workers that are at it at the same moment, `reading` what it takes to
put a whole batch together, which every worker does. What they foretell of 16 machines of a worker each: with this
batch, a worker's time is that of a sixteenth, of reading the whole, and of a sum around a ring (each sends 15 / 16 of
the bytes twice, in 30 messages) over 10 Gbit/s and 50 µs; with a batch 16 times as large, that of one batch, of reading
all 16, and of the same sum. Claim: dkt at least 1.7, simplekt at least 1.8; ends with 1 if it does not hold. It takes
two cores that nothing else uses, and some ten minutes.
"""

import argparse
import os
import pickle
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing
from rich.console import Console
from rich.table import Table

from tsdr.debias.building import new_objective
from tsdr.methods import NAIVE_OPTIONS
from tsdr.parallel import Team, Workers
from tsdr.sequences import Sequences
from tsdr.simulator import Population, simulate
from tsdr.training.options import TrainingOptions

LEAST = {"dkt": 1.7, "simplekt": 1.8}
MACHINES = 16
NETWORK, LATENCY = 10e9 / 8, 50e-6  # bytes a second, and seconds a message
CONCEPTS, QUESTIONS = 100, 1000


@dataclass(frozen=True)
class Work:
    """What is trained: so many batches of so many students with a full window each."""

    name: str
    batches: int
    batch_size: int
    window: int

    def measure(self, *, team: bool) -> "Found":
        """An epoch of it, after one to warm up; then reading and sums of gradients by themselves."""
        sequences = self._sequences()
        training = TrainingOptions(device="cpu", batch_size=self.batch_size)
        learner = new_objective(self.name, sequences, {}, training, NAIVE_OPTIONS)
        if team:
            learner.team = Workers(torch.device("cpu"))
        learner.model.train()
        shuffle, optimiser = torch.Generator().manual_seed(0), learner.optimisers["model"]

        def learn() -> None:
            for batch in sequences.batches(self.batch_size, shuffle):
                learner.step(batch)

        def read() -> None:
            for _ in sequences.batches(self.batch_size, shuffle):
                pass

        def exchange() -> None:
            for _ in range(self.batches):
                learner.team.add_up(optimiser)

        learn()
        a_batch, reading, a_sum = (self._timed(learner.team, action) for action in (learn, read, exchange))
        learned = (one for group in optimiser.param_groups for one in group["params"] if one.requires_grad)
        return Found(a_batch, reading, a_sum, sum(one.numel() * one.element_size() for one in learned))

    def _timed(self, team: Team, action: Callable[[], None]) -> float:
        """Seconds a batch, from when all are ready."""
        team.sum(torch.zeros(1))
        begin = time.perf_counter()
        action()
        return (time.perf_counter() - begin) / self.batches

    def _sequences(self) -> Sequences:
        students = self.batches * self.batch_size
        population = Population(answers=(self.window, self.window))
        log = simulate(students=students, questions=QUESTIONS, concepts=CONCEPTS, population=population).log
        return Sequences.from_log(log, window=self.window)


@dataclass(frozen=True)
class Found:
    """Seconds of a batch, and in it of reading and of the sum of gradients, which have so many bytes."""

    batch: float
    reading: float
    exchange: float
    size: int


def found_by(workers: int, work: Work) -> Found:
    """What so many new processes find, each on a thread; of two, the slower one."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        arguments = (workers, port, work, Path(folder))
        torch.multiprocessing.spawn(_join, arguments, nprocs=workers)  # type: ignore[attr-defined]
        found: list[Found] = [pickle.loads(path.read_bytes()) for path in Path(folder).iterdir()]
    return max(found, key=lambda one: one.batch)


def _join(rank: int, workers: int, port: int, work: Work, folder: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=workers)
    (folder / str(rank)).write_bytes(pickle.dumps(work.measure(team=workers > 1)))
    dist.barrier()
    os._exit(0)  # a thread of gloo's that outlives what it works for would end in an abort


@dataclass(frozen=True)
class Times:
    """Of a batch by one, by two, and of a sixteenth of it by one: medians of what was found, one by one."""

    one: Found
    two: Found
    part: Found

    @property
    def speed_up(self) -> float:
        """By two workers."""
        return self.one.batch / self.two.batch

    @property
    def ring(self) -> float:
        """Seconds of a sum around 16 machines."""
        return 2 * (MACHINES - 1) * (self.two.size / MACHINES / NETWORK + LATENCY)

    @property
    def foretold(self) -> tuple[float, float]:
        """The speed-up of 16 machines: with this batch, and with one 16 times as large."""
        shared = self.part.batch + self.one.reading - self.part.reading + self.ring
        larger = self.one.batch + (MACHINES - 1) * self.one.reading + self.ring
        return self.one.batch / shared, MACHINES * self.one.batch / larger


def measured(work: Work, repeats: int) -> Times:
    """In turn, so that none of them has the quieter minutes."""
    part = replace(work, batch_size=max(1, work.batch_size // MACHINES))
    turns = [(found_by(1, work), found_by(2, work), found_by(1, part)) for _ in range(repeats)]
    return Times(*(_middle(column) for column in zip(*turns, strict=True)))


def _middle(found: Sequence[Found]) -> Found:
    columns = zip(*(astuple(one) for one in found), strict=True)
    batch, reading, exchange, size = (statistics.median(column) for column in columns)
    return Found(batch, reading, exchange, int(size))


def main() -> None:
    """Measure, and tell."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=[*LEAST, "hybrid"])
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--window", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()
    columns = ("ms by one", "by two", "speed-up", "sixteenth", "reading", "exchange", "MB", "16 machines", "larger")
    table = Table("", *columns)
    held = True
    for name in asked.names:
        times = measured(Work(name, asked.batches, asked.batch_size, asked.window), asked.repeats)
        held = held and times.speed_up >= LEAST.get(name, 0.0)
        by_both = (f"{1000 * found.batch:.1f}" for found in (times.one, times.two))
        costs = (f"{1000 * of:.2f}" for of in (times.part.batch, times.one.reading, times.two.exchange))
        foretold = (f"{of:.1f}" for of in times.foretold)
        table.add_row(name, *by_both, f"{times.speed_up:.2f}", *costs, f"{times.two.size / 1e6:.2f}", *foretold)
    Console(width=120).print(table)
    sys.exit(0 if held else 1)


if __name__ == "__main__":
    main()
