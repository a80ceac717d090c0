"""What the logistic model on counts costs beside a dkt on the same log, and how it scales.

    python -m benchmarks.counts [LOG] [--column OURS=THEIRS ...]

One thread. Without a log, one of the size of ASSISTments17 at the latest 50 answers is simulated (1,700 students, 3,160
questions, 411 concepts). Claims: fitted to its optimum within 10 s for the whole of ASSISTments17; memory that does not
hold [students, steps, concepts] at once. Memory is the peak above what the process held before, each in a process of
its own; dkt is trained naively, as long as it takes to stop.
"""

import argparse
import time
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.measuring import alone
from tsdr import Sequences, TrainingOptions, read_log, simulate
from tsdr.debias.building import new_objective
from tsdr.folds import Split
from tsdr.methods import NAIVE_OPTIONS
from tsdr.processes import peak_memory_mib
from tsdr.training.trainer import fit


def sequences_of(path: str | None, columns: dict[str, str]) -> Sequences:
    """The latest 50 answers of each student."""
    log = simulate(students=1700, questions=3160, concepts=411).log if path is None else read_log(Path(path), columns)
    return Sequences.from_log(log)


def measure(backbone: str, path: str | None, columns: dict[str, str]) -> tuple[float, float, float, int]:
    """Seconds, MiB, the validation AUC and the number of answers learned from."""
    torch.set_num_threads(1)
    sequences = sequences_of(path, columns)
    split = Split.hold_out(sequences.student)
    train, validation = sequences.select(split.train), sequences.select(split.validation)
    training = TrainingOptions(device="cpu", stop_by="auc")
    before, begin = peak_memory_mib(), time.perf_counter()
    learner = new_objective(backbone, train, {}, training, NAIVE_OPTIONS)
    epochs = fit(learner, train, validation, training)
    answers = len(train.scored)
    return time.perf_counter() - begin, peak_memory_mib() - before, epochs[-1].best_score, answers


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", nargs="?")
    parser.add_argument("--column", action="append", default=[])
    arguments = parser.parse_args()
    columns = dict(pair.split("=", 1) for pair in arguments.column)
    found = {name: alone(measure, name, arguments.log, columns) for name in ("counts", "dkt")}
    table = Table("backbone", "seconds", "over dkt's", "MiB", "over dkt's", "validation AUC")
    for name, (seconds, memory, auc, _) in found.items():
        ratios = f"{seconds / found['dkt'][0]:.2f}", f"{memory / found['dkt'][1]:.2f}"
        table.add_row(name, f"{seconds:.1f}", ratios[0], f"{memory:.0f}", ratios[1], f"{auc:.4f}")
    table.title = f"{arguments.log or 'simulated'}: trained on {found['dkt'][3]:,} answers, one thread"
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
