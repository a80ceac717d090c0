"""What the backbones cost: an epoch, and answers to counterfactual targets relative to a plain forward.

    python -m benchmarks.backbones [NAME ...] [--size paper|light]

512 students x 50 steps, 247 concepts, 1,054 questions, batches of 64, two threads. Claims, for every backbone: an
epoch (forward and backward) takes at most 12 CPU-seconds; K targets a step cost at most 1.2 K plain forwards; five
cells a sequence, the history being encoded, at most half of one; all concepts at every step hold at most twice the
memory of a plain forward. Every measurement has a process of its own, so that memory is its own too.
"""

import argparse
import time
from collections.abc import Callable

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.measuring import BATCH, STEPS, THREADS, alone, an_epoch, random_batch
from tsdr.backbones import AnyBackbone, backbone_names, build_backbone
from tsdr.debias.objective import JointObjective
from tsdr.methods import NAIVE_OPTIONS
from tsdr.processes import peak_memory_mib
from tsdr.training.options import TrainingOptions

CONCEPTS, QUESTIONS = 247, 1054
CELLS, SOME = 5, 8
COLUMNS = (
    "backbone",
    "epoch, CPU s",
    f"{CELLS} cells",
    f"{SOME} a step / {SOME}",
    "all a step / all",
    "all, latest",
    "memory",
)


def targets(work: str) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The target concepts [B, M, K] and their steps of a piece of work."""
    if work == "cells":
        return torch.randint(CONCEPTS, (BATCH, CELLS, 1)), torch.randint(STEPS, (BATCH, CELLS))
    if work == "some":
        return torch.randint(CONCEPTS, (BATCH, STEPS, SOME)), None
    every = torch.arange(CONCEPTS)
    if work == "latest":
        return every.expand(BATCH, 1, -1), torch.full((BATCH, 1), STEPS)
    return every.expand(BATCH, STEPS, -1), None


def epoch_seconds(name: str, size: str) -> float:
    """CPU-seconds of an epoch of training."""
    objective = JointObjective(_set_up(name, size).train(), NAIVE_OPTIONS, TrainingOptions(device="cpu"))
    parts = an_epoch(CONCEPTS, QUESTIONS)
    objective.step(parts[0])
    begin = time.process_time()
    for part in parts:
        objective.step(part)
    return time.process_time() - begin


def relative_cost(name: str, size: str, work: str) -> tuple[float, float]:
    """The time of `answer` over that of a plain forward, and the rise of the peak memory in MiB.

    The two take turns, and the best time of each counts. For `plain`, there is nothing to answer.
    """
    model, batch = _set_up(name, size), random_batch(BATCH, CONCEPTS, QUESTIONS)
    with torch.no_grad():
        model(batch.map(lambda tensor: tensor[:1, :2]))
        before = peak_memory_mib()
        history = model.encode(batch)
        plain, other = float("inf"), float("inf")
        for _ in range(1 if work == "all" else 12):
            plain = min(plain, *(_seconds(lambda: model(batch)) for _ in range(3)))
            if work != "plain":
                concept, steps = targets(work)
                other = min(other, _seconds(lambda c=concept, s=steps: model.answer(history, c, steps=s)))  # type: ignore[misc]
        return other / plain, peak_memory_mib() - before


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=backbone_names())
    parser.add_argument("--size", default="paper", choices=["paper", "light"])
    arguments = parser.parse_args()
    title = f"size {arguments.size}: time relative to a plain forward, peak memory of all concepts / plain forward"
    table = Table(*COLUMNS, title=title)
    for name in track(arguments.names, "Measuring"):
        cost = {
            work: alone(relative_cost, name, arguments.size, work)
            for work in ("plain", "cells", "some", "all", "latest")
        }
        plain, everything = cost["plain"][1], cost["all"][1]
        table.add_row(
            name,
            f"{alone(epoch_seconds, name, arguments.size):.2f}",
            f"{cost['cells'][0]:.2f}",
            f"{cost['some'][0] / SOME:.2f}",
            f"{cost['all'][0] / CONCEPTS:.2f}",
            f"{cost['latest'][0]:.2f}",
            f"{everything:.0f} / {plain:.0f} MiB = {everything / plain:.2f}",
        )
    Console(width=110).print(table)


def _set_up(name: str, size: str) -> AnyBackbone:
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    return build_backbone(name, n_concepts=CONCEPTS, n_questions=QUESTIONS, size=size).eval()


def _seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
