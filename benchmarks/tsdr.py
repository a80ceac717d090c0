"""What debiasing costs: an epoch of tsdr relative to one of naive training, in time and in memory.

    python -m benchmarks.tsdr [NAME ...]

512 students x 50 steps, batches of 64, two threads, 247 and 1,769 concepts. Claims, for every backbone, with the
default number of cells: at most 1.35 times naive's time (dkt: 2) and 1.2 times its memory; by both, a network of the
backbone's kind and `counts`, at most the time of `tsdr-own`, by such a network alone; from 247 to 1,769 concepts the
time of an epoch grows by at most 15 %; with `all` cells at most twice naive's memory. Epochs of the methods, at both
numbers of concepts, take turns in one process, five times and for 20 seconds at least; a ratio is the median over the
turns, with its quartiles. (The best epoch of each would favour naive: a short one finds a quiet moment more easily.)
Memory is the peak above what the process held before its first model, each measured in a process of its own; of `all`,
over one batch at 247 concepts.
"""

import argparse
import time
from statistics import median
from typing import Any

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.measuring import STUDENTS, THREADS, alone, an_epoch, quartiles, random_batch
from tsdr.backbones import backbone_names, build_backbone
from tsdr.debias.building import network_beside
from tsdr.debias.imputation import Imputation
from tsdr.debias.objective import JointObjective
from tsdr.debias.propensity import ConceptQuestions
from tsdr.methods import options_of
from tsdr.processes import peak_memory_mib
from tsdr.training.memory import keep_freed_memory
from tsdr.training.options import TrainingOptions

FEW, MANY = 247, 1769
QUESTIONS = 5000
TURNS, SECONDS = 5, 20
# By the name of a method, or of tsdr with what is changed in it.
METHODS: dict[str, dict[str, Any]] = {"naive": {}, "tsdr": {}, "tsdr-own": {}, "both": {"imputation": "both"}}
Turn = dict[tuple[str, int], float]


def objective(name: str, concepts: int, method: str, changes: dict[str, Any]) -> JointObjective:
    """A fresh model, and what it is trained by, in a process that treats memory as the trainer does.

    What imputes is as it was drawn: the batches of an epoch cost the same, and fitting it is not among them.
    """
    torch.set_num_threads(THREADS)
    keep_freed_memory()
    torch.manual_seed(0)
    options = options_of("tsdr" if method == "both" else method, targeted=False, **changes)
    training = TrainingOptions(device="cpu")
    model = build_backbone(name, n_concepts=concepts, n_questions=QUESTIONS)
    imputation = None
    if options.imputing:
        by_counts = options.imputation != "own"
        fitted = [build_backbone("counts", n_concepts=concepts, n_questions=QUESTIONS)] if by_counts else []
        learned = None if options.imputation == "counts" else network_beside(name, model, options)
        imputation = Imputation(fitted, learned)
    questions = ConceptQuestions(random_batch(STUDENTS, concepts, QUESTIONS).events().pairs(), concepts, QUESTIONS)
    return JointObjective(model.train(), options, training, imputation, questions)


def seconds(name: str) -> list[Turn]:
    """How long an epoch of each method at each number of concepts took, turn by turn."""
    cases = [(method, concepts) for concepts in (FEW, MANY) for method in METHODS]
    learners = {case: objective(name, case[1], case[0], METHODS[case[0]]) for case in cases}
    turns: list[Turn] = []
    start = time.perf_counter()
    while len(turns) < TURNS or time.perf_counter() - start < SECONDS:
        turns.append({})
        for case, learner in learners.items():
            batches = an_epoch(case[1], QUESTIONS)
            begin = time.perf_counter()
            for batch in batches:
                learner.step(batch)
            turns[-1][case] = time.perf_counter() - begin
    return turns


def memory(name: str, concepts: int, method: str, changes: dict[str, Any], batches: int) -> float:
    """The peak, in MiB, of so many batches of training."""
    before = peak_memory_mib()
    learner = objective(name, concepts, method, changes)
    for batch in an_epoch(concepts, QUESTIONS)[:batches]:
        learner.step(batch)
    return peak_memory_mib() - before


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=backbone_names())
    names = parser.parse_args().names
    console = Console(width=170)
    title = f"An epoch of 512 students x 50 steps, {THREADS} threads: "
    sizes = f"({FEW} / {MANY:,})"
    table = Table(
        "backbone",
        f"naive, s {sizes}",
        f"tsdr / naive ({FEW})",
        f"tsdr / naive ({MANY:,})",
        f"tsdr, {MANY:,} / {FEW}",
        f"tsdr-own / naive ({FEW})",
        f"by both / naive ({FEW})",
        f"by both / tsdr-own ({FEW})",
        title=title + "time, median (quartiles) over turns",
    )
    for name in track(names, "Time", console=console):
        turns = alone(seconds, name)
        naive = _both(*(median(turn["naive", concepts] for turn in turns) for concepts in (FEW, MANY)))
        columns = (
            quartiles([turn[above] / turn[below] for turn in turns])
            for above, below in [
                (("tsdr", FEW), ("naive", FEW)),
                (("tsdr", MANY), ("naive", MANY)),
                (("tsdr", MANY), ("tsdr", FEW)),
                (("tsdr-own", FEW), ("naive", FEW)),
                (("both", FEW), ("naive", FEW)),
                (("both", FEW), ("tsdr-own", FEW)),
            ]
        )
        table.add_row(name, naive, *columns)
    console.print(table)
    table = Table(
        "backbone", f"naive, MiB {sizes}", f"tsdr / naive {sizes}", f"all / naive ({FEW})", title=title + "memory"
    )
    for name in track(names, "Memory", console=console):
        held = {
            (method, concepts): alone(memory, name, concepts, method, {}, 8)
            for method in ("naive", "tsdr")
            for concepts in (FEW, MANY)
        }
        ratios = [held["tsdr", concepts] / held["naive", concepts] for concepts in (FEW, MANY)]
        everything = alone(memory, name, FEW, "tsdr", {"cells": "all"}, 1) / held["naive", FEW]
        naive = f"{held['naive', FEW]:.0f} / {held['naive', MANY]:.0f}"
        table.add_row(name, naive, _both(*ratios), f"{everything:.2f}")
        console.print(f"{name}: naive {naive} MiB, tsdr / naive {_both(*ratios)}, all / naive {everything:.2f}")
    console.print(table)


def _both(few: float, many: float) -> str:
    return f"{few:.2f} / {many:.2f}"


if __name__ == "__main__":
    main()
