"""One model, trained by two workers of a Ray cluster on this machine, one of which is killed."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import tsdr
from tsdr import InputError, TrainingOptions
from tsdr.cluster import ATTEMPTS, Board, Result, Room
from tsdr.training.epoch import Epoch

PLUGIN = """
import tsdr
from tsdr.backbones.dkt import DKT

@tsdr.register_backbone("of-a-plugin")
class Mine(DKT):
    pass
"""
HOW: dict[str, Any] = {
    "backbone": "of-a-plugin",
    "method": "naive",
    "options": {"d": 8, "dropout": 0.0},
    "training": TrainingOptions(device="cpu", max_epochs=3, batch_size=16),
}
SCRIPT = """
import os, signal, sys
from pathlib import Path
folder = Path(sys.argv[1])
sys.path.insert(0, sys.argv[2])
import tsdr
from test_cluster import HOW, a_log

checkpoint, epochs, killed = folder / "run.checkpoint", [], []

def kill_one(epoch):
    assert checkpoint.exists(), "what has been told of is on disk"
    epochs.append(epoch.number)
    if not killed:
        at_work = (path for path in Path("/proc").glob("[0-9]*/cmdline"))
        killed.extend(int(path.parent.name) for path in at_work if path.read_text().startswith("ray::RayTrainWorker"))
        os.kill(killed[0], signal.SIGKILL)

if __name__ == "__main__":
    tsdr.load_plugin(folder / "mine.py")
    tsdr.fit(a_log(), **HOW, engine="ray", workers=2, checkpoint=checkpoint, on_epoch=kill_one).save(folder / "model")
    print(*epochs, "of", len(killed))
"""


def a_log() -> tsdr.Log:
    return tsdr.simulate(students=1500, questions=40, concepts=8, seed=2).log


def test_a_training_survives_the_death_of_a_worker(tmp_path: Path) -> None:
    """In the middle of an epoch; no epoch is told of twice, and the model is that of one process.

    What workers are sent is what they need: the backbone is in a file that they have not read.
    """
    pytest.importorskip("ray", reason="Ray is not installed (extra `ray`)")
    (tmp_path / "mine.py").write_text(PLUGIN)
    (tmp_path / "train.py").write_text(SCRIPT)
    command = [sys.executable, str(tmp_path / "train.py"), str(tmp_path), str(Path(__file__).parent)]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    assert said.splitlines()[-1] == "1 2 3 of 2"
    tsdr.load_plugin(tmp_path / "mine.py")
    by_two, alone = tsdr.load(tmp_path / "model"), tsdr.fit(a_log(), **HOW)
    for name, weight in alone.backbone.state_dict().items():
        torch.testing.assert_close(by_two.backbone.state_dict()[name], weight, atol=1e-4, rtol=0)
    assert by_two.training["workers"] == 2
    assert by_two.training.keys() - alone.training.keys() == {"workers"}


@pytest.mark.parametrize(
    ("machines", "workers", "parallel", "found"),
    [
        ([2], 2, True, Room(2, 1, False)),
        ([8], 2, True, Room(2, 4, False)),
        ([8], 2, False, Room(2, 1, False)),
        ([32, 32], 2, True, Room(2, 8, False)),
        ([3, 3], 3, True, Room(3, 1, False)),  # two threads each would leave no room for the third
        ([5, 2], 3, True, Room(3, 2, False)),
    ],
)
def test_every_worker_has_as_many_threads_as_find_room(
    machines: list[int], workers: int, parallel: bool, found: Room
) -> None:
    assert Room.among([{"CPU": cores} for cores in machines], workers, parallel=parallel, device="auto") == found


def test_gpus_are_used_where_every_worker_has_one() -> None:
    machines = [{"CPU": 4.0, "GPU": 1.0}, {"CPU": 4.0, "GPU": 1.0}]
    assert Room.among(machines, 2, parallel=False, device="auto").gpu
    assert not Room.among(machines, 3, parallel=False, device="auto").gpu
    assert not Room.among(machines, 2, parallel=False, device="cpu").gpu
    with pytest.raises(InputError, match="2 GPUs in the Ray cluster, too few for 3 workers"):
        Room.among(machines, 3, parallel=False, device="cuda")


def test_more_workers_than_cores_are_refused() -> None:
    with pytest.raises(InputError, match="3 cores in the Ray cluster, too few for 4 workers; use fewer --workers"):
        Room.among([{"CPU": 2.0}, {"CPU": 1.0}, {}], 4, parallel=True, device="auto")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"workers": 2}, "engine ray"),
        ({"address": "127.0.0.1:1"}, "engine ray"),
        ({"engine": "ray"}, "how many workers"),
        ({"engine": "ray", "workers": 0}, "one worker at least"),
    ],
)
def test_what_does_not_go_together_is_refused(more: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        tsdr.fit(tsdr.simulate(students=20, questions=10, concepts=3).log, **more)


def test_without_ray_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"extra `ray`"):
        tsdr.fit(tsdr.simulate(students=20, questions=10, concepts=3).log, engine="ray", workers=2)


@pytest.mark.parametrize(
    ("address", "message"),
    [("127.0.0.1:1", "no Ray cluster at 127.0.0.1:1.*ray start --head"), ("head", "host and port")],
)
def test_a_cluster_that_is_not_there_is_not_waited_for(address: str, message: str) -> None:
    pytest.importorskip("ray", reason="Ray is not installed (extra `ray`)")
    with pytest.raises(InputError, match=message):
        tsdr.fit(tsdr.simulate(students=20, questions=10, concepts=3).log, engine="ray", workers=2, address=address)


def epoch(number: int) -> Epoch:
    return Epoch(number, 0.5, "negative loss", -0.5, -0.5, number, 1.0, {})


def test_workers_go_on_from_the_newest_checkpoint_and_not_for_ever() -> None:
    board = Board(b"begun")
    assert board.begin(first=True) == board.begin(first=False) == b"begun"
    board.tell(epoch(4), b"newer")
    board.fail("a peer is gone", final=False)
    for _ in range(ATTEMPTS):
        assert board.begin(first=True) == b"newer"
    told = board.news()
    assert (told.epochs, told.checkpoint, told.failed) == ([epoch(4)], b"newer", None)
    assert (board.news().epochs, board.news().checkpoint) == ([], None), "everything is told once"
    board.tell(epoch(5), b"newest")
    assert board.news().failed is None, "an epoch that got through counts them anew"
    for _ in range(ATTEMPTS + 1):
        board.begin(first=True)
    assert board.news().failed == f"the training has failed {ATTEMPTS} times in the same epoch: a peer is gone"


def test_users_are_warned_once_however_often_workers_begin_anew() -> None:
    board = Board(None)
    board.warn("few students")
    assert board.news().warned == ["few students"]
    board.warn("few students")
    board.warn("an epoch takes long")
    assert board.news().warned == ["an epoch takes long"]


def test_what_cannot_be_repaired_by_another_attempt_is_told_at_once() -> None:
    board = Board(None)
    board.fail("there is nothing to learn from", final=True)
    assert board.news().failed == "there is nothing to learn from"
    board.end(Result({}, [epoch(1)]))
    assert board.news().result == Result({}, [epoch(1)])
