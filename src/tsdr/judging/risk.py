"""Evidence against the truth: how far predictions are off over ALL cells of a simulated log, logged or not."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tsdr.backbones.contract import AnyBackbone, Reader
from tsdr.backbones.scored import of_scored
from tsdr.devices import device_of
from tsdr.metrics import Predictions, auc, auc_influence, short
from tsdr.resampling import Array
from tsdr.sequences import Batch, Sequences
from tsdr.truth import KnownSuccess, true_probability

TRUTH_BATCH = 64
BANDS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


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


def true_risk(model: AnyBackbone, sequences: Sequences, truth: KnownSuccess, seed: int = 0) -> TrueRisk:
    """Ask the model for every concept at every scored step, and compare with the truth."""
    return risk_of(over_all_cells(model, sequences), sequences, truth, seed)


def risk_of(predicted: Array, sequences: Sequences, truth: KnownSuccess, seed: int = 0) -> TrueRisk:
    """Compare predictions [scored steps, concepts] with the truth, which is not a number where there is no cell."""
    true = true_probability(sequences, truth)[sequences.scored].double().numpy()
    student = sequences.student_of_scored().numpy()
    predicted = np.clip(predicted, 1e-12, 1 - 1e-12)
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


def over_all_cells(model: AnyBackbone, sequences: Sequences) -> Array:
    """The success [scored steps, concepts] that a model expects of every concept."""
    device, reader = device_of(model), Reader(model)
    model.eval()

    def say(part: Batch) -> Tensor:
        batch = part.to(device)
        history = reader.read(batch)
        every = torch.arange(model.n_concepts, device=device)
        return at_scored(batch, lambda steps: model.answer(history, every.expand(*steps.shape, -1), steps=steps))

    with torch.no_grad():
        return of_scored(sequences, TRUTH_BATCH, say).double().sigmoid().numpy()


def at_scored(batch: Batch, ask: Callable[[Tensor], Tensor]) -> Tensor:
    """What is said [scored in the batch, ...] when asked for steps [B, M], from the first that is scored on."""
    width = batch.mask.shape[1]
    first = int(batch.scored.int().argmax(1)[batch.scored.any(1)].min()) if batch.scored.any() else width
    steps = torch.arange(first, width, device=batch.mask.device).expand(len(batch), -1)
    return ask(steps)[batch.scored[:, first:]].cpu()
