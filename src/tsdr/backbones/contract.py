"""What every knowledge-tracing model offers, so that training, audit and serving are written once."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from importlib.metadata import EntryPoint, entry_points
from typing import Any, ClassVar, Generic, Protocol, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import get_device_states, set_device_states

from tsdr.defaults import LONG_WINDOW, Extent, Skips
from tsdr.errors import InputError
from tsdr.lessons import Lessons
from tsdr.sequences import Batch, Sequences

# Targets are answered in chunks of so many rows (sequences x steps x targets), about what a plain forward of 64
# sequences of 50 steps has: memory then does not grow with the number of concepts.
CHUNK_ROWS = 4096

GROUP = "tsdr.backbones"  # of the entry points of other packages: the name of a backbone, and the module that has it

History = TypeVar("History")


class Backbone(nn.Module, ABC, Generic[History]):
    """A knowledge-tracing model. Row j of what it returns depends on the interactions before j only.

    A step is counted from 0; step T of T interactions is the one after all of them. A step beyond the end of a
    shorter sequence counts as the step after its last interaction. A target is a concept, at a question or (no
    question, or -1) at average difficulty.
    """

    # Whether `prepare` fits the model to its optimum on logged answers: naive training has then nothing left to do.
    fits_itself: ClassVar[bool] = False
    # Whether it keeps no more of a long history than of a short one, and can go on from there: it then reads whole
    # histories, at a cost that is linear in their length.
    linear: ClassVar[bool] = False
    # Whether it can be built with `skips=True`: it then reads a third response, `SKIPPED`, of offers that were turned
    # down. Any other one is not shown them.
    can_read_skips: ClassVar[bool] = False
    # Whether its operations are so large that several threads are faster than one; else they would wait for each other.
    parallel: ClassVar[bool] = False

    def __init__(self, n_concepts: int, n_questions: int) -> None:
        super().__init__()
        if n_concepts < 1 or n_questions < 1:
            raise InputError(f"a model needs a concept and a question at least, not {n_concepts} and {n_questions}")
        self.n_concepts = n_concepts
        self.n_questions = n_questions
        self.options: dict[str, Any] = {}  # what it was built with, defaults included, to build it again

    @property
    def reads_skips(self) -> bool:
        """Whether it was built to read offers that were turned down."""
        return bool(self.options.get("skips", False))

    @property
    def light_options(self) -> dict[str, Any]:
        """Options, if there are any, that make it smaller: for an imputation model that stands beside it."""
        return {}

    @property
    def slim_options(self) -> dict[str, Any]:
        """Options, if there are any, that make it smaller still: for one that imputes what `counts` leaves to it."""
        return self.light_options

    @abstractmethod
    def encode(self, batch: Batch) -> History:
        """Cache what the history gives to later steps; row j depends on interactions up to j."""

    @abstractmethod
    def retrieve(
        self, history: History, concept: Tensor, question: Tensor | None = None, steps: Tensor | None = None
    ) -> Tensor:
        """The state [B, M, K, d] that `answer` reads for targets [B, M, K]."""

    def answer_rows(self, history: History, concept: Tensor, question: Tensor | None, steps: Tensor) -> Tensor:
        """Success logits [B, M, K] of targets [B, M, K] at steps [B, M], all at once: what `answer` does in chunks."""
        raise NotImplementedError(f"{type(self).__name__} needs answer_rows and steps_of, or an answer of its own")

    @abstractmethod
    def summary(self, history: History) -> Tensor:
        """A state [B, T, d] of the history before each step, with no target in it.

        It does not move the model: gradients reach parameters that serve the summary alone, if there are any.
        """

    @abstractmethod
    def append(self, history: History, concept: Tensor, question: Tensor, response: Tensor) -> History:
        """The history with one more interaction [B] at the end of each sequence.

        That of a linear model is `ended` by it: it answers for its latest step only, and does not grow.
        """

    def go_on(self, past: History, batch: Batch) -> History:
        """`encode`, of interactions that come after those of a past: what a linear model can do."""
        raise NotImplementedError(f"{type(self).__name__} reads a window of a history, and not what comes after it")

    def state_of(self, history: History) -> dict[str, Tensor]:
        """What a linear model knows after all interactions of a history, by name: [B, ...], of the same size for any.

        Nothing but noughts for a history without interactions.
        """
        raise NotImplementedError(f"{type(self).__name__} keeps all that it has read")

    def from_state(self, state: Mapping[str, Tensor]) -> History:
        """The history that such a state is left of: it answers for its latest step only."""
        raise NotImplementedError(f"{type(self).__name__} keeps all that it has read")

    def ended(self, history: History) -> History:
        """A history of a linear model, with no more than it takes to answer for its latest step and to go on."""
        return self.from_state(self.state_of(history))

    def steps_of(self, history: History) -> int:
        """T, the number of steps that the history was encoded for."""
        raise NotImplementedError(f"{type(self).__name__} needs answer_rows and steps_of, or an answer of its own")

    def penalty(self, batch: Batch) -> Tensor:
        """The model's own regulariser, to be added to the loss of a batch."""
        return torch.zeros((), device=batch.mask.device)

    def penalty_share(self, part: Batch, whole: Batch) -> float:
        """What the penalty of a part of a batch is multiplied with, so that those of all parts add up to the whole's.

        Its share of the interactions: right where the penalty is a mean over them, or does not go by the batch.
        """
        return share_of(part.mask, whole.mask)

    def prepare(self, train: Lessons) -> None:
        """Take statistics of the training split into buffers, where the model needs any."""

    def settle(self, validation: Sequences) -> None:
        """Once it is trained, take from students whom it did not learn from what the model needs of them, if any."""

    def answer(
        self, history: History, concept: Tensor, question: Tensor | None = None, steps: Tensor | None = None
    ) -> Tensor:
        """Success logits for any targets, given the history strictly before their step.

        `concept` and `question` are [B, T, K]; with `steps` [B, M], they are [B, M, K] at the chosen steps. The
        history is not encoded again, and targets are taken in chunks, so that memory does not grow with K.
        """
        if steps is None:
            steps = torch.arange(self.steps_of(history), device=concept.device).expand(concept.shape[0], -1)
        if concept.shape[:2] != steps.shape or (question is not None and question.shape != concept.shape):
            raise InputError(
                f"targets {tuple(concept.shape)} do not fit steps {tuple(steps.shape)}: concept and question are "
                "[batch, steps, targets]"
            )
        size = max(1, CHUNK_ROWS // max(1, steps.numel()))
        if size >= concept.shape[2]:
            return self.answer_rows(history, concept, question, steps)
        inputs = [*tensors_in(history), *self.parameters()]
        logits: Tensor = _Chunks.apply(self, history, concept, question, steps, size, *inputs)
        return logits

    def follow(self, batch: Batch) -> tuple[History, Tensor]:
        """The history, as `encode` gives it, and the success logits [B, T] of the observed targets, in one pass."""
        history = self.encode(batch)
        return history, self.observed(history, batch)

    def observed(self, history: History, batch: Batch) -> Tensor:
        """The success logits [B, T] of the observed targets of a batch, given its history."""
        return self.answer(history, batch.concept[..., None], batch.question[..., None]).squeeze(2)

    def forward(self, batch: Batch) -> Tensor:
        """Success logits [B, T] of what the labels are of: the observed targets, unless the batch has others."""
        return Reader(self).logits(batch)

    def summary_parameters(self) -> list[nn.Parameter]:
        """The parameters that serve the summary alone: they learn along with the propensity model, by nothing else."""
        return []


AnyBackbone = Backbone[Any]


class Reads(Protocol[History]):
    """What can read batches."""

    def encode(self, batch: Batch) -> History:
        """What is kept of a batch."""

    def go_on(self, past: History, batch: Batch) -> History:
        """What is kept of a batch that comes after a past."""


class Reader(Generic[History]):
    """Lets a model read one batch after the other, of which some go on from the one before.

    What is carried over brings no gradient along: what a batch teaches ends at its beginning.
    """

    def __init__(self, model: Reads[History]) -> None:
        self.model = model
        self._past: History | None = None

    def read(self, batch: Batch) -> History:
        """The history of a batch."""
        fresh = batch.after is None
        self._past = self.model.encode(batch) if fresh else self.model.go_on(self._before(batch), batch)
        return self._past

    def follow(self, batch: Batch) -> tuple[History, Tensor]:
        """The history, and the success logits of the observed targets."""
        model = cast("Backbone[History]", self.model)
        if batch.after is None:
            self._past, logits = model.follow(batch)
            return self._past, logits
        history = self.read(batch)
        return history, model.observed(history, batch)

    def logits(self, batch: Batch) -> Tensor:
        """Success logits [B, T] of what the labels are of: the observed targets, unless the batch has others."""
        if batch.target is None:
            return self.follow(batch)[1]
        return cast("Backbone[History]", self.model).answer(self.read(batch), batch.target[..., None]).squeeze(2)

    def _before(self, batch: Batch) -> History:
        if self._past is None:
            raise InputError("this batch goes on from one that was not read; batches are read in their order")
        assert batch.after is not None
        rows = batch.after
        return cast(History, _with_tensors(self._past, (tensor.detach()[rows] for tensor in tensors_in(self._past))))


class _Chunks(torch.autograd.Function):
    """`answer_rows` in chunks of targets; for the gradient, each chunk is computed anew and let go of.

    Memory is then that of one chunk. (Chunks whose graphs are kept, or that are checkpointed one by one, leave small
    results between large temporaries, and the heap grows with their number.)
    """

    @staticmethod
    def forward(
        context: Any,
        model: AnyBackbone,
        history: Any,
        concept: Tensor,
        question: Tensor | None,
        steps: Tensor,
        size: int,
        *inputs: Tensor,
    ) -> Tensor:
        context.of, context.targets = (model, history), (concept, question, steps, size)
        context.random = torch.get_rng_state(), *get_device_states(*inputs)
        context.save_for_backward(*inputs)
        every = torch.empty(concept.shape, dtype=inputs[-1].dtype, device=concept.device)
        for at in range(0, concept.shape[2], size):
            chunk = _chunk(question, at, size)
            every[..., at : at + size] = model.answer_rows(history, concept[..., at : at + size], chunk, steps)
        return every

    @staticmethod
    @once_differentiable
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        model, history = context.of
        concept, question, steps, size = context.targets
        inputs: tuple[Tensor, ...] = context.saved_tensors
        parameters = list(model.parameters())
        past = [t.detach().requires_grad_(t.requires_grad) for t in inputs[: len(inputs) - len(parameters)]]
        history = _with_tensors(history, iter(past))
        wanted = [t for t in (*past, *parameters) if t.requires_grad]
        found = [torch.zeros_like(t) for t in wanted]
        cpu, devices, states = context.random
        with torch.random.fork_rng(devices), torch.enable_grad():
            torch.set_rng_state(cpu)  # the same dropout as in the forward pass
            set_device_states(devices, states)
            for at in range(0, concept.shape[2], size):
                chunk = _chunk(question, at, size)
                logits = model.answer_rows(history, concept[..., at : at + size], chunk, steps)
                parts = torch.autograd.grad(logits, wanted, gradient[..., at : at + size], allow_unused=True)
                for total, part in zip(found, parts, strict=True):
                    if part is not None:
                        total += part
        of_wanted = iter(found)
        return *(None,) * 6, *(next(of_wanted) if t.requires_grad else None for t in (*past, *parameters))


def share_of(part: Tensor, whole: Tensor) -> float:
    """How much of what is true in a whole is true in a part of it; nothing, where there is nothing."""
    return float(part.sum() / whole.sum().clamp(min=1))


def only_if(skips: bool) -> dict[str, bool]:
    """The option to read skips, of a model that does: one that does not is built as if there were no such option."""
    return {"skips": True} if skips else {}


_REGISTRY: dict[str, type[AnyBackbone]] = {}


def register_backbone(name: str) -> Callable[[type[AnyBackbone]], type[AnyBackbone]]:
    """Class decorator: make a backbone known by name to training, evaluation, audit and serving."""

    def register(cls: type[AnyBackbone]) -> type[AnyBackbone]:
        known = _REGISTRY.get(name, cls)
        if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            raise InputError(f"there is a backbone named {name!r} already; choose another name")
        _REGISTRY[name] = cls
        return cls

    return register


def backbone_names() -> tuple[str, ...]:
    """The names of all backbones that are registered, or that an installed package has."""
    return tuple(dict.fromkeys((*_REGISTRY, *installed_backbones())))


def registered_by(module: str) -> tuple[str, ...]:
    """The names of the backbones that a module has registered."""
    return tuple(name for name, known in _REGISTRY.items() if known.__module__ == module)


def installed_backbones() -> dict[str, EntryPoint]:
    """Where packages that are installed beside ours have backbones, by name."""
    return {offered.name: offered for offered in entry_points(group=GROUP)}


def backbone_class(name: str) -> type[AnyBackbone]:
    """The class that is registered by a name; one of another package is imported when it is first asked for."""
    if name not in _REGISTRY:
        offered = installed_backbones().get(name)
        if offered is None:
            raise InputError(
                f"there is no backbone {name!r}; choose from {', '.join(backbone_names())}, or name the file that "
                "registers it with --plugin (in Python: tsdr.load_plugin)"
            )
        try:
            offered.load()
        except Exception as error:
            raise InputError(f"{offered.value}, which has {name!r}, fails as it is imported: {error}") from error
        if name not in _REGISTRY:
            raise InputError(f"{offered.value} is to have the backbone {name!r}, and registers none of that name")
    return _REGISTRY[name]


def usual_window(name: str) -> Extent:
    """How much of a history a backbone has in view if it is not told: all that it can read at a bearable cost."""
    return "all" if backbone_class(name).linear else LONG_WINDOW


def skips_are_read(name: str, skipped_offers: int, wanted: Skips | None = None) -> bool:
    """Whether a backbone reads the skipped offers of a log: where there are any, if it can, and unless it is not to."""
    able = backbone_class(name).can_read_skips
    if wanted == "read" and not able:
        others = ", ".join(other for other, known in _REGISTRY.items() if known.can_read_skips)
        raise InputError(f"{name} does not read skipped offers: leave them out, or take one of {others}")
    return able and skipped_offers > 0 and wanted != "ignore"


def check_window(name: str, window: Extent) -> None:
    """Refuse to have whole histories read by a backbone that cannot."""
    if window == "all" and not backbone_class(name).linear:
        able = ", ".join(other for other, known in _REGISTRY.items() if known.linear)
        raise InputError(f"{name} reads a window of a history, not all of it: give a number, or take one of {able}")


def build_backbone(name: str, *, n_concepts: int, n_questions: int, **options: Any) -> AnyBackbone:
    """Build a registered backbone by name; options are those of its class."""
    known = backbone_class(name)
    try:
        model = known(n_concepts=n_concepts, n_questions=n_questions, **options)
    except InputError:
        raise
    except (TypeError, ValueError, ArithmeticError, RuntimeError) as error:
        raise InputError(f"backbone {name!r} cannot be built with {options}: {error}") from error
    model.options = model.options or dict(options)
    return model


def _chunk(question: Tensor | None, at: int, size: int) -> Tensor | None:
    return None if question is None else question[..., at : at + size]


def tensors_in(structure: Any) -> Iterator[Tensor]:
    """The tensors in a dataclass, list, tuple or dictionary, however deep."""
    if isinstance(structure, Tensor):
        yield structure
    elif isinstance(structure, list | tuple | dict):
        for part in structure.values() if isinstance(structure, dict) else structure:
            yield from tensors_in(part)
    elif is_dataclass(structure):
        for part in fields(structure):
            yield from tensors_in(getattr(structure, part.name))


def _with_tensors(structure: Any, tensors: Iterator[Tensor]) -> Any:
    """The same structure with other tensors, in the order in which `tensors_in` gives them."""
    if isinstance(structure, Tensor):
        return next(tensors)
    if isinstance(structure, dict):
        return {name: _with_tensors(part, tensors) for name, part in structure.items()}
    if isinstance(structure, list | tuple):
        parts = [_with_tensors(part, tensors) for part in structure]
        return structure._make(parts) if hasattr(structure, "_make") else type(structure)(parts)
    if is_dataclass(structure) and not isinstance(structure, type):
        return replace(
            structure, **{f.name: _with_tensors(getattr(structure, f.name), tensors) for f in fields(structure)}
        )
    return structure
