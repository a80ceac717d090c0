import json
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tsdr
from conftest import cross_validate, cross_validate_baselines
from tsdr import Folds, InputError, Sequences
from tsdr.judging.experiment import DROPOUTS, WEIGHT_DECAYS, Experiment
from tsdr.records.folder import RecordFolder
from tsdr.records.run import Record, Run
from tsdr.records.significance import paired_difference
from tsdr.training.epoch import Epoch
from tsdr.training.options import TrainingOptions

OPTIONS = TrainingOptions(max_epochs=3, device="cpu")


@pytest.fixture(scope="module")
def sequences() -> Sequences:
    return Sequences.from_log(tsdr.simulate(students=90, questions=30, concepts=5, seed=1).log, window=12)


def experiment(sequences: Sequences, folder: Path) -> Experiment:
    folds = Folds.by_student(sequences.student, 3, seed=OPTIONS.seed)
    return Experiment("simulated", sequences, sequences, folds, RecordFolder(folder))


def run(sequences: Sequences, folder: Path, **more: object) -> list[Record]:
    more = {"method": "naive"} | more
    return cross_validate(
        experiment(sequences, folder),
        backbone="dkt",
        options={"d": 8},
        training=OPTIONS,
        **more,  # type: ignore[arg-type]
    )


def test_every_fold_has_a_record_and_is_not_run_again(sequences: Sequences, tmp_path: Path) -> None:
    records = run(sequences, tmp_path)
    assert [record.fold for record in records] == [0, 1, 2]
    assert sum(record.students["test"] for record in records) == 90
    assert sum(record.scored for record in records) == int(sequences.batch.mask[:, 1:].sum())
    assert all(0 < record.metrics["auc"] < 1 for record in records)
    files = {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("*.json")}
    assert len(files) == 3
    epochs: list[tuple[int, Epoch]] = []
    again = run(sequences, tmp_path, on_epoch=lambda fold, epoch: epochs.append((fold, epoch)))
    assert again == records
    assert not epochs
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("*.json")} == files


def test_a_run_that_is_stopped_goes_on_to_the_same_records(sequences: Sequences, tmp_path: Path) -> None:
    def stop(fold: int, epoch: Epoch) -> None:
        if (fold, epoch.number) == (1, 2):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(sequences, tmp_path / "stopped", on_epoch=stop)
    assert len(list((tmp_path / "stopped").glob("*.json"))) == 1
    epochs: list[tuple[int, int]] = []
    resumed = run(sequences, tmp_path / "stopped", on_epoch=lambda fold, epoch: epochs.append((fold, epoch.number)))
    assert epochs[0] == (1, 3), "the stopped fold goes on after its last whole epoch"
    whole = run(sequences, tmp_path / "whole")
    assert [record.metrics for record in resumed] == [record.metrics for record in whole]
    assert not list((tmp_path / "stopped" / ".checkpoints").glob("*"))


def test_baselines_are_recorded_on_the_same_folds(sequences: Sequences, tmp_path: Path) -> None:
    records = cross_validate_baselines(experiment(sequences, tmp_path), OPTIONS)
    assert len(records) == 9
    models = run(sequences, tmp_path)
    for fold in range(3):
        scored = {record.scored for record in [*records, *models] if record.fold == fold}
        assert len(scored) == 1
    assert len(list(RecordFolder(tmp_path))) == 12


def test_another_log_of_the_same_name_is_another_run(sequences: Sequences, tmp_path: Path) -> None:
    first = run(sequences, tmp_path)
    other = Sequences.from_log(tsdr.simulate(students=90, questions=30, concepts=5, seed=2).log, window=12)
    second = run(other, tmp_path)
    assert len(list(tmp_path.glob("*.json"))) == 6
    assert [record.metrics for record in first] != [record.metrics for record in second]


def test_records_say_every_option_of_the_model(sequences: Sequences, tmp_path: Path) -> None:
    assert run(sequences, tmp_path)[0].options["backbone"] == {"d": 8, "dropout": 0.05}


def test_metrics_that_do_not_exist_are_written_and_read(sequences: Sequences, tmp_path: Path) -> None:
    record = run(sequences, tmp_path)[0]
    hopeless = record.model_copy(update={"fold": 7, "metrics": {"auc": float("nan"), "acc": 1.0}})
    folder = RecordFolder(tmp_path)
    folder.write(hopeless)
    read = folder.find(Run(**{name: getattr(hopeless, name) for name in Run.model_fields}))
    assert read is not None
    assert np.isnan(read.metrics["auc"])
    assert json.loads((tmp_path / hopeless.file_name()).read_text())["metrics"] == {"auc": None, "acc": 1.0}


def test_random_exposure_needs_the_truth_and_methods_are_known(sequences: Sequences, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="simulated log"):
        run(sequences, tmp_path, method="random-exposure")
    with pytest.raises(InputError, match=r"no method 'tdsr'.*tsdr"):
        run(sequences, tmp_path, method="tdsr")


def test_a_model_that_is_fitted_at_once_refuses_what_makes_no_sense_for_it(tmp_path: Path) -> None:
    simulation = tsdr.simulate(students=60, questions=20, concepts=4, seed=1)
    tested = Experiment.of_log("sim", simulation.log, RecordFolder(tmp_path), simulation=simulation, folds=2)
    for more in ({"method": "naive-regularised"}, {"method": "naive", "watch_bound": True}):
        with pytest.raises(InputError, match="counts is fitted at once"):
            cross_validate(tested, backbone="counts", training=OPTIONS, **more)


def test_a_spoilt_record_is_named(sequences: Sequences, tmp_path: Path) -> None:
    records = run(sequences, tmp_path)
    path = tmp_path / records[0].file_name()
    path.write_text(path.read_text()[:50])
    with pytest.raises(InputError, match=f"{path.name}.*remove it to run it again"):
        run(sequences, tmp_path)


def test_a_tuned_method_tests_what_was_best_on_validation_students(sequences: Sequences, tmp_path: Path) -> None:
    tuned = run(sequences, tmp_path, method="naive-regularised")
    for record in tuned:
        assert record.chosen is not None
        assert record.chosen["dropout"] in DROPOUTS
        assert record.chosen["weight_decay"] in WEIGHT_DECAYS
    validation: dict[tuple[float, float], float] = {}
    for dropout in DROPOUTS:
        for decay in WEIGHT_DECAYS:
            best = defaultdict[int, list[float]](list)
            plain = cross_validate(
                experiment(sequences, tmp_path / "plain"),
                backbone="dkt",
                options={"d": 8, "dropout": dropout},
                training=OPTIONS.model_copy(update={"weight_decay": decay}),
                method="naive",
                on_epoch=lambda fold, epoch, best=best: best[fold].append(epoch.best_score),  # type: ignore[misc]
            )
            first = plain[0]
            validation[dropout, decay] = best[0][-1]
            if tuned[0].chosen == {"dropout": dropout, "weight_decay": decay}:
                assert tuned[0].metrics == first.metrics
    chosen = tuned[0].chosen
    assert chosen is not None
    assert validation[chosen["dropout"], chosen["weight_decay"]] == max(validation.values())


def test_a_tuned_run_that_is_stopped_goes_on_to_the_same_records(sequences: Sequences, tmp_path: Path) -> None:
    seen: list[int] = []

    def stop(fold: int, epoch: Epoch) -> None:
        seen.append(epoch.number)
        if len(seen) == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(sequences, tmp_path / "stopped", method="naive-regularised", on_epoch=stop)
    resumed = run(sequences, tmp_path / "stopped", method="naive-regularised")
    whole = run(sequences, tmp_path / "whole", method="naive-regularised")
    assert [record.metrics for record in resumed] == [record.metrics for record in whole]
    assert not list((tmp_path / "stopped" / ".checkpoints").glob("*"))


def test_the_bound_is_kept_epoch_by_epoch_on_simulated_logs_only(tmp_path: Path) -> None:
    simulation = tsdr.simulate(students=60, questions=20, concepts=4, seed=1)
    sequences = Sequences.from_log(simulation.log, window=8)
    plain = experiment(sequences, tmp_path)
    more: dict[str, Any] = {"backbone": "dkt", "options": {"d": 8}, "training": OPTIONS, "watch_bound": True}
    with pytest.raises(InputError, match="the bound needs the truth"):
        cross_validate(plain, method="tsdr", **more)
    true = replace(plain, truth=simulation.truth)
    with pytest.raises(InputError, match="random exposure has none"):
        cross_validate(true, method="random-exposure", **more)
    for record in cross_validate(true, method="tsdr-own", **more):
        assert record.watched is not None
        assert len(record.watched) == record.epochs
        assert {"bias_term", "variance_term", "smoothness", "complexity"} == set(record.watched[0])
        assert true.records.find(Run(**{name: getattr(record, name) for name in Run.model_fields})) == record


def test_a_method_with_changed_options_is_a_run_of_its_own(sequences: Sequences, tmp_path: Path) -> None:
    plain, changed = (run(sequences, tmp_path, method=method) for method in ("tsdr", "tsdr:smoothness=0:alpha=1"))
    assert len(list(tmp_path.glob("*.json"))) == 6
    assert {str(record.method) for record in changed} == {"tsdr:smoothness=0:alpha=1"}
    assert changed[0].options["debias"]["smoothness"] == 0
    assert plain[0].metrics != changed[0].metrics


def test_other_folds_are_another_run(sequences: Sequences, tmp_path: Path) -> None:
    first = run(sequences, tmp_path)
    other = replace(
        experiment(sequences, tmp_path), folds=Folds.by_student(sequences.student, 3, seed=OPTIONS.seed + 1)
    )
    again = cross_validate(other, backbone="dkt", options={"d": 8}, training=OPTIONS, method="naive")
    assert len(list(tmp_path.glob("*.json"))) == 6
    assert [record.metrics for record in again] != [record.metrics for record in first]


def test_estimated_risk_is_recorded_by_the_same_models_for_every_method(sequences: Sequences, tmp_path: Path) -> None:
    tested = experiment(sequences, tmp_path)
    more: dict[str, Any] = {"backbone": "dkt", "options": {"d": 8}, "training": OPTIONS, "estimate_risk": True}
    naive, ipw = (cross_validate(tested, method=method, **more) for method in ("naive", "ipw"))
    plain = run(sequences, tmp_path)
    for record, other, without in zip(naive, ipw, plain, strict=True):
        assert {name: record.metrics[name] for name in without.metrics} == without.metrics, "training is not touched"
        assert "estimated_dr" not in without.metrics
        assert 0 < record.metrics["estimated_dr"] != other.metrics["estimated_dr"] > 0
    change = paired_difference(naive, ipw, "estimated_snips")
    assert change.low <= change.value <= change.high
    again = cross_validate(experiment(sequences, tmp_path / "again"), method="ipw", **more)
    assert [record.metrics for record in again] == [record.metrics for record in ipw], "whoever came first"
