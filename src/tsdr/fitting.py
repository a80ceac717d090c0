"""From a log to a trained model."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from tsdr.backbones.contract import backbone_class, skips_are_read, usual_window
from tsdr.debias.building import new_objective
from tsdr.defaults import BACKBONE, METHOD, MINIMUM, VALIDATION, Extent, Skips
from tsdr.devices import on_threads
from tsdr.folds import Split
from tsdr.log import Log
from tsdr.methods import Method
from tsdr.models.bundle import Bundle
from tsdr.models.model import Model
from tsdr.sequences import Sequences
from tsdr.training.epoch import Epoch
from tsdr.training.options import TrainingOptions
from tsdr.training.trainer import fit as train_until_done


def fit(
    log: Log,
    *,
    backbone: str = BACKBONE,
    method: str | Method = METHOD,
    options: Mapping[str, Any] | None = None,
    window: Extent | None = None,
    learned: Extent | None = None,
    skips: Skips | None = None,
    minimum: int = MINIMUM,
    validation: float = VALIDATION,
    training: TrainingOptions | None = None,
    checkpoint: Path | None = None,
    resume: bool = False,
    on_epoch: Callable[[Epoch], None] = lambda epoch: None,
) -> Model:
    """Train a backbone on all students of a log but a validation share, drawn by the seed, which stops the training.

    A `window` of a student's answers is in view before each, or all of them, as is usual for backbones that can read
    them; the latest `learned` of each student are learned from: unless it is said, as many as one window has. Offers
    that were skipped are read, if the log has any and the backbone can. `options` are the backbone's own. Of what the
    method trains, only the backbone is kept. With `resume`, it goes on from the `checkpoint` of a training that was
    interrupted.
    """
    how = training or TrainingOptions()
    debias = (Method.parse(method) if isinstance(method, str) else method).options()
    window = window or usual_window(backbone)
    read = skips_are_read(backbone, log.skipped_offers, skips)
    sequences = Sequences.from_log(log, window=window, scored=learned, minimum=minimum, skips=read)
    split = Split.hold_out(sequences.student, validation, seed=how.seed)
    train, held_out = sequences.select(split.train), sequences.select(split.validation)
    with on_threads(parallel=backbone_class(backbone).parallel):
        objective = new_objective(backbone, train, options or {}, how, debias, held_out)
        epochs = train_until_done(
            objective,
            train,
            held_out,
            how,
            checkpoint=checkpoint,
            resume=resume,
            on_epoch=on_epoch,
        )
        threads = torch.get_num_threads()
    about = {
        "method": str(method),
        "options": how.model_dump(),
        "debias": debias.model_dump(),
        "epochs": len(epochs),
        "best_epoch": epochs[-1].best_epoch,
        "validation_score": epochs[-1].best_score,
        "validation_score_name": epochs[-1].score_name,
        "train_students": len(split.train),
        "validation_students": len(split.validation),
        "threads": threads,
        "account": _account(log, sequences, train),
    }
    concepts = len(sequences.vocabulary.concepts)
    learned_from = torch.bincount(train.answers.concept, minlength=concepts).tolist()
    bundle = Bundle(objective.model, backbone, objective.model.options, sequences.vocabulary, window, about)
    return Model(replace(bundle, training_answers=tuple(learned_from)))


def _account(log: Log, sequences: Sequences, train: Sequences) -> dict[str, int]:
    """What became of the answers and the skipped offers of a log; of no others, those are left out."""
    dropped = sequences.dropped
    return {
        "answers": log.answered.height,
        "learned_from": len(train.answers),
        "stopped_by": len(sequences.answers) - len(train.answers),
        "earlier": dropped.earlier_interactions,
        "of_short_students": dropped.short_answers,
        "to_unknown_concepts": dropped.unknown_concepts,
        "skips": log.skipped_offers,
        "skips_read": sequences.skips_read,
    }
