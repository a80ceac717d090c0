"""What the benchmarks of models share: random interactions, a process of its own, two threads or OMP_NUM_THREADS."""

import multiprocessing
import os
from collections.abc import Callable
from statistics import quantiles
from typing import Any, TypeVar

import torch

from tsdr.sequences import Batch

Result = TypeVar("Result")
STUDENTS, STEPS, BATCH = 512, 50, 64
THREADS = int(os.environ.get("OMP_NUM_THREADS", 2))


def random_batch(students: int, concepts: int, questions: int) -> Batch:
    """Random interactions, none of them padding."""
    shape = (students, STEPS)
    return Batch.of_answers(
        torch.randint(concepts, shape),
        torch.randint(questions, shape),
        torch.randint(2, shape),
        torch.ones(shape, dtype=torch.bool),
    )


def an_epoch(concepts: int, questions: int) -> list[Batch]:
    """The batches of an epoch."""
    everything = random_batch(STUDENTS, concepts, questions)
    return [everything.map(lambda tensor, at=at: tensor[at : at + BATCH]) for at in range(0, STUDENTS, BATCH)]  # type: ignore[misc]


def quartiles(values: list[float]) -> str:
    """The median, and the quartiles."""
    low, middle, high = quantiles(values, n=4)
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def alone(measure: Callable[..., Result], *arguments: Any) -> Result:
    """Measure in a process of its own, so that memory is its own too."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measure, arguments)
