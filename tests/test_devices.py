"""As many threads as help, and what whoever starts us says of it."""

from collections.abc import Iterator

import pytest
import torch

from tsdr.devices import MOST_THREADS, THREADS, on_threads, share_threads


@pytest.fixture(autouse=True)
def _of_this_process() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def threads(*, parallel: bool) -> int:
    with on_threads(parallel=parallel):
        return torch.get_num_threads()


def test_small_models_have_one_thread_and_large_ones_as_many_as_help(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(THREADS)
    for available in (3, MOST_THREADS + 5):
        torch.set_num_threads(available)
        assert threads(parallel=False) == 1
        assert threads(parallel=True) == min(available, MOST_THREADS)
        assert torch.get_num_threads() == available, "what is computed afterwards is not concerned"


def test_the_number_that_is_set_from_outside_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(THREADS, "3")
    torch.set_num_threads(3)  # as torch does when it is loaded
    share_threads(4)
    assert threads(parallel=False) == threads(parallel=True) == 3


@pytest.mark.parametrize(("processes", "each"), [(1, 6), (2, 3), (4, 1), (50, 1)])
def test_processes_share_the_threads(processes: int, each: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(THREADS)
    torch.set_num_threads(6)
    share_threads(processes)
    assert torch.get_num_threads() == each
