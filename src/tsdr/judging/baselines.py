"""Baselines that keep us honest: what is reached without any knowledge tracing, and what cannot be passed.

The logistic model on counts, which a deep model has to beat, is a backbone like the others: `counts`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tsdr.judging.limit import limit
from tsdr.metrics import Predictions
from tsdr.resampling import Array
from tsdr.sequences import Sequences
from tsdr.simulator import Simulation

SMOOTHING = 5.0


@dataclass(frozen=True)
class Said:
    """What was said of the observed answers, and of every concept at every scored step [scored steps, concepts]."""

    observed: Predictions
    everywhere: Array


def global_mean(train: Sequences, test: Sequences) -> Said:
    """The share right of the training students, for every answer."""
    share = float(train.answers.correct.double().mean())
    return _by_concept(np.full(len(train.vocabulary.concepts), share), test)


def concept_mean(train: Sequences, test: Sequences) -> Said:
    """The concept's share right among the training students, smoothed towards the overall share."""
    concept, correct = train.answers.concept.numpy(), train.answers.correct.numpy()
    concepts = len(train.vocabulary.concepts)
    answers, right = np.bincount(concept, minlength=concepts), np.bincount(concept, correct, minlength=concepts)
    return _by_concept((right + SMOOTHING * correct.mean()) / (answers + SMOOTHING), test)


def _by_concept(shares: Array, test: Sequences) -> Said:
    everywhere = np.tile(shares, (len(test.scored), 1))
    return Said(Predictions.scored(shares[test.events.concept[test.scored].numpy()], test), everywhere)


MEANS: dict[str, Callable[[Sequences, Sequences], Said]] = {"global-mean": global_mean, "concept-mean": concept_mean}
# The best possible predictors of a simulated log: from the window that models see, or from the whole history, and with
# skipped offers as evidence.
LIMITS = {
    "limit": {"whole": False, "skips": False},
    "limit-skips": {"whole": False, "skips": True},
    "limit-whole": {"whole": True, "skips": False},
    "limit-whole-skips": {"whole": True, "skips": True},
}


def best_possible(name: str, simulation: Simulation, test: Sequences) -> Said:
    """What the best possible predictor of this name says."""
    found = limit(simulation, test, **LIMITS[name])
    return Said(Predictions.scored(found.at_question, test), found.success)
