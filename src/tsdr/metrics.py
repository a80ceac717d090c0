"""Metrics of predicted success against observed answers, pooled and per student."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import rankdata

from tsdr.resampling import Array

if TYPE_CHECKING:
    from tsdr.sequences import Sequences  # needs torch, which metrics do not

ECE_BINS = 10


@dataclass(frozen=True)
class Predictions:
    """Predicted success and observed answers, one a scored step."""

    success: Array
    correct: Array
    student: Array

    @classmethod
    def scored(cls, success: Array, sequences: "Sequences") -> "Predictions":
        """Predictions of the scored answers of sequences."""
        correct = sequences.events.correct[sequences.scored].numpy()
        return cls(success, correct, sequences.student_of_scored().numpy())


def auc(success: Array, correct: Array) -> float:
    """Area under the ROC curve, from the ranks of right answers; not a number where all answers are alike."""
    right = int(correct.sum())
    if not 0 < right < len(correct):
        return float("nan")
    above = rankdata(success)[correct == 1].sum() - right * (right + 1) / 2
    return float(above / (right * (len(correct) - right)))


def auc_influence(predictions: Predictions) -> Array:
    """How much each answer moves the pooled AUC: DeLong's components, which sum to nought.

    An answer's component is the share of the other class that it is ranked rightly against, less the AUC, over the
    number of answers of its class.
    """
    success, right = predictions.success, predictions.correct == 1
    own_rank = np.empty(len(success))
    for group in (right, ~right):
        own_rank[group] = rankdata(success[group])
    below = (rankdata(success) - own_rank) / np.where(right, (~right).sum(), right.sum())
    placement = np.where(right, below, 1 - below)
    return (placement - auc(success, predictions.correct)) / np.where(right, right.sum(), (~right).sum())


def auc_error(predictions: Predictions) -> float:
    """The standard error of the pooled AUC, students being independent of each other and their answers not."""
    return float(np.sqrt((np.bincount(predictions.student, auc_influence(predictions)) ** 2).sum()))


def acc(success: Array, correct: Array) -> float:
    """Share of answers on the right side of one half."""
    return float(np.mean((success >= 0.5) == correct))


def rmse(success: Array, correct: Array) -> float:
    """Root of the mean squared difference."""
    return float(np.sqrt(np.mean((success - correct) ** 2)))


def log_loss(success: Array, correct: Array) -> float:
    """Mean binary cross-entropy; predictions are kept one float64 step away from 0 and 1."""
    epsilon = np.finfo(np.float64).eps
    clipped = np.clip(success, epsilon, 1 - epsilon)
    return float(-np.mean(correct * np.log(clipped) + (1 - correct) * np.log(1 - clipped)))


def _bin_of(success: Array) -> Array:
    return np.minimum((success * ECE_BINS).astype(int), ECE_BINS - 1)


def ece(success: Array, correct: Array) -> float:
    """Expected calibration error: |mean prediction - share right| in ten equal bins, weighted by their answers."""
    off = np.bincount(_bin_of(success), weights=success - correct, minlength=ECE_BINS)
    return float(np.abs(off).sum() / len(success))


def calibration(predictions: Predictions) -> dict[str, list[float | None]]:
    """Ten equal bins of predicted success: their answers, their mean prediction and their share right."""
    bin_of = _bin_of(predictions.success)
    answers, predicted, right = (
        np.bincount(bin_of, weights=values, minlength=ECE_BINS)
        for values in (np.ones(len(bin_of)), predictions.success, predictions.correct)
    )
    means = {"predicted": predicted, "right": right}
    with np.errstate(invalid="ignore"):
        return {"answers": short(answers)} | {name: short(sums / answers) for name, sums in means.items()}


METRICS: dict[str, Callable[[Array, Array], float]] = {
    "auc": auc,
    "acc": acc,
    "rmse": rmse,
    "log_loss": log_loss,
    "ece": ece,
}


def pooled(predictions: Predictions) -> dict[str, float]:
    """Every metric over all scored answers."""
    return {name: metric(predictions.success, predictions.correct) for name, metric in METRICS.items()}


def of_each_student(predictions: Predictions) -> dict[str, list[float | None]]:
    """What each student contributes to the pooled metrics.

    Sums over the student's scored answers: their number, how many are on the right side of one half, the squared
    error, the cross-entropy, and the influence on the pooled AUC.
    """
    success, correct = predictions.success, predictions.correct
    epsilon = np.finfo(np.float64).eps
    entropy = -np.log(np.clip(np.where(correct == 1, success, 1 - success), epsilon, 1))
    terms = {
        "answers": np.ones(len(correct)),
        "acc": (success >= 0.5) == correct,
        "squared_error": (success - correct) ** 2,
        "log_loss": entropy,
        "auc_influence": auc_influence(predictions),
    }
    return {name: short(np.bincount(predictions.student, term)) for name, term in terms.items()}


def short(values: Array) -> list[float | None]:
    """Seven digits: enough to draw students anew, and half as long in a record; None where there is no number."""
    return [float(f"{value:.7g}") if np.isfinite(value) else None for value in values]


def _students(predictions: Predictions) -> list[Array]:
    """Where the answers of each student are."""
    order = np.argsort(predictions.student, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(predictions.student[order])) + 1)


def per_student(predictions: Predictions) -> dict[str, float]:
    """The mean over students of every metric; AUC over the students who have right and wrong answers."""
    values = {
        name: np.array([metric(predictions.success[g], predictions.correct[g]) for g in _students(predictions)])
        for name, metric in METRICS.items()
    }
    return {
        name: float(np.nanmean(value)) if np.isfinite(value).any() else float("nan") for name, value in values.items()
    }
