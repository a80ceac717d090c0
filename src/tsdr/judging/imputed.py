"""What a log is taken to show of concepts, against the truth: the mean success of each, as logged and as imputed.

The estimand is the mean success over ALL cells (scored step, concept) of a concept, logged or not. The share right
among logged answers is off where these are selected. What is imputed is off unless the imputation models are right, or
are targeted by weights that are: that is what being doubly robust means, and what is measured here.
"""

import numpy as np
import torch

from tsdr.backbones.contract import Reader
from tsdr.backbones.scored import of_scored
from tsdr.debias.objective import JointObjective
from tsdr.debias.stack import Stack
from tsdr.devices import device_of
from tsdr.judging.risk import TRUTH_BATCH, at_scored
from tsdr.resampling import Array
from tsdr.sequences import Batch, Sequences
from tsdr.truth import KnownSuccess, true_probability

DRAWS = 30


def mean_errors(objective: JointObjective, test: Sequences, truth: KnownSuccess, seed: int = 0) -> dict[str, float]:
    """Errors of mean success: root mean square over concepts, and their plain mean, by logged answers and imputed.

    `noise` is what targeting by these few students alone brings, as drawing them anew shows: root mean squares of
    standard errors over concepts, and the standard error of the plain mean.
    """
    assert objective.imputation is not None
    true = _by_concept(true_probability(test, truth)[test.scored].double())
    logged = _logged_shares(test)
    logits = _over_all_cells(objective, test)
    imputed = _means(objective.imputation.stack, logits)
    found = {**_errors("logged", logged - true), **_errors("imputed", imputed - true)}
    if objective.targeting is not None:
        stacks = objective.targeting.drawn_anew(DRAWS, seed)
        draws = np.stack([_means(stack, logits) for stack in stacks])
        found |= {
            "imputed_mean_noise": float(np.sqrt(draws.var(0).mean())),
            "imputed_mean_bias_noise": float(draws.mean(1).std()),
        }
    return found


def _errors(name: str, error: Array) -> dict[str, float]:
    return {f"{name}_mean_error": float(np.sqrt((error**2).mean())), f"{name}_mean_bias": float(error.mean())}


def _by_concept(values: torch.Tensor) -> Array:
    return np.nanmean(values.numpy(), axis=0)


def _logged_shares(test: Sequences) -> Array:
    """The share right of each concept's logged answers; the overall one where there are none."""
    concepts = len(test.vocabulary.concepts)
    concept, correct = (column[test.scored].numpy() for column in (test.events.concept, test.events.correct))
    answers, right = np.bincount(concept, minlength=concepts), np.bincount(concept, correct, minlength=concepts)
    return np.where(answers > 0, right / np.maximum(answers, 1), correct.mean())


@torch.no_grad()
def _over_all_cells(objective: JointObjective, test: Sequences) -> torch.Tensor:
    """The logits [scored steps, concepts, models] of each imputation model for every concept."""
    imputation = objective.imputation
    assert imputation is not None
    device, reader = device_of(objective.model), Reader(imputation)

    def say(part: Batch) -> torch.Tensor:
        batch = part.to(device)
        histories = reader.read(batch)
        every = torch.arange(objective.model.n_concepts, device=device)
        return at_scored(batch, lambda steps: imputation.logits(histories, every.expand(*steps.shape, -1), steps=steps))

    return of_scored(test, TRUTH_BATCH, say)


def _means(stack: Stack, logits: torch.Tensor) -> Array:
    every = torch.arange(logits.shape[1]).expand(logits.shape[:2])
    return _by_concept(stack(logits, every).sigmoid().double())
