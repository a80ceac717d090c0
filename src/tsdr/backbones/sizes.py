"""The sizes in which a backbone comes: the width of the feed-forward parts, and of the head's two layers."""

from typing import Literal

Size = Literal["paper", "light"]
SIZES: dict[str, tuple[int, tuple[int, int]]] = {"paper": (1024, (512, 256)), "light": (128, (128, 64))}
