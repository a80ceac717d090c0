"""Dropout that does not cost more than the layers around it."""

import torch
from torch import Tensor, nn

LANES, LEVELS = 4, 2**16  # a drawn 64-bit number makes four 16-bit ones


class Dropout(nn.Module):
    """Sets a share of the values to 0 in training, and scales the others up to make good for it.

    What torch draws on a CPU is one random number a value, which takes longer than a matrix product. Here each number
    serves four values, with the share rounded to a 65,536th.
    """

    def __init__(self, share: float) -> None:
        super().__init__()
        if not 0 <= share < 1:
            raise ValueError(f"dropout is a share from 0 to below 1, not {share}")
        self.below = round(share * LEVELS)

    def forward(self, x: Tensor) -> Tensor:
        """Drop some of the values, or none in evaluation."""
        if not self.training or not self.below:
            return x
        numbers = torch.empty(-(-x.numel() // LANES), dtype=torch.int64, device=x.device)
        drawn = numbers.random_(-(2**63), None).view(torch.int16)[: x.numel()].view(x.shape)
        kept = (drawn >= self.below - LEVELS // 2).to(x.dtype)
        return x * kept.mul_(LEVELS / (LEVELS - self.below))
