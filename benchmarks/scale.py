"""How sharding a log and training from its shards scale: simulated logs of 10, 50 and 100 million answers.

    python -m benchmarks.scale [--millions 10 50 100] [--backbones dkt hybrid] [--folder FOLDER]

Students are simulated and written a few thousand at a time; a larger log has the students of a smaller one, and more.
Claims: from 10 to 100 million answers time grows at most 1.2 times linearly, and peak memory at most 1.3 times; shards
of 95 million answers are written within 3 GiB. Each measurement has a process of its own; memory is its whole peak, and
time over linear is that of its processor, which others on the machine do not slow. What is simulated stays in the
folder, if one is named, for the next call.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl
import torch
from rich.console import Console

import tsdr
from benchmarks.measuring import alone
from tsdr.processes import peak_memory_mib

THREADS, STUDENTS_AT_ONCE = 1, 5_000
COLUMNS = ("answers", "work", "seconds", "answers a second", "processor, s", "time / linear", "peak, MiB")
WIDTHS = (12, 28, 9, 17, 13, 14, 10)


class Cost(NamedTuple):
    """What a piece of work took."""

    seconds: float
    processor: float
    memory: float


def simulated(folder: Path, answers: int) -> tuple[list[Path], int]:
    """Files of a log of so many answers or a few more, drawn where they are not there; and how many it has."""
    files: list[Path] = []
    total = 0
    while total < answers:
        first = len(files) * STUDENTS_AT_ONCE
        files.append(folder / f"{first}.parquet")
        if not files[-1].exists():
            tsdr.simulate(students=STUDENTS_AT_ONCE, after=first).log.write(files[-1])
        total += pl.scan_parquet(files[-1]).select(pl.len()).collect().item()
    return files, total


def shard(files: Sequence[Path], folder: Path) -> Cost:
    """Write shards of a log."""
    return _cost(lambda: tsdr.write_shards(files, folder))


def epoch(backbone: str, folder: Path) -> Cost:
    """Train for an epoch, with all that comes before it."""
    torch.set_num_threads(THREADS)
    training = tsdr.TrainingOptions(max_epochs=1, device="cpu")
    return _cost(lambda: tsdr.fit(tsdr.read_shards(folder), backbone=backbone, method="naive", training=training))


def _cost(work: Callable[[], object]) -> Cost:
    begin, processor = time.perf_counter(), time.process_time()
    work()
    return Cost(time.perf_counter() - begin, time.process_time() - processor, peak_memory_mib())


def main() -> None:
    """Measure and print, a line as it is known."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millions", nargs="*", type=int, default=[10, 50, 100])
    parser.add_argument("--backbones", nargs="*", default=["dkt", "hybrid"])
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    console = Console(width=sum(WIDTHS), highlight=False)
    first: dict[str, float] = {}
    _line(console, COLUMNS)
    with tempfile.TemporaryDirectory() as scratch:
        logs = arguments.folder or Path(scratch) / "log"
        for millions in arguments.millions:
            files, answers = alone(simulated, logs, millions * 1_000_000)
            shards = Path(scratch) / f"{millions}"
            works = {"shards": (shard, files, shards)} | {
                f"shards, {name} for an epoch": (epoch, name, shards) for name in arguments.backbones
            }
            for work, (measure, *given) in works.items():
                cost = alone(measure, *given)
                each = cost.processor / answers
                told = (
                    f"{answers:,}",
                    work,
                    f"{cost.seconds:.0f}",
                    f"{answers / cost.seconds:,.0f}",
                    f"{cost.processor:.0f}",
                    f"{each / first.setdefault(work, each):.2f}",
                    f"{cost.memory:,.0f}",
                )
                _line(console, told)


def _line(console: Console, cells: Sequence[str]) -> None:
    console.print("".join(cell.rjust(width) for cell, width in zip(cells, WIDTHS, strict=True)))


if __name__ == "__main__":
    main()
