"""Baselines that keep us honest: what is reached without any knowledge tracing."""

from collections.abc import Callable

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tsdr.evaluation.metrics import Array, Predictions
from tsdr.sequences import Sequences

SMOOTHING = 5.0


def global_mean(train: Sequences, test: Sequences) -> Predictions:
    """The share right of the training students, for every answer."""
    share = float(train.batch.correct[train.batch.mask].double().mean())
    return Predictions.scored(np.full(test.batch.mask.shape, share), test)


def concept_mean(train: Sequences, test: Sequences) -> Predictions:
    """The concept's share right among the training students, smoothed towards the overall share."""
    return Predictions.scored(_concept_shares(train)[test.batch.concept.numpy()], test)


def logistic_counts(train: Sequences, test: Sequences) -> Predictions:
    """A logistic model on counts of the student's right and wrong answers so far, and the concept's share right.

    The counts, as log(1 + n), are those of the concept and of all concepts, within the sequence: it sees what the
    models see.
    """
    shares = _concept_shares(train)
    if len(torch.unique(train.batch.correct[train.batch.mask])) < 2:
        return global_mean(train, test)  # there is nothing to tell apart
    model = make_pipeline(StandardScaler(), LogisticRegression())
    scored = train.batch.scored().numpy()
    model.fit(_features(train, shares)[scored], train.batch.correct.numpy()[scored])
    features = _features(test, shares)
    success = model.predict_proba(features.reshape(-1, features.shape[-1]))[:, 1]
    return Predictions.scored(success.reshape(features.shape[:2]), test)


BASELINES: dict[str, Callable[[Sequences, Sequences], Predictions]] = {
    "global-mean": global_mean,
    "concept-mean": concept_mean,
    "logistic-counts": logistic_counts,
}


def _concept_shares(train: Sequences) -> Array:
    mask = train.batch.mask.numpy()
    concept, correct = train.batch.concept.numpy()[mask], train.batch.correct.numpy()[mask]
    concepts = len(train.vocabulary.concepts)
    answers, right = np.bincount(concept, minlength=concepts), np.bincount(concept, correct, minlength=concepts)
    return (right + SMOOTHING * correct.mean()) / (answers + SMOOTHING)


def _features(sequences: Sequences, shares: Array) -> Array:
    """[sequences, steps, 5], from what stands before each step."""
    concept, correct = sequences.batch.concept.numpy(), sequences.batch.correct.numpy()
    same = np.tril(concept[:, :, None] == concept[:, None, :], k=-1)  # [sequence, step, earlier step]
    earlier = np.tril(np.ones(same.shape[1:]), k=-1)
    counts = [
        np.einsum("nts,ns->nt", same, correct),
        np.einsum("nts,ns->nt", same, 1 - correct),
        correct @ earlier.T,
        (1 - correct) @ earlier.T,
    ]
    share = shares[concept]
    return np.stack([*map(np.log1p, counts), np.log(share / (1 - share))], axis=-1)
