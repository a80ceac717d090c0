"""What is done unless one is told otherwise: the same in Python and in every command."""

from typing import Literal

Extent = int | Literal["all"]  # how much of a history: the latest so many answers, or all of them

BACKBONE = "simplekt"
METHOD = "tsdr"
COMPARED = ("naive", METHOD)
WINDOW, MINIMUM = 50, 5  # how many of a student's latest answers are used, and how many a student must have
FOLDS, VALIDATION = 5, 0.1  # the latter of the students that are not tested
SEED = 42
