"""The training loop: epochs, early stopping, checkpoints; what is learned in a batch is the objective's affair."""

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import torch
from pydantic import BaseModel, ConfigDict, NonNegativeFloat, PositiveFloat, PositiveInt
from torch import Tensor, nn

from tsdr.errors import InputError, in_a_sentence
from tsdr.files import replacing
from tsdr.sequences import Batch, Sequences
from tsdr.training.memory import keep_freed_memory
from tsdr.training.stopping import EarlyStopping

Device = Literal["auto", "cpu", "cuda"]


class TrainingOptions(BaseModel):
    """How a model is trained; the defaults are the experiments'."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    learning_rate: PositiveFloat = 1e-3
    weight_decay: NonNegativeFloat = 0.0
    batch_size: PositiveInt = 64
    patience: PositiveInt = 15
    max_epochs: PositiveInt = 200
    seed: int = 42
    device: Device = "auto"

    def torch_device(self) -> torch.device:
        """The device to train on; `auto` is a GPU where there is one."""
        if self.device == "cuda" and not torch.cuda.is_available():
            raise InputError("there is no CUDA device here; use --device auto or cpu")
        gpu = self.device != "cpu" and torch.cuda.is_available()
        return torch.device("cuda" if gpu else "cpu")


class Objective(Protocol):
    """What is learned from a batch; it owns the optimisers, and the models beside the backbone if it has any."""

    @property
    def model(self) -> nn.Module:
        """What is trained; it has `options`, what it was built with."""

    def settings(self) -> str:
        """What tells this objective from others, for checkpoints."""

    def begin(self, train: Sequences, training: TrainingOptions) -> None:
        """What comes before the first epoch, if anything."""

    def step(self, batch: Batch) -> float:
        """Learn from one batch and return its loss."""

    def validate(self, validation: Sequences) -> float:
        """How good the model is by now on held-out students: the value to stop by, larger is better."""

    def state(self) -> dict[str, Any]:
        """All that must be kept to go on later."""

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from what `state` gave."""


@dataclass(frozen=True)
class Epoch:
    """What an epoch came to."""

    number: int
    loss: float
    validation_auc: float
    best_auc: float
    best_epoch: int
    seconds: float
    watched: dict[str, float]


def fit(
    objective: Objective,
    train: Sequences,
    validation: Sequences,
    options: TrainingOptions,
    *,
    checkpoint: Path | None = None,
    resume: bool = False,
    watch: Callable[[], dict[str, float]] = dict,
    on_epoch: Callable[[Epoch], None] = lambda epoch: None,
) -> list[Epoch]:
    """Train until the validation AUC has not improved for `patience` epochs, and restore the best weights.

    What `watch` finds after an epoch is kept with it. After each epoch the `checkpoint` is written, from which a call
    with `resume` goes on to the same numbers as one that was never interrupted.
    """
    _check_split(train, validation)
    keep_freed_memory()
    device = options.torch_device()
    generator = torch.Generator().manual_seed(options.seed)
    stopping = EarlyStopping(options.patience)
    epochs: list[Epoch] = []
    run = _fingerprint(objective, train, validation, options)
    if resume and checkpoint is not None and checkpoint.exists():
        saved = _read_checkpoint(checkpoint, run)
        _go_on(objective, saved["objective"], checkpoint)
        stopping.load_state(saved["stopping"])
        generator.set_state(saved["shuffle"])
        _set_random_state(saved["random"])
        epochs = [Epoch(**epoch) for epoch in saved["epochs"]]
    else:
        objective.begin(train, options)
    while not stopping.over and len(epochs) < options.max_epochs:
        begin = time.perf_counter()
        objective.model.train()
        losses = [objective.step(batch.to(device)) for batch in train.batches(options.batch_size, generator)]
        value = objective.validate(validation)
        stopping.update(value, objective.model)
        seconds = time.perf_counter() - begin
        epochs.append(
            Epoch(
                len(epochs) + 1,
                sum(losses) / len(losses),
                value,
                stopping.best_value,
                stopping.best_epoch,
                seconds,
                watch(),
            )
        )
        if checkpoint is not None:
            with replacing(checkpoint) as temporary:
                torch.save(
                    {
                        "run": run,
                        "objective": objective.state(),
                        "stopping": stopping.state(),
                        "shuffle": generator.get_state(),
                        "random": _random_state(),
                        "epochs": [vars(epoch) for epoch in epochs],
                    },
                    temporary,
                )
        on_epoch(epochs[-1])
    objective.model.load_state_dict(stopping.best_weights)
    objective.model.eval()
    return epochs


def _random_state() -> dict[str, Tensor]:
    """Where the random numbers of dropout stand, on every kind of device in use."""
    cuda = {"cuda": torch.cuda.get_rng_state()} if torch.cuda.is_available() else {}
    return {"cpu": torch.get_rng_state(), **cuda}


def _set_random_state(state: dict[str, Tensor]) -> None:
    torch.set_rng_state(state["cpu"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])


def _check_split(train: Sequences, validation: Sequences) -> None:
    if not int(train.batch.scored().sum()):
        raise InputError(f"the {len(train)} training sequences have no answer to learn from; use more students")
    scored = validation.batch.mask[:, 1:]
    answers = validation.batch.correct[:, 1:][scored]
    if not len(answers) or answers.min() == answers.max():
        raise InputError(
            f"the {len(validation)} validation sequences do not have both right and wrong answers to score, so there "
            "is no AUC to stop by; use more students or a larger validation share"
        )


def _fingerprint(objective: Objective, train: Sequences, validation: Sequences, options: TrainingOptions) -> str:
    """Tells runs apart: another model, other data or other options must not go on from this one's checkpoint."""
    model = objective.model
    content = [
        objective.settings(),
        f"{type(model).__module__}.{type(model).__qualname__} {model.options}",
        options.model_dump_json(exclude={"max_epochs"}),
        train.digest(),
        validation.digest(),
    ]
    return hashlib.sha256("\n".join(content).encode()).hexdigest()


def _read_checkpoint(path: Path, run: str) -> dict[str, Any]:
    try:
        saved: dict[str, Any] = torch.load(path, weights_only=True, map_location="cpu")
        other = saved["run"] != run
    except Exception as error:
        raise InputError(
            f"{path}: is not a checkpoint that can be read ({in_a_sentence(error)}); remove it and start anew"
        ) from error
    if other:
        raise InputError(f"{path}: belongs to a run with other data or options; remove it, or resume with those")
    return saved


def _go_on(objective: Objective, state: dict[str, Any], path: Path) -> None:
    try:
        objective.load_state(state)
    except (KeyError, RuntimeError, ValueError) as error:
        raise InputError(
            f"{path}: does not fit the models that are trained now ({in_a_sentence(error)}), so another version wrote "
            "it; remove it and start anew"
        ) from error
