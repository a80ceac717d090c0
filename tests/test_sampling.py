import warnings
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

import tsdr
from tsdr import InputError, Log, TrainingOptions, sampling
from tsdr.cli import app
from tsdr.sampling import sampled


@pytest.fixture(scope="module")
def log() -> Log:
    return tsdr.simulate(students=80, questions=20, concepts=4).offers()


def test_students_are_drawn_whole_by_the_seed_and_not_by_the_order_of_the_rows(log: Log) -> None:
    with pytest.warns(UserWarning, match="of 80 students with"):
        drawn = sampled(log, 30, seed=3)
    assert len(drawn.students) == 30
    assert drawn == Log(log.frame.filter(pl.col("student").is_in(drawn.students)))
    backwards = Log(log.frame.sort("student", descending=True, maintain_order=True))
    with pytest.warns(UserWarning, match="of 80 students"):
        assert sampled(backwards, 30, seed=3) == drawn
    with pytest.warns(UserWarning, match="of 80 students"):
        assert sampled(log, 30, seed=4) != drawn


def test_all_are_taken_unless_they_are_many(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sampled(log) is log
        monkeypatch.setattr(sampling, "MANY", 5000)
        assert sampled(log, "all") is sampled(log, 80) is log
    with pytest.warns(UserWarning, match="all take about 2 times as long: --students all"):
        drawn = sampled(log)
    assert 4000 < drawn.answered.height < 6000
    with pytest.raises(InputError, match="at least 1, not 0"):
        sampled(log, 0)


def test_a_comparison_and_its_records_say_of_how_many_they_are(log: Log, tmp_path: Path) -> None:
    training = TrainingOptions(max_epochs=1, device="cpu")
    shared = {"methods": ["naive"], "folds": 2, "training": training, "out": tmp_path, "options": {"d": 8}}
    with pytest.warns(UserWarning, match="of 80 students"):
        found = tsdr.compare(log, backbone="dkt", students=40, **shared)  # type: ignore[arg-type]
    assert {record.options["drawn_from"] for record in found.records} == {80}
    assert {record.students["test"] for record in found.records} == {20}
    with pytest.raises(InputError, match="drawn from a log without its truth"):
        tsdr.compare(tsdr.simulate(students=40), students=20, **shared)  # type: ignore[arg-type]


def test_a_diagnosis_says_of_how_many_it_is(log: Log) -> None:
    with pytest.warns(UserWarning, match="of 80 students"):
        found = tsdr.diagnose(log, students=50)
    assert (found.subject.students, found.subject.drawn_from) == (50, 80)


def test_commands_draw_students(log: Log, tmp_path: Path) -> None:
    log.write(tmp_path / "log.parquet")
    model = tsdr.fit(log, backbone="counts", method="naive", training=TrainingOptions(max_epochs=1, device="cpu"))
    model.save(tmp_path / "model")
    command = ["evaluate", str(tmp_path / "log.parquet"), "--model", str(tmp_path / "model"), "--students"]
    with pytest.warns(UserWarning, match="of 80 students"):
        told = CliRunner().invoke(app, [*command, "30"])
    assert "of 30 students" in told.output
    assert CliRunner().invoke(app, [*command, "none"]).exit_code == 2
