"""Trained models, judged by the same answers of a log."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t

from tsdr.errors import InputError
from tsdr.log import Log
from tsdr.metrics import Predictions, auc_influence, pooled
from tsdr.models.model import Model
from tsdr.resampling import Array, Estimate


@dataclass(frozen=True)
class Judged:
    """What models come to on the answers that all of them can read, and what each changes against the first.

    `changes` are of the AUC and the log loss, with 95 % intervals over students.
    """

    answers: int
    left_out: int
    students: int
    metrics: list[dict[str, float]]
    changes: list[dict[str, Estimate]]


def judge(log: Log, models: Sequence[Model]) -> Judged:
    """Let each model predict every answer from the student's answers before it, as far as it knows their concepts."""
    predicted = [model.predict_log(log, unknown="skip") for model in models]
    read = np.logical_and.reduce([told["success"].is_not_null().to_numpy() for told in predicted])
    if not read.any():
        raise InputError(
            "no answer of the log is on a concept that the model knows (all of them do, if they are several)"
        )
    correct = log.answered["correct"].to_numpy()[read]
    student = np.unique(log.answered["student"].to_numpy()[read], return_inverse=True)[1]
    of_models = [Predictions(told["success"].to_numpy()[read].astype(float), correct, student) for told in predicted]
    return Judged(
        answers=len(correct),
        left_out=len(read) - len(correct),
        students=int(student.max()) + 1,
        metrics=[pooled(predictions) for predictions in of_models],
        changes=[_changes(of_models[0], predictions) for predictions in of_models[1:]],
    )


def _changes(first: Predictions, other: Predictions) -> dict[str, Estimate]:
    before, after = pooled(first), pooled(other)
    influences = {"auc": auc_influence, "log_loss": _log_loss_influence}
    return {
        metric: _over_students(after[metric] - before[metric], influence(other) - influence(first), first.student)
        for metric, influence in influences.items()
    }


def _log_loss_influence(predictions: Predictions) -> Array:
    """How much each answer moves the mean."""
    epsilon = np.finfo(float).eps
    loss = -np.log(
        np.clip(np.where(predictions.correct == 1, predictions.success, 1 - predictions.success), epsilon, 1)
    )
    return (loss - loss.mean()) / len(loss)


def _over_students(value: float, influence: Array, student: Array) -> Estimate:
    """A value with its interval: students are independent of each other, their answers are not."""
    each = np.bincount(student, influence)
    n = len(each)
    reach = float(t.ppf(0.975, n - 1) * np.sqrt(n / (n - 1) * (each**2).sum())) if n > 1 else float("nan")
    return Estimate(value, value - reach, value + reach)
