"""Students drawn anew: they are independent of each other, and their answers are not."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
DRAWS = 1000


@dataclass(frozen=True)
class Estimate:
    """A value with its interval, of 95 % unless told otherwise, found by drawing students anew."""

    value: float
    low: float
    high: float


def times_drawn(students: int, rng: np.random.Generator) -> Array:
    """How often each student is drawn, [DRAWS, students], when as many are drawn with replacement as there are."""
    drawn = rng.integers(students, size=(DRAWS, students)) + students * np.arange(DRAWS)[:, None]
    return np.bincount(drawn.ravel(), minlength=DRAWS * students).reshape(DRAWS, students)


def bootstrap(sums: Array, value: Callable[[Array], Array], seed: int = 0, covered: float = 0.95) -> Estimate:
    """`value` of sums over students; `sums` is [students, columns], and `value` takes [..., columns]."""
    times = times_drawn(len(sums), np.random.default_rng(seed))
    low, high = np.quantile(value(times @ sums), [(1 - covered) / 2, (1 + covered) / 2])
    return Estimate(float(value(sums.sum(0))), float(low), float(high))
