"""Where tensors are computed."""

from typing import Literal

import torch
from torch import nn

from tsdr.errors import InputError


def device_named(name: Literal["auto", "cpu", "cuda"]) -> torch.device:
    """The device to train on; `auto` is a GPU where there is one."""
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("there is no CUDA device here; use --device auto or cpu")
    gpu = name != "cpu" and torch.cuda.is_available()
    return torch.device("cuda" if gpu else "cpu")


def device_of(module: nn.Module) -> torch.device:
    """The device that a module's parameters are on."""
    return next(module.parameters()).device
