import os
import random
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from tsdr import InputError
from tsdr.experiments import engines
from tsdr.experiments.engines import Failure, Job, Processes, RayCluster
from tsdr.experiments.grid import run_grid
from tsdr.experiments.logs import Simulated
from tsdr.judging.crossval import OnEpoch
from tsdr.judging.experiment import plan_folds
from tsdr.records.folder import RecordFolder
from tsdr.records.run import Record
from tsdr.training.options import TrainingOptions

LOG = Simulated(0.8, students=60, questions=20, concepts=4)
TRAINING = TrainingOptions(max_epochs=8, device="cpu", seed=3)
REST = 0.2  # seconds


def jobs(folder: Path, methods: Sequence[str] = ("naive", "random-exposure"), folds: int = 2) -> list[Job]:
    tested = LOG.experiment(RecordFolder(folder), folds, seed=3)
    return [
        Job(tested, fold_run)
        for method in methods
        for fold_run in plan_folds(tested, backbone="dkt", options={"d": 8}, training=TRAINING, method=method)
    ]


def numbers(record: Record) -> dict[str, object]:
    """All of a record but what depends on the machine's mood."""
    return record.model_dump(exclude={"seconds", "peak_memory_mib"})


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> list[Record]:
    """What the runs come to in this process, one after the other."""
    return [job.compute() for job in jobs(tmp_path_factory.mktemp("alone"))]


def test_processes_come_to_the_same_records_as_one_process(tmp_path: Path, alone: list[Record]) -> None:
    ended: list[Record | Failure] = []
    records, failures = run_grid(jobs(tmp_path), RecordFolder(tmp_path), Processes(2), ended.append)
    assert not failures
    assert [numbers(record) for record in records] == [numbers(record) for record in alone]
    assert {record.file_name() for record in ended if isinstance(record, Record)} == {r.file_name() for r in alone}
    again: list[Record | Failure] = []
    assert run_grid(jobs(tmp_path), RecordFolder(tmp_path), Processes(1), again.append)[0] == records
    assert not again, "what has a record is not run again"


class Impossible(Job):
    def compute(self, on_epoch: OnEpoch = lambda run, epoch: None) -> Record:
        raise InputError("cannot be run")


class Deadly(Job):
    """Kills its worker until it has been tried `lives` times; each try leaves a file."""

    def compute(self, on_epoch: OnEpoch = lambda run, epoch: None) -> Record:
        folder = self.experiment.records.folder
        tries = len(list(folder.glob("try-*")))
        (folder / f"try-{tries}").touch()
        if tries < int((folder / "lives").read_text()):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().compute(on_epoch)


class Slow(Job):
    """Rests after every epoch, so that a kill some time after the first one finds it at work on any machine."""

    def compute(self, on_epoch: OnEpoch = lambda run, epoch: None) -> Record:
        return super().compute(lambda run, epoch: time.sleep(REST))


def test_a_run_that_fails_is_reported_and_the_others_go_on(tmp_path: Path, alone: list[Record]) -> None:
    first, *others = jobs(tmp_path)
    grid = [Impossible(first.experiment, first.fold_run), *others]
    records, failures = run_grid(grid, RecordFolder(tmp_path), Processes(2))
    assert [failure.reason for failure in failures] == ["cannot be run"]
    assert [numbers(record) for record in records] == [numbers(record) for record in alone[1:]]


@pytest.mark.parametrize(("lives", "succeeds"), [(1, True), (99, False)])
def test_a_run_whose_worker_dies_is_given_to_another(
    tmp_path: Path, alone: list[Record], lives: int, succeeds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "ATTEMPTS", 2)
    (tmp_path / "lives").write_text(str(lives))
    first, second, *_ = jobs(tmp_path)
    grid = [Deadly(first.experiment, first.fold_run), second]
    records, failures = run_grid(grid, RecordFolder(tmp_path), Processes(2))
    tries = len(list(tmp_path.glob("try-*")))
    if succeeds:
        assert [numbers(record) for record in records] == [numbers(record) for record in alone[:2]]
        assert tries == lives + 1
    else:
        assert [numbers(record) for record in records] == [numbers(alone[1])]
        assert "died" in failures[0].reason
        assert tries == engines.ATTEMPTS


def test_two_grids_do_not_run_in_one_folder(tmp_path: Path) -> None:
    class Nested:
        workers = 1

        def run(self, jobs: Sequence[Job]) -> Iterator[Record | Failure]:
            with pytest.raises(InputError, match="another command is running"):
                run_grid(jobs, RecordFolder(tmp_path), self)
            yield from ()

    assert run_grid(jobs(tmp_path), RecordFolder(tmp_path), Nested()) == ([], [])


GRID = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_engines import Slow, jobs
from tsdr.records.folder import RecordFolder
from tsdr.experiments.engines import Processes
from tsdr.experiments.grid import run_grid

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    slow = [Slow(job.experiment, job.fold_run) for job in jobs(folder, ("naive", "tsdr-own"), folds=3)]
    run_grid(slow, RecordFolder(folder), Processes(2))
"""


def test_a_grid_killed_three_times_ends_with_every_record_once(tmp_path: Path) -> None:
    """Killed outright, with no time to tidy up, at moments spread over its run; what is left must not matter.

    After each kill the workers must be gone too: none of them may write on beside the grid's successor. Six runs of
    eight epochs with a rest after each cannot be through before the last kill: two workers come to 21 epochs at most.
    """
    script, folder = tmp_path / "grid.py", tmp_path / "killed"
    script.write_text(GRID)
    command = [sys.executable, str(script), str(folder), str(Path(__file__).parent)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    moment = random.Random(1)
    for _ in range(3):
        _start_and_kill(command, environment, folder, moment.random())
    subprocess.run(command, check=True, env=environment)
    whole = jobs(tmp_path / "whole", ("naive", "tsdr-own"), folds=3)
    expected = {job.name: numbers(job.compute()) for job in whole}
    found = {record.file_name(): numbers(record) for record in RecordFolder(folder)}
    assert found == expected
    assert sorted(path.name for path in folder.glob("*.json")) == sorted(expected)
    assert not list((folder / ".checkpoints").iterdir())


def _start_and_kill(command: list[str], environment: dict[str, str], folder: Path, after: float) -> None:
    """Kill it some time after it has first written something."""
    before = _progress(folder)
    process = subprocess.Popen(command, env=environment)
    _wait_for(lambda: _progress(folder) != before or process.poll() is not None)
    time.sleep(after)
    assert process.poll() is None, "it was to be killed before it is through"
    workers = _children(process.pid)
    process.kill()
    process.wait()
    _wait_for(lambda: not any(map(_lives, workers)))


def _progress(folder: Path) -> set[tuple[str, int]]:
    """What there is on disk, and since when."""
    files = [*folder.glob("*.json"), *(folder / ".checkpoints").glob("*.pt")]
    with suppress(FileNotFoundError):  # replaced at this moment
        return {(path.name, path.stat().st_mtime_ns) for path in files}
    return set()


def _wait_for(condition: Callable[[], bool], seconds: float = 240) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def _children(process: int) -> list[int]:
    found = Path(f"/proc/{process}/task/{process}/children").read_text()
    return [int(child) for child in found.split()]


def _lives(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


class TestRay:
    """On one machine, everything on the loopback."""

    @pytest.fixture
    def address(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
        monkeypatch.setenv("RAY_AUTH_MODE", "token")
        monkeypatch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
        pytest.importorskip("ray", reason="Ray is not installed (extra `ray`)")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        with tempfile.TemporaryDirectory(prefix="ray") as folder:  # a short path: Ray's sockets lie in it
            command = f"start --head --block --node-ip-address 127.0.0.1 --port {port} --num-cpus 2 --temp-dir {folder}"
            ray = Path(sys.executable).with_name("ray")
            head = subprocess.Popen(
                [ray, *command.split(), "--include-dashboard=false", "--disable-usage-stats"],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            assert head.stdout is not None
            said = []
            for line in head.stdout:
                said.append(line)
                if "Ray runtime started" in line:
                    break
            assert head.poll() is None, "".join(said)
            yield f"127.0.0.1:{port}"
            head.terminate()
            head.wait()

    def test_a_grid_survives_the_death_of_a_worker(self, address: str, tmp_path: Path, alone: list[Record]) -> None:
        engine = RayCluster(address)
        assert engine.workers == 2
        ended: list[Record | Failure] = []
        killed: list[int] = []
        over = threading.Event()

        def kill_those_at_work() -> None:
            """As soon as any are: with jobs this small, they may be through by the time that a record comes back."""
            while not killed and not over.wait(0.005):
                killed.extend(_ray_workers())
                for worker in killed:
                    with suppress(ProcessLookupError):
                        os.kill(worker, signal.SIGKILL)

        killer = threading.Thread(target=kill_those_at_work)
        killer.start()
        records, failures = run_grid(jobs(tmp_path), RecordFolder(tmp_path), engine, ended.append)
        over.set()
        killer.join()
        assert not failures
        assert [numbers(record) for record in records] == [numbers(record) for record in alone]
        assert len(ended) == len(records)
        assert killed, "none was at work"


def _ray_workers() -> list[int]:
    """The processes that compute a job at this moment; Ray names them after it."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_text().startswith("ray::_compute"):
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found
