from pathlib import Path

import pytest

import tsdr
from tsdr import InputError, Sequences
from tsdr.experiments.tuning import Tuned, tune
from tsdr.methods import DebiasOptions, Method, options_of
from tsdr.training.options import TrainingOptions

pytest.importorskip("optuna", reason="Optuna is not installed (extra `tune`)")


@pytest.fixture(scope="module")
def sequences() -> Sequences:
    return Sequences.from_log(tsdr.simulate(students=60, questions=20, concepts=4, seed=1).log, window=12)


def search(sequences: Sequences, folder: Path, trials: int, seen: list[Method], seed: int = 1) -> Tuned:
    return tune(
        sequences,
        backbone="dkt",
        options={"d": 8},
        training=TrainingOptions(max_epochs=2, seed=seed, device="cpu"),
        trials=trials,
        storage=f"sqlite:///{folder}/trials.db",
        on_trial=lambda number, method, value: seen.append(method),
    )


def test_a_search_begins_with_the_defaults_and_goes_on_where_it_stopped(sequences: Sequences, tmp_path: Path) -> None:
    first: list[Method] = []
    search(sequences, tmp_path, 2, first)
    assert len(first) == 2
    assert options_of(first[0]) == DebiasOptions()
    more: list[Method] = []
    best = search(sequences, tmp_path, 3, more)
    assert len(more) == 1, "two of the three trials were there"
    assert best.trials == 3
    assert best.method in first + more
    assert best.validation_auc >= best.default_auc
    assert search(sequences, tmp_path, 3, more) == best
    assert len(more) == 1


def test_the_tuned_method_can_be_given_back(sequences: Sequences, tmp_path: Path) -> None:
    seen: list[Method] = []
    search(sequences, tmp_path, 2, seen)
    options = options_of(seen[1])
    assert options.clip[0] * options.clip[1] == pytest.approx(1, rel=0.01)
    assert 1 <= options.alpha <= 30


def test_a_storage_of_another_search_is_refused(sequences: Sequences, tmp_path: Path) -> None:
    search(sequences, tmp_path, 1, [])
    with pytest.raises(InputError, match="another log or training"):
        search(sequences, tmp_path, 2, [], seed=2)
    with pytest.raises(InputError, match="cannot be opened"):
        search(sequences, tmp_path / "no folder", 2, [])
