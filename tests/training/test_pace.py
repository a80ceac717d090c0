"""Long training is foretold by its first batches, once; what is quick or soon over is not."""

import time
import warnings

import pytest

from tsdr.training import pace
from tsdr.training.pace import Pace


def told(batches: int, answers: int, seconds: float, monkeypatch: pytest.MonkeyPatch, least: int = 10) -> list[str]:
    """What is said in an epoch of so many batches of so many answers, each of which takes so long."""
    clock = iter(seconds * batch for batch in range(batches + 1))
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        going = Pace(batches * answers, least, 200)
        for _ in range(batches):
            going.go_on(answers)
    return [str(warning.message) for warning in said]


def test_it_is_said_once_after_the_first_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """40 batches of 9 s: an epoch of 6 minutes, 10 to 200 times."""
    (said,) = told(40, 1_000, 9.0, monkeypatch)
    assert "an epoch takes about 6.0 minutes, by the first 3,000 of 40,000 answers" in said
    assert "60 minutes or more, up to 1,200" in said


def test_what_is_soon_over_is_not_foretold(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not told(40, 1_000, 0.6, monkeypatch), "10 epochs of 24 s"
    assert not told(40, 1_000, 2.0, monkeypatch, least=1), "one epoch of 80 s"
    assert not told(2, 1_000, pace.SURE, monkeypatch, least=1)
