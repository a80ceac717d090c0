"""How long training will take, foretold by its first batches: said once, where that is long."""

import time
import warnings

SURE, LONG = 20.0, 300.0  # seconds after which it is foretold, and of training that is long


class Pace:
    """How far the first epoch is, of so many answers in all, where there are so many epochs at least and at most."""

    def __init__(self, answers: int, least: int, most: int) -> None:
        self._answers, self._least, self._most = answers, least, most
        self._learned = 0
        self._told = False
        self._begin = time.perf_counter()

    def go_on(self, answers: int) -> None:
        """So many more have been learned from."""
        self._learned += answers
        passed = time.perf_counter() - self._begin
        if self._told or passed < SURE or not 0 < self._learned < self._answers:
            return
        self._told = True
        epoch = passed * self._answers / self._learned / 60
        least, most = epoch * self._least, epoch * self._most
        if least * 60 > LONG:
            warnings.warn(
                f"an epoch takes about {epoch:,.1f} minutes, by the first {self._learned:,} of {self._answers:,} "
                f"answers, so training takes {least:,.0f} minutes or more, up to {most:,.0f}; it is faster with fewer "
                "concepts or students, fewer answers in view, or --backbone counts",
                stacklevel=4,
            )
