"""Evidence against the truth: how far predictions are off over ALL cells of a simulated log, logged or not."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tsdr.backbones.contract import AnyBackbone
from tsdr.errors import InputError
from tsdr.evaluation.metrics import Array, Predictions, auc, auc_influence, short
from tsdr.sequences import Sequences
from tsdr.simulator import Truth

TRUTH_BATCH = 64
BANDS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


class KnownSuccess(Protocol):
    """A truth to be tested against: the chance of success [students, answers, concepts] just before each answer."""

    @property
    def student(self) -> Sequence[str] | NDArray[np.str_]:
        """The students along the first axis."""

    @property
    def concept(self) -> Sequence[str] | NDArray[np.str_]:
        """The concepts along the last axis."""

    @property
    def probability(self) -> NDArray[np.float32]:
        """The chance of a right answer, were a question of the concept asked; not a number where none can be."""


@dataclass(frozen=True)
class TrueRisk:
    """Metrics over all cells (scored step, concept) and what each student contributes to them.

    `true_bce` and `true_rmse` are against the true probability, `true_auc` against an answer drawn for every cell;
    `bias` is the mean of predicted minus true success by band of true success. `by_student` has, in the order of
    the students, the number of cells, the sums of cross-entropy and squared error, and the AUC's influence.
    """

    metrics: dict[str, float]
    bias: dict[str, float]
    by_student: dict[str, list[float | None]]


def true_probability(sequences: Sequences, truth: KnownSuccess) -> Tensor:
    """The true chance of success just before each step, [sequences, steps, concepts], in the vocabulary's order.

    Not a number where there is no cell: where no question of the concept is left to be asked.
    """
    return _at_steps(truth.probability, sequences, truth)


def true_propensity(sequences: Sequences, truth: Truth) -> Tensor:
    """The true chance that a concept is the one logged at a step, [sequences, steps, concepts]."""
    return _at_steps(truth.propensity, sequences, truth)


def _at_steps(values: NDArray[np.float32], sequences: Sequences, truth: KnownSuccess) -> Tensor:
    student = {str(name): i for i, name in enumerate(truth.student)}
    concept = {str(name): i for i, name in enumerate(truth.concept)}
    try:
        rows = np.array([student[name] for name in sequences.student], dtype=np.int64)
        columns = np.array([concept[name] for name in sequences.vocabulary.concepts], dtype=np.int64)
    except KeyError as error:
        raise InputError(
            f"{error} is in the log and not in its truth; the two belong to different simulations"
        ) from error
    return torch.from_numpy(values[rows[:, None], sequences.position.numpy()][..., columns])


def true_risk(model: AnyBackbone, sequences: Sequences, truth: KnownSuccess, seed: int = 0) -> TrueRisk:
    """Ask the model for every concept at every scored step, and compare with the truth."""
    predicted, true, student = (
        np.concatenate(parts) for parts in zip(*_at_scored_steps(model, sequences, truth), strict=True)
    )
    drawn = (np.random.default_rng(seed).random(true.shape) < true).astype(np.int64)
    cells = np.isfinite(true)
    predicted, true, drawn = predicted[cells], true[cells], drawn[cells]
    cell = Predictions(predicted, drawn, np.repeat(student, cells.sum(1)))
    squared = (predicted - true) ** 2
    entropy = -(true * np.log(predicted) + (1 - true) * np.log(1 - predicted))
    metrics = {
        "true_bce": float(entropy.mean()),
        "true_rmse": float(np.sqrt(squared.mean())),
        "true_auc": auc(cell.success, cell.correct),
    }
    band = np.digitize(true, BANDS[1:-1])
    bias = {
        f"{BANDS[b]:g} to {BANDS[b + 1]:g}": float((predicted - true)[band == b].mean())
        for b in range(len(BANDS) - 1)
        if (band == b).any()
    }
    terms = {
        "cells": np.ones(len(true)),
        "true_bce": entropy,
        "true_squared_error": squared,
        "true_auc_influence": auc_influence(cell),
    }
    students = int(student.max()) + 1
    sums = {name: np.bincount(cell.student, values, minlength=students) for name, values in terms.items()}
    return TrueRisk(metrics, bias, {name: short(values) for name, values in sums.items()})


def _at_scored_steps(
    model: AnyBackbone, sequences: Sequences, truth: KnownSuccess
) -> Iterator[tuple[Array, Array, Array]]:
    """Predicted and true success [scored steps, concepts] and the student of each step, batch by batch.

    The truth is not a number where there is no cell.
    """
    device = next(model.parameters()).device
    probability = true_probability(sequences, truth)
    student = sequences.student_numbers()
    model.eval()
    with torch.no_grad():
        for rows in torch.arange(len(sequences)).split(TRUTH_BATCH):
            batch = sequences.batch_of(rows)
            scored = batch.scored()
            every = torch.arange(model.n_concepts, device=device).expand(*scored.shape, -1)
            logits = model.answer(model.encode(batch.to(device)), every).cpu().double()
            steps = student[rows][:, None].expand_as(scored)[scored]
            true = probability[rows][scored].double()
            yield logits[scored].sigmoid().clamp(1e-12, 1 - 1e-12).numpy(), true.numpy(), steps.numpy()
