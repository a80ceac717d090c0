"""The paper's bound, watched during training on simulated logs, where the true propensity is known."""

import numpy as np
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from tsdr.debias.objective import JointObjective
from tsdr.debias.theory import bias_term, complexity_bound, variance_term
from tsdr.devices import device_of
from tsdr.judging.risk import TRUTH_BATCH
from tsdr.sequences import Sequences
from tsdr.simulator import Truth
from tsdr.truth import true_probability, true_propensity


def bound_terms(objective: JointObjective, sequences: Sequences, truth: Truth, seed: int = 0) -> dict[str, float]:
    """Both terms of the bound over all cells of these sequences, as the models stand.

    An answer is drawn from the truth for every cell, the same ones for the same seed, and p̂ is the propensity of
    concepts as training uses it, with w clipped: uniform where a method does not weight. A method that imputes also
    gets `smoothness`, the mean squared step of its imputation model's states (a mean over dimensions too), and
    `complexity`, Dudley's integral at that smoothness over a sequence of average length. Random numbers of the training
    that is under way are left as they are.
    """
    device = device_of(objective.model)
    probability, propensity = true_probability(sequences, truth), true_propensity(sequences, truth)
    answers = torch.bernoulli(probability, generator=torch.Generator().manual_seed(seed))
    columns: list[tuple[torch.Tensor, ...]] = []
    steps: list[tuple[float, int]] = []
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        for batch, cells in objective.over_all_cells(sequences, TRUTH_BATCH):
            scored = batch.scored
            answer, exposed = (values[batch.place].to(device) for values in (answers, propensity))
            error = binary_cross_entropy_with_logits(cells.logits, answer, reduction="none")
            found = (exposed, cells.propensity, error, cells.imputed)
            columns.append(tuple(values[scored].double().cpu() for values in found))
            if cells.step is not None:
                steps.append((cells.step, int((scored.sum(1) - 1).clamp(min=0).sum())))
    true, estimated, errors, imputed = (torch.cat(parts).numpy() for parts in zip(*columns, strict=True))
    terms = {
        "bias_term": bias_term(true, estimated, errors, imputed),
        "variance_term": variance_term(estimated, errors, imputed),
    }
    if steps:
        step, pairs = (np.array(values) for values in zip(*steps, strict=True))
        terms["smoothness"] = float((step * pairs).sum() / pairs.sum())
        per_sequence = max(1, round(pairs.sum() / len(sequences.students())))
        terms["complexity"] = complexity_bound(terms["smoothness"] * per_sequence, per_sequence)
    return terms
