"""Some students of a log that is so large that all of them would take long."""

import warnings

import numpy as np
import polars as pl

from tsdr.defaults import SEED, Extent
from tsdr.errors import InputError
from tsdr.log import Log

MANY = 1_000_000  # answers; more are not diagnosed or cross-validated unless that is asked for


def sampled(log: Log, students: Extent | None = None, seed: int = SEED) -> Log:
    """The log of so many students, drawn by the seed from the set of their ids, or of all.

    Unless it is said, all; or, of a log of more than a million answers, as many as have about a million. It is said
    where students are drawn.
    """
    there, answers = len(log.students), log.answered.height
    if isinstance(students, int) and students < 1:
        raise InputError(f"a number of students to draw is at least 1, not {students}")
    chosen = students or ("all" if answers <= MANY else max(1, there * MANY // answers))
    if chosen == "all" or chosen >= there:
        return log
    names = np.random.default_rng(seed).permutation(np.array(sorted(log.students)))[:chosen]
    drawn = Log(log.frame.filter(pl.col("student").is_in(names.tolist())), source=log.source)
    longer = "" if students else f"; all take about {answers / MANY:.0f} times as long: --students all"
    warnings.warn(
        f"{log.source}: of {there:,} students with {answers:,} answers, {chosen:,} with {drawn.answered.height:,} are "
        f"drawn by the seed{longer}",
        stacklevel=3,
    )
    return drawn
