"""One model, trained by two workers of a Ray cluster on this machine, one of which is killed."""

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest
import torch

import tsdr
from tsdr import TrainingOptions
from tsdr.training.epoch import Epoch

PLUGIN = """
import tsdr
from tsdr.backbones.dkt import DKT

@tsdr.register_backbone("of-a-plugin")
class Mine(DKT):
    '''A backbone that workers know only if they are sent the file.'''
"""
TRAINING = TrainingOptions(device="cpu", max_epochs=3, batch_size=16)


def ray_workers() -> list[int]:
    """The processes that train at this moment; Ray names them after what they do."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if path.read_text().startswith("ray::RayTrainWorker"):
                found.append(int(path.parent.name))
    return found


def test_a_training_survives_the_death_of_a_worker(tmp_path: Path) -> None:
    """In the middle of an epoch; what was trained by then is not trained again, and the model is that of one process."""
    pytest.importorskip("ray", reason="Ray is not installed (extra `ray`)")
    (tmp_path / "mine.py").write_text(PLUGIN)
    tsdr.load_plugin(tmp_path / "mine.py")
    log = tsdr.simulate(students=1500, questions=40, concepts=8, seed=2).log
    checkpoint, epochs, killed = tmp_path / "run.checkpoint", list[int](), list[int]()

    def kill_one(epoch: Epoch) -> None:
        assert checkpoint.exists(), "what has been told of is on disk"
        epochs.append(epoch.number)
        if not killed:
            killed.extend(ray_workers())
            os.kill(killed[0], signal.SIGKILL)

    told = {"backbone": "of-a-plugin", "method": "naive", "options": {"d": 8, "dropout": 0.0}, "training": TRAINING}
    model = tsdr.fit(log, **told, engine="ray", workers=2, checkpoint=checkpoint, on_epoch=kill_one)  # type: ignore[arg-type]
    assert len(killed) == 2
    assert epochs == [1, 2, 3]
    alone = tsdr.fit(log, **told)  # type: ignore[arg-type]
    for name, weight in alone.backbone.state_dict().items():
        torch.testing.assert_close(model.backbone.state_dict()[name], weight, atol=1e-4, rtol=0)
    assert model.training["workers"] == 2
    assert {"workers"} == model.training.keys() - alone.training.keys()
