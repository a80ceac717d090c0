"""What the number of threads costs: every backbone, on a quiet machine and beside a busy core, against one thread.

    python -m benchmarks.threads [NAME ...] [--students 60]

Each backbone is trained by `tsdr.fit` for two epochs on a simulated log (naive, windows of 50), with as many threads
as it is given unless one is told otherwise, and with one; a process each, which is warm by then, and the best of the
times that two seconds have room for counts, two at least. `grid` rows are the second of two folds of dkt and of
simplekt: computed by one worker, as `reproduce --workers 1` does, and in one process, as `compare` does; the ratio is
that of these two. The busy core is a process that does nothing but loop. Claim: no ratio is above 1.5; ends with 1 if
it does not hold. On two cores it takes about 6 minutes.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

import tsdr
from benchmarks.measuring import alone
from tsdr.backbones import backbone_names
from tsdr.devices import THREADS
from tsdr.experiments.engines import InProcess, Job, Processes
from tsdr.experiments.logs import Simulated
from tsdr.judging.experiment import plan_folds
from tsdr.records.folder import RecordFolder
from tsdr.records.run import Record
from tsdr.training.options import TrainingOptions

QUESTIONS, CONCEPTS, WINDOW = 200, 20, 50
MOST, SPAN = 1.5, 2.0
GRIDS = ("dkt", "simplekt")
Times = tuple[float, float, int]  # what is claimed of, what it is held against, and the threads of the former


def fitting_seconds(backbone: str, students: int) -> tuple[float, int]:
    """How long it takes to train, once the process is warm, and on how many threads."""
    log = tsdr.simulate(students=students, questions=QUESTIONS, concepts=CONCEPTS).log
    training = TrainingOptions(max_epochs=2, device="cpu")
    seconds: list[float] = []
    while len(seconds) < 3 or sum(seconds[1:]) < SPAN:  # the first warms the process
        begin = time.perf_counter()
        model = tsdr.fit(log, backbone=backbone, method="naive", window=WINDOW, training=training)
        seconds.append(time.perf_counter() - begin)
    return min(seconds[1:]), model.training["threads"]


def grid_seconds(backbone: str, students: int, workers: int) -> tuple[float, int]:
    """How long a second fold takes in this process, or, with workers, in one of its own; and on how many threads."""
    engine = Processes(workers) if workers else InProcess()
    with tempfile.TemporaryDirectory() as folder:
        experiment = Simulated(0.8, students, QUESTIONS, CONCEPTS).experiment(RecordFolder(Path(folder)), 2, seed=1)
        planned = plan_folds(
            experiment, backbone=backbone, training=TrainingOptions(max_epochs=10, device="cpu"), method="naive"
        )
        records = [came for came in engine.run([Job(experiment, fold) for fold in planned]) if isinstance(came, Record)]
    return records[-1].seconds, records[-1].threads or 0


def against_one_thread(backbone: str, students: int) -> Times:
    """The time with as many threads as are chosen, and with one."""
    chosen, threads = alone(fitting_seconds, backbone, students)
    os.environ[THREADS] = "1"
    try:
        return chosen, alone(fitting_seconds, backbone, students)[0], threads
    finally:
        del os.environ[THREADS]


def worker_against_process(backbone: str, students: int) -> Times:
    """The time of a grid by one worker, and in one process."""
    worker, threads = grid_seconds(backbone, students, 1)
    return worker, alone(grid_seconds, backbone, students, 0)[0], threads


def main() -> None:
    """Measure, print, and end with 1 if anything is too slow."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=backbone_names())
    parser.add_argument("--students", type=int, default=60)
    arguments = parser.parse_args()
    os.environ.pop(THREADS, None)  # it is what is chosen without it that is measured
    cases: list[tuple[str, Callable[[str, int], Times]]] = [(name, against_one_thread) for name in arguments.names]
    cases += [(name, worker_against_process) for name in GRIDS if name in arguments.names]
    measured = {}
    for beside in (False, True):
        with _busy_core() if beside else nullcontext():
            for case in track(cases, "Beside a busy core" if beside else "On a quiet machine"):
                measured[beside, case] = case[1](case[0], arguments.students)
    columns = ("threads", "s", "s, one", "ratio", "busy: s", "s, one", "ratio")
    table = Table("", *columns, title=f"{os.cpu_count()} cores, {arguments.students} students, two epochs")
    for case in cases:
        (quiet, by_quiet, threads), (busy, by_busy, _) = measured[False, case], measured[True, case]
        name = case[0] if case[1] is against_one_thread else f"grid of {case[0]}: a worker, a process"
        seconds = [f"{value:.2f}" for value in (quiet, by_quiet, quiet / by_quiet, busy, by_busy, busy / by_busy)]
        table.add_row(name, str(threads), *seconds)
    Console(width=110).print(table)
    worst = max(seconds / held_against for seconds, held_against, _ in measured.values())
    print(f"the largest ratio: {worst:.2f}, at most {MOST} is claimed")
    sys.exit(worst > MOST)


@contextmanager
def _busy_core() -> Iterator[None]:
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        busy.kill()
        busy.wait()


if __name__ == "__main__":
    main()
