"""What long histories cost: an epoch with more of them in view, and a session of a student who has answered much.

    python -m benchmarks.histories [NAME ...]

Epochs are of 512 students, naive, in batches of 64, two threads, 247 concepts and 5,000 questions; those of different
lengths take turns in one process, and a ratio is the median over turns with its quartiles. Claims: an epoch of simplekt
with 200 answers in view takes at most 8 times one with 50, for 4 times the answers; one of a model that reads whole
histories is linear in the answers (at most 1.3 times that), up to 1,000 of each student; and a student with 20,000
answers among students with 200 does not raise the peak of memory by more than half, though all of them are read.
Sessions have 1,769 concepts and 8,000 questions and run on one thread: each time is that of an answer and the mastery
of all concepts after it, over 300 answers of a student who has 100, 1,000 or 10,000 already. Attention models have 200
in view, and when these are full drop the older half and read the others anew.
"""

import argparse
import random
import time
from statistics import median

import numpy as np
import polars as pl
import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.measuring import BATCH, STUDENTS, THREADS, alone, quartiles
from benchmarks.serving import CONCEPTS as SERVED_CONCEPTS
from benchmarks.serving import QUESTIONS as SERVED_QUESTIONS
from benchmarks.serving import new_bundle
from tsdr.backbones import backbone_names, build_backbone
from tsdr.backbones.contract import backbone_class
from tsdr.debias.objective import JointObjective
from tsdr.defaults import Extent
from tsdr.log import Log
from tsdr.methods import NAIVE_OPTIONS
from tsdr.models.model import Model
from tsdr.processes import peak_memory_mib
from tsdr.sequences import Sequences
from tsdr.training.memory import keep_freed_memory
from tsdr.training.options import TrainingOptions

CONCEPTS, QUESTIONS = 247, 5000
SHORT, LONG, WHOLE = 50, 200, 1000
ANSWERED, TIMED = (100, 1000, 10_000), 300
TURNS, SECONDS = 5, 20


def histories(lengths: list[int], window: Extent) -> Sequences:
    """Random answers of students with so many each."""
    drawn, answers = np.random.default_rng(0), sum(lengths)
    student = np.arange(len(lengths)).repeat(lengths)
    columns = {"question": drawn.integers(QUESTIONS, size=answers), "concept": drawn.integers(CONCEPTS, size=answers)}
    frame = pl.DataFrame({"student": student, **columns}).cast(pl.String)
    return Sequences.from_log(
        Log(frame.with_columns(correct=pl.Series(drawn.integers(2, size=answers)))), window=window
    )


def learner(name: str) -> JointObjective:
    """A fresh model of the paper's size, and what it is trained by."""
    torch.set_num_threads(THREADS)
    keep_freed_memory()
    torch.manual_seed(0)
    model = build_backbone(name, n_concepts=CONCEPTS, n_questions=QUESTIONS)
    return JointObjective(model.train(), NAIVE_OPTIONS, TrainingOptions(device="cpu"))


def epochs(name: str) -> dict[str, list[float]]:
    """The time of an epoch over that of a short one, turn by turn, at each length."""
    whole = backbone_class(name).linear
    views: dict[int, Extent] = {SHORT: SHORT, LONG: LONG, **({WHOLE: "all"} if whole else {})}
    taught = {length: (learner(name), histories([length] * STUDENTS, view)) for length, view in views.items()}
    turns: list[dict[int, float]] = []
    start = time.perf_counter()
    while len(turns) < TURNS or time.perf_counter() - start < SECONDS:
        turns.append({})
        for length, (objective, sequences) in taught.items():
            begin = time.perf_counter()
            for batch in sequences.batches(BATCH, torch.Generator().manual_seed(len(turns))):
                objective.step(batch)
            turns[-1][length] = time.perf_counter() - begin
    ratios = {str(length): [turn[length] / turn[SHORT] for turn in turns] for length in taught}
    return {**ratios, "seconds": [turn[SHORT] for turn in turns]}


def peak(name: str, longest: int) -> float:
    """The peak of memory, in MiB, of an epoch in which one student has so many answers and the others have 200."""
    before = peak_memory_mib()
    objective, sequences = learner(name), histories([LONG] * (STUDENTS - 1) + [longest], "all")
    for batch in sequences.batches(BATCH, torch.Generator().manual_seed(0)):
        objective.step(batch)
    return peak_memory_mib() - before


def session_times(name: str, answered: int) -> list[float]:
    """Milliseconds of an answer and the mastery after it, of a student with so many answers already."""
    torch.set_num_threads(1)
    model = Model(new_bundle(name, "all" if backbone_class(name).linear else LONG))
    drawn, session = random.Random(1), model.session()
    found = []
    for number in range(answered + TIMED):
        concept, question = drawn.randrange(SERVED_CONCEPTS), drawn.randrange(SERVED_QUESTIONS)
        begin = time.perf_counter()
        session.observe(f"q{question:04}", f"c{concept:04}", drawn.randrange(2))
        if number >= answered:
            session.mastery()
            found.append(1000 * (time.perf_counter() - begin))
    return found[1:]  # the first one reads all that was observed before


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=backbone_names())
    names = parser.parse_args().names
    console = Console(width=130)
    table = Table(
        "backbone",
        f"{SHORT} in view, s",
        f"{LONG} / {SHORT}",
        f"{WHOLE:,}, all in view / {SHORT}",
        "over linear",
        "20,000 answers / 200, memory",
        title=f"An epoch of 512 students, {THREADS} threads, median (quartiles) over turns",
    )
    for name in track([name for name in names if not backbone_class(name).fits_itself], "Epochs", console=console):
        found = alone(epochs, name)
        row = [name, f"{median(found['seconds']):.2f}", quartiles(found[str(LONG)])]
        if backbone_class(name).linear:
            memory = alone(peak, name, 20_000) / alone(peak, name, LONG)
            over = quartiles([ratio * SHORT / WHOLE for ratio in found[str(WHOLE)]])
            row += [quartiles(found[str(WHOLE)]), over, f"{memory:.2f}"]
        table.add_row(*row)
    console.print(table)
    heads = [f"{number:,} answers, p50 / p99, ms" for number in ANSWERED]
    last, first = ANSWERED[-1], ANSWERED[0]
    table = Table("backbone", *heads, f"p50, {last:,} / {first:,}", title="A session, one thread")
    for name in track(names, "Sessions", console=console):
        times = {number: np.percentile(alone(session_times, name, number), (50, 99)) for number in ANSWERED}
        growth = times[last][0] / times[first][0]
        table.add_row(name, *(f"{p50:.1f} / {p99:.1f}" for p50, p99 in times.values()), f"{growth:.2f}")
    console.print(table)


if __name__ == "__main__":
    main()
