"""Shared fixtures."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tsdr import Batch, Log, read_log
from tsdr.experiments.engines import InProcess, Job
from tsdr.experiments.grid import run_grid
from tsdr.judging.experiment import Experiment, plan_baselines, plan_folds
from tsdr.records.run import Record
from tsdr.training.epoch import Epoch
from tsdr.training.options import TrainingOptions

# The tensors of tests are small: threads would only wait for each other, here and in the commands that tests start.
torch.set_num_threads(1)
os.environ["OMP_NUM_THREADS"] = "1"

REAL_DATA = Path(__file__).parents[2] / "shared" / "data"
REAL_COLUMNS = {"student": "user_id", "question": "item_id", "concept": "skill_id", "time": "timestamp"}


class RealLogs:
    """The real logs that may not be redistributed; tests that ask for one are skipped where it is absent."""

    def read(self, name: str) -> Log:
        path = REAL_DATA / f"{name}.tsv.gz"
        if not path.exists():
            pytest.skip(f"the real log {name} is not beside this project (it may not be redistributed)")
        return read_log(path, REAL_COLUMNS)


@pytest.fixture(scope="session")
def real_logs() -> RealLogs:
    return RealLogs()


def random_batch(students: int = 4, steps: int = 9, concepts: int = 11, questions: int = 13, seed: int = 0) -> Batch:
    """Random interactions of students with different numbers of them; the first student has one at every step."""
    generator = torch.Generator().manual_seed(seed)

    def draw(high: int) -> Tensor:
        return torch.randint(high, (students, steps), generator=generator)

    length = torch.randint(1, steps + 1, (students, 1), generator=generator)
    length[0] = steps
    return Batch.of_answers(draw(concepts), draw(questions), draw(2), torch.arange(steps) < length)


def cross_validate(
    experiment: Experiment, on_epoch: Callable[[int, Epoch], None] = lambda fold, epoch: None, **planned: Any
) -> list[Record]:
    """Train and test every fold by a method, in this process; folds with a record are not run."""
    jobs = [Job(experiment, fold) for fold in plan_folds(experiment, **planned)]
    return run_grid(jobs, experiment.records, InProcess(lambda run, epoch: on_epoch(run.fold, epoch)))[0]


def cross_validate_baselines(experiment: Experiment, training: TrainingOptions) -> list[Record]:
    """The baselines on the same folds."""
    jobs = [Job(experiment, fold) for fold in plan_baselines(experiment, training)]
    return run_grid(jobs, experiment.records, InProcess())[0]


@pytest.fixture(scope="session")
def real_raw() -> Path:
    """Samples of the original file formats, where they are beside this project."""
    folder = REAL_DATA / "raw"
    if not folder.exists():
        pytest.skip("the raw samples are not beside this project (they may not be redistributed)")
    return folder
