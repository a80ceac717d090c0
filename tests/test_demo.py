"""What the demo leaves alone."""

from pathlib import Path

import pytest

from tsdr import InputError, simulate
from tsdr.demo import enroll_some
from tsdr.serving.store import Answer, Store


def test_the_demo_run_again_keeps_answers_that_it_did_not_write(tmp_path: Path) -> None:
    path, simulation = tmp_path / "demo" / "students.db", simulate(0.8, 6)
    enroll_some(simulation, path)
    store = Store(f"sqlite:///{path}")
    store.add("s0000", [Answer("mine", "q", "c", 1)])
    before = store.log()
    enroll_some(simulation, path)
    assert store.log() == before
    with pytest.raises(InputError, match="has other answers than those of this demo; name another folder"):
        enroll_some(simulate(0.8, 6, seed=99), path)
    assert store.log() == before
    store.close()
