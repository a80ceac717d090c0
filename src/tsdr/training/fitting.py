"""From sequences to a bundle: train by a method, and keep the backbone alone."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tsdr.debias.objective import DebiasOptions, new_objective
from tsdr.sequences import Sequences, Split
from tsdr.training.bundle import Bundle
from tsdr.training.trainer import Epoch, TrainingOptions, fit


def fit_bundle(
    sequences: Sequences,
    *,
    backbone: str,
    options: Mapping[str, Any],
    training: TrainingOptions,
    debias: DebiasOptions,
    validation: float = 0.1,
    checkpoint: Path | None = None,
    resume: bool = False,
    on_epoch: Callable[[Epoch], None] = lambda epoch: None,
) -> Bundle:
    """Train a backbone on all students but a validation share, drawn by the seed."""
    split = Split.hold_out(sequences.student, validation, seed=training.seed)
    train, held_out = sequences.select(split.train), sequences.select(split.validation)
    objective = new_objective(backbone, train, options, training, debias)
    epochs = fit(
        objective,
        train,
        held_out,
        training,
        checkpoint=checkpoint,
        resume=resume,
        on_epoch=on_epoch,
    )
    about = {
        "options": training.model_dump(),
        "debias": debias.model_dump(),
        "epochs": len(epochs),
        "best_epoch": epochs[-1].best_epoch,
        "validation_auc": epochs[-1].best_auc,
        "train_students": len(split.train),
        "validation_students": len(split.validation),
    }
    return Bundle(objective.model, backbone, objective.model.options, sequences.vocabulary, sequences.window, about)
