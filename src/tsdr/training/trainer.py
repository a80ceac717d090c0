"""The training loop: epochs, early stopping, checkpoints; what is learned in a batch is the learner's affair."""

import hashlib
import time
from collections.abc import Callable
from pathlib import Path

import torch

from tsdr.devices import device_of
from tsdr.errors import InputError, in_a_sentence
from tsdr.lessons import Lessons
from tsdr.sequences import Sequences
from tsdr.training.checkpoint import read_checkpoint, write_checkpoint
from tsdr.training.epoch import Epoch
from tsdr.training.learner import Learner
from tsdr.training.memory import keep_freed_memory
from tsdr.training.options import TrainingOptions
from tsdr.training.pace import Pace
from tsdr.training.stopping import EarlyStopping


def fit(
    learner: Learner,
    train: Lessons,
    validation: Sequences,
    options: TrainingOptions,
    *,
    checkpoint: Path | None = None,
    resume: bool = False,
    watch: Callable[[], dict[str, float]] = dict,
    on_epoch: Callable[[Epoch], None] = lambda epoch: None,
) -> list[Epoch]:
    """Train until the validation score has not improved for `patience` epochs, and restore the best weights.

    Those before the first epoch are among them: a model that was prepared may be good already.
    What `watch` finds after an epoch is kept with it. After each epoch the `checkpoint` is written, by the first of a
    team, from which a call with `resume` goes on to the same numbers as one that was never interrupted.
    """
    learner.check(train, validation)
    keep_freed_memory()
    generator = torch.Generator().manual_seed(options.seed)
    stopping = EarlyStopping(options.patience)
    epochs: list[Epoch] = []
    most = 1 if learner.one_epoch else options.max_epochs
    pace = Pace(train.scored_answers, min(options.patience, most), most)
    run = fingerprint(learner, train, validation, options)
    if resume and checkpoint is not None and checkpoint.exists():
        epochs = _go_on(checkpoint, run, learner, stopping, generator)
    else:
        shuffle = torch.Generator().manual_seed(options.seed)
        for first in learner.warm_up():
            first.begin_epoch()
            _train_for_an_epoch(first, train, options, shuffle, pace)
    while not stopping.over and len(epochs) < most:
        begin = time.perf_counter()
        learner.begin_epoch()
        if not epochs:
            stopping.start(learner.validate(validation), learner.model)
        loss = _train_for_an_epoch(learner, train, options, generator, pace)
        score = learner.validate(validation)
        stopping.update(score, learner.model)
        seconds = time.perf_counter() - begin
        best = stopping.best_value, stopping.best_epoch
        epochs.append(Epoch(len(epochs) + 1, loss, learner.score_name, score, *best, seconds, watch()))
        if checkpoint is not None and learner.team.first:
            state = {
                "learner": learner.state(),
                "stopping": stopping.state(),
                "shuffle": generator.get_state(),
                "random": learner.team.random_state(),
                "epochs": [vars(epoch) for epoch in epochs],
            }
            write_checkpoint(checkpoint, run, state)
        on_epoch(epochs[-1])
    learner.model.load_state_dict(stopping.best_weights)
    learner.model.eval()
    learner.settle(validation)
    return epochs


def _train_for_an_epoch(
    learner: Learner, train: Lessons, options: TrainingOptions, generator: torch.Generator, pace: Pace
) -> float:
    """One pass over the training students, in batches; gives the mean of their losses."""
    device = device_of(learner.model)
    learner.model.train()
    learner.team.draw_apart(generator)
    losses = []
    for batch in train.batches(options.batch_size, generator):
        losses.append(learner.step(batch.to(device)))
        pace.go_on(int(batch.scored.sum()))
    total = learner.team.sum(torch.tensor(sum(losses), dtype=torch.double))
    return float(total) / len(losses)


def fingerprint(learner: Learner, train: Lessons, validation: Sequences, options: TrainingOptions) -> str:
    """Tells runs apart: another model, other data or other options must not go on from this one's checkpoint."""
    model = learner.model
    content = [
        learner.settings(),
        f"{type(model).__module__}.{type(model).__qualname__} {model.options}",
        options.model_dump_json(exclude={"max_epochs"}),
        train.digest(),
        validation.digest(),
    ]
    return hashlib.sha256("\n".join(content).encode()).hexdigest()


def _go_on(path: Path, run: str, learner: Learner, stopping: EarlyStopping, generator: torch.Generator) -> list[Epoch]:
    """Put everything where the checkpoint of the run has it; the epochs that went before."""
    saved = read_checkpoint(path, run)
    try:
        learner.load_state(saved["learner"])
        stopping.load_state(saved["stopping"])
        generator.set_state(saved["shuffle"])
        learner.team.set_random_state(saved["random"])
        return [Epoch(**epoch) for epoch in saved["epochs"]]
    except (KeyError, RuntimeError, TypeError, ValueError) as error:
        raise InputError(
            f"{path}: does not fit the models that are trained now ({in_a_sentence(error)}), so another version wrote "
            "it; remove it and start anew"
        ) from error
