"""A model's weights as a file: what it holds is checked before anything is built by it, and before it is used."""

import hashlib
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_parameter_registration_hook,
)

from tsdr.errors import InputError, in_a_sentence

# A model may take up more than it keeps while it is built (a layer that takes the place of another, tables that are
# computed anew): so many times what the file has, and so many numbers and tensors more where that is little.
ROOM, LEAST_NUMBERS, LEAST_TENSORS = 4, 2**20, 1000

Weights = Mapping[str, Tensor]


def written_weights(model: nn.Module) -> bytes:
    """The content of the file; refused of a model whose training came to nothing."""
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    lost = _not_finite(model, weights)
    if lost:
        raise InputError(
            f"the model's weights {lost!r} are not finite numbers: its training has diverged; train it anew"
        )
    return save(weights)


def digest_of(content: bytes) -> str:
    """What tells a file's content from any other."""
    return hashlib.sha256(content).hexdigest()


def read_weights(path: Path, digest: str | None) -> Weights:
    """The weights in a file, which are those that were written if there is a digest to tell by."""
    with path.open("rb") as file:
        if digest is not None and hashlib.file_digest(file, "sha256").hexdigest() != digest:
            raise InputError(f"{path}: was altered or damaged since it was written; {_ANEW}")
    try:
        return load_file(path)
    except (SafetensorError, ValueError, KeyError) as error:
        raise InputError(f"{path}: holds no weights that can be read ({in_a_sentence(error)}); {_ANEW}") from error


@contextmanager
def room_for(weights: Weights) -> Iterator[None]:
    """Let models that are built here take up what these weights need, and refuse one that would take up far more.

    A layer that is too large is refused before it is filled, so that it costs no memory.
    """
    builder = threading.get_ident()
    numbers = LEAST_NUMBERS + ROOM * sum(tensor.numel() for tensor in weights.values())
    tensors = LEAST_TENSORS + ROOM * len(weights)

    def take(module: nn.Module, name: str, tensor: Tensor | None) -> None:
        nonlocal numbers, tensors
        if tensor is None or threading.get_ident() != builder:
            return
        numbers, tensors = numbers - tensor.numel(), tensors - 1
        if min(numbers, tensors) < 0:
            raise InputError("its weights do not fit its description: a model by its options is far larger")

    hooks = register_module_parameter_registration_hook(take), register_module_buffer_registration_hook(take)
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def put_in(model: nn.Module, weights: Weights) -> None:
    """Give a model its weights, if they are as many, of the shapes and of the kinds that it has, and finite."""
    own = model.state_dict()
    for name in sorted({*own, *weights}):
        there, needed = (_told(tensors.get(name)) for tensors in (weights, own))
        if there != needed:
            raise InputError(f"its weights do not fit its description: {name!r} is {there}, and is to be {needed}")
    lost = _not_finite(model, weights)
    if lost:
        raise InputError(f"its weights {lost!r} are not finite numbers; {_ANEW}")
    try:
        model.load_state_dict(dict(weights))
    except RuntimeError as error:
        raise InputError(f"its weights do not fit its description ({in_a_sentence(error)})") from error


_ANEW = "copy the bundle anew from where it is whole, or train the model again"


def _told(tensor: Tensor | None) -> str:
    return "missing" if tensor is None else f"{list(tensor.shape)} of {str(tensor.dtype).removeprefix('torch.')}"


def _not_finite(model: nn.Module, weights: Weights) -> str | None:
    """The first of the weights that are no numbers; what is not learned may be infinite, as a mask may."""
    learned = dict(model.named_parameters())
    for name, tensor in weights.items():
        if bool((~tensor.isfinite() if name in learned else tensor.isnan()).any()):
            return name
    return None
