"""From a log to a trained model."""

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from tsdr.backbones.contract import backbone_class, skips_are_read, usual_window
from tsdr.cluster import RayTeam
from tsdr.debias.building import new_objective
from tsdr.defaults import BACKBONE, METHOD, MINIMUM, VALIDATION, Extent, Fitting, Skips
from tsdr.devices import on_threads
from tsdr.errors import InputError
from tsdr.folds import Split
from tsdr.lessons import Lessons
from tsdr.log import Log
from tsdr.methods import Method
from tsdr.models.bundle import Bundle
from tsdr.models.model import Model
from tsdr.sequences import Sequences
from tsdr.shards.folder import Shards
from tsdr.shards.sequences import ShardedSequences
from tsdr.training.epoch import Epoch
from tsdr.training.options import TrainingOptions
from tsdr.training.trainer import fit as train_until_done


def fit(
    log: Log | Shards,
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
    engine: Fitting = "process",
    workers: int | None = None,
    address: str | None = None,
) -> Model:
    """Train a backbone on all students of a log but a validation share, drawn by the seed, which stops the training.

    A `window` of a student's answers is in view before each, or all of them, as is usual for backbones that can read
    them; the latest `learned` of each student are learned from: unless it is said, as many as one window has. Offers
    that were skipped are read, if the log has any and the backbone can. `options` are the backbone's own. Of what the
    method trains, only the backbone is kept. Of a log in `Shards` some are in memory at a time; what is fitted to all
    that it gets at once, `counts` above all, gets a sample of its students where they have more than a million answers,
    and no more than half a million answers stop the training. With `resume`, it goes on from the `checkpoint` of a
    training that was interrupted. With the engine `ray`, so many `workers` train it together, in the cluster at an
    `address` or, without one, on this machine: they share each batch, and come to the same model, but for dropout.
    """
    how = training or TrainingOptions()
    if engine == "process" and (workers is not None or address is not None):
        raise InputError("workers, and an address, are those of the engine ray; give it, too (--engine ray)")
    if engine == "ray" and workers is None:
        raise InputError("say how many workers train the model together (--workers)")
    debias = (Method.parse(method) if isinstance(method, str) else method).options()
    window = window or usual_window(backbone)
    read = skips_are_read(backbone, log.skipped_offers, skips)
    view = {"window": window, "scored": learned, "minimum": minimum, "skips": read}
    train, held_out = _divided(log, view, validation, how.seed)
    parallel = backbone_class(backbone).parallel
    going_on: dict[str, Any] = {"checkpoint": checkpoint, "resume": resume, "on_epoch": on_epoch}
    with on_threads(parallel=parallel):
        if workers is None:
            objective = new_objective(backbone, train, options or {}, how, debias, held_out)
            epochs = train_until_done(objective, train, held_out, how, **going_on)
            by = {"threads": torch.get_num_threads()}
        else:
            here = how.model_copy(update={"device": "cpu"})
            with closing(RayTeam(workers, address, parallel=parallel, device=how.device)) as team:
                objective = new_objective(backbone, train, options or {}, here, debias, held_out)
                epochs = team.fit(objective, train, held_out, how, **going_on)
                by = {"threads": team.room.threads, "workers": workers}
    about = {
        "method": str(method),
        "options": how.model_dump(),
        "debias": debias.model_dump(),
        "epochs": len(epochs),
        "best_epoch": epochs[-1].best_epoch,
        "validation_score": epochs[-1].best_score,
        "validation_score_name": epochs[-1].score_name,
        "train_students": len(train.students()),
        "validation_students": len(held_out.students()),
        **by,
        "account": _account(log, train, held_out),
    }
    vocabulary = train.vocabulary
    learned_from = train.pairs().of_concepts(len(vocabulary.concepts))[0].tolist()
    bundle = Bundle(objective.model, backbone, objective.model.options, vocabulary, window, about)
    return Model(replace(bundle, training_answers=tuple(learned_from)))


def _divided(log: Log | Shards, view: Mapping[str, Any], validation: float, seed: int) -> tuple[Lessons, Sequences]:
    """The students to learn from, and those to stop by."""
    if isinstance(log, Shards):
        on_disk = ShardedSequences(log, **view, seed=seed)
        split = Split.hold_out(on_disk.students(), validation, seed=seed, most=on_disk.most_held_out)
        return on_disk.without(split.validation), on_disk.select(split.validation)
    sequences = Sequences.from_log(log, **view)
    split = Split.hold_out(sequences.student, validation, seed=seed)
    return sequences.select(split.train), sequences.select(split.validation)


def _account(log: Log | Shards, train: Lessons, held_out: Sequences) -> dict[str, int]:
    """What became of the answers and the skipped offers of a log; of no others, those are left out."""
    answers = log.answers if isinstance(log, Shards) else log.answered.height
    learned_from, stopped_by, dropped = int(train.pairs().answers.sum()), len(held_out.answers), train.dropped
    left_out = dropped.short_answers + dropped.unknown_concepts
    return {
        "answers": answers,
        "learned_from": learned_from,
        "stopped_by": stopped_by,
        "earlier": answers - learned_from - stopped_by - left_out,
        "of_short_students": dropped.short_answers,
        "to_unknown_concepts": dropped.unknown_concepts,
        "skips": log.skipped_offers,
        "skips_read": train.skips_read + held_out.skips_read,
    }
