"""Where tensors are computed, and on how many threads."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor, nn

from tsdr.errors import InputError

THREADS = "OMP_NUM_THREADS"  # whoever sets it knows what else runs on the machine: it is never overruled
# An operation on a batch takes half a millisecond or so: shared by more, it takes no less.
MOST_THREADS = 8

RandomState = dict[str, Tensor]  # by kind of device


def device_named(name: Literal["auto", "cpu", "cuda"]) -> torch.device:
    """The device to train on; `auto` is a GPU where there is one."""
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("there is no CUDA device here; use --device auto or cpu")
    gpu = name != "cpu" and torch.cuda.is_available()
    return torch.device("cuda" if gpu else "cpu")


def device_of(module: nn.Module) -> torch.device:
    """The device that a module's parameters are on."""
    return next(module.parameters()).device


@contextmanager
def on_threads(*, parallel: bool) -> Iterator[None]:
    """Compute on as many threads as help: one, unless operations are large enough to be shared.

    With an OMP_NUM_THREADS it is that many, whatever is computed.
    """
    before = torch.get_num_threads()
    wanted = min(before, MOST_THREADS) if parallel else 1
    if THREADS in os.environ or wanted == before:
        yield
        return
    torch.set_num_threads(wanted)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def share_threads(processes: int) -> None:
    """Leave room for so many processes like this one; a single one is as it would be without."""
    if THREADS not in os.environ and processes > 1:
        torch.set_num_threads(max(1, torch.get_num_threads() // processes))


def random_state() -> RandomState:
    """Where the random numbers of dropout and draws stand, on every kind of device in use."""
    cuda = {"cuda": torch.cuda.get_rng_state()} if torch.cuda.is_available() else {}
    return {"cpu": torch.get_rng_state(), **cuda}


def set_random_state(state: RandomState) -> None:
    """Go on with random numbers from there."""
    torch.set_rng_state(state["cpu"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])
