from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

import tsdr
from tsdr import InputError
from tsdr.cli import app

COLUMNS = ("--column", "student=user_id", "--column", "concept=skills", "--concept-separator", ";")


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    """Two files of a log with names of its own, in shards."""
    log = tsdr.simulate(students=60, questions=20, concepts=4).log
    theirs = log.frame.rename({"student": "user_id", "concept": "skills"})
    for name, part in (("one", theirs[::2]), ("two", theirs[1::2])):
        part.with_columns(skills=pl.col("skills") + ";a").write_csv(tmp_path / f"{name}.csv")
    files = [str(tmp_path / "one.csv"), str(tmp_path / "two.csv")]
    told = CliRunner().invoke(app, ["shard", *files, "--out", str(tmp_path / "shards"), *COLUMNS])
    assert told.exit_code == 0, told.output
    assert f"{len(log):,} answers and 0 skipped offers of 60 students, on 4 concepts" in " ".join(told.output.split())
    return tmp_path / "shards"


def test_a_model_is_fitted_from_shards(shards: Path, tmp_path: Path) -> None:
    fit = ["fit", str(shards), "--out", str(tmp_path / "model"), "--backbone", "counts", "--method", "naive"]
    told = CliRunner().invoke(app, fit)
    assert told.exit_code == 0, told.output
    assert "counts by naive" in told.output
    assert tsdr.load(tmp_path / "model").concepts == ("a;c1", "a;c2", "a;c3", "a;c4")


@pytest.mark.parametrize("command", ["tune", "evaluate", "compare", "diagnose"])
def test_commands_that_read_whole_logs_say_what_shards_are_for(shards: Path, command: str, tmp_path: Path) -> None:
    more = ["--out", str(tmp_path / "page.html")] if command == "diagnose" else []
    refused = CliRunner().invoke(app, [command, str(shards), *more])
    assert isinstance(refused.exception, InputError)
    assert "is a folder of shards, from which `tsdr fit` trains" in str(refused.exception)


def test_columns_are_said_when_shards_are_written_and_not_again(shards: Path, tmp_path: Path) -> None:
    refused = CliRunner().invoke(app, ["fit", str(shards), "--out", str(tmp_path / "model"), *COLUMNS])
    assert "a folder of shards has its columns" in str(refused.exception)


def test_a_folder_that_is_no_shards_is_not_fitted(tmp_path: Path) -> None:
    refused = CliRunner().invoke(app, ["fit", str(tmp_path), "--out", str(tmp_path / "model")])
    assert "is no folder of shards" in str(refused.exception)
