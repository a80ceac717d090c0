"""What is done unless one is told otherwise: the same in Python and in every command."""

from typing import Literal

Extent = int | Literal["all"]  # how much of a history: the latest so many answers, or all of them
Skips = Literal["read", "ignore"]  # what is done about offers that were shown and not answered
Fitting = Literal["process", "ray"]  # where one model is trained: here, or by workers of a Ray cluster together

BACKBONE = "hybrid"
METHOD = "tsdr"
COMPARED = ("naive", METHOD)
# How many of a student's answers are in view, in the paper and, unless they read whole histories, for models that are
# trained to be used; and how many a student must have.
WINDOW, LONG_WINDOW, MINIMUM = 50, 200, 5
WIDEST_WINDOW = 100_000
MOST_CONCEPTS = 50_000  # to learn: models have tables of them, and a diagnosis goes over all of them at every step
FOLDS, VALIDATION = 5, 0.1  # the latter of the students that are not tested
SEED = 42
UNZIPPED_LIMIT = 2.0  # GB that a gzipped file, or one of Parquet, may expand to
