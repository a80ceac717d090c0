"""Evidence against the truth: how far predictions are off over ALL cells of a simulated log, logged or not."""

from dataclasses import dataclass

import numpy as np
import torch

from tsdr.backbones.contract import AnyBackbone
from tsdr.devices import device_of
from tsdr.metrics import Predictions, auc, auc_influence, short
from tsdr.resampling import Array
from tsdr.sequences import Sequences
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
    scored = sequences.batch.scored
    true = true_probability(sequences, truth)[scored].double().numpy()
    student = sequences.student_numbers()[:, None].expand_as(scored)[scored].numpy()
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
    device = device_of(model)
    model.eval()
    found = []
    with torch.no_grad():
        for batch in sequences.batches(TRUTH_BATCH):
            every = torch.arange(model.n_concepts, device=device).expand(*batch.mask.shape, -1)
            logits = model.answer(model.encode(batch.to(device)), every).cpu().double()
            found.append(logits[batch.scored].sigmoid().numpy())
    return np.concatenate(found)
