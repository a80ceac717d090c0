import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import tsdr
from conftest import random_batch
from tsdr import InputError, Vocabulary, build_backbone
from tsdr.backbones.diskt import DisKT
from tsdr.models.bundle import Bundle, read_bundle
from tsdr.training.options import TrainingOptions

VOCABULARY = Vocabulary(tuple(f"c{i:02}" for i in range(11)), tuple(f"q{i:02}" for i in range(13)))


def bundle(name: str = "diskt") -> Bundle:
    model = build_backbone(name, n_concepts=11, n_questions=13, d=16, size="light").eval()
    return Bundle(model, name, {"d": 16, "size": "light"}, VOCABULARY, 50, {"method": "naive"})


@pytest.mark.parametrize("name", ["dkt", "akt", "simplekt", "folibikt", "sparsekt", "diskt"])
def test_a_bundle_is_read_back_whole(name: str, tmp_path: Path) -> None:
    written = bundle(name)
    if isinstance(written.model, DisKT):
        written.model.share_right.uniform_(0, 1)
    written.write(tmp_path / "model")
    read = read_bundle(tmp_path / "model")
    batch = random_batch()
    assert torch.equal(read.model(batch), written.model(batch))
    assert (read.backbone, read.vocabulary, read.window) == (name, VOCABULARY, 50)
    assert read.model.options == written.model.options
    assert not read.model.training


def test_a_bundle_is_read_by_other_accounts_as_any_file_is(tmp_path: Path) -> None:
    bundle().write(tmp_path / "model")
    (tmp_path / "any file").touch()
    modes = {path.stat().st_mode for path in [*(tmp_path / "model").iterdir(), tmp_path / "any file"]}
    assert len(modes) == 1


def test_fitting_leaves_a_bundle_that_says_how_it_came_about(tmp_path: Path) -> None:
    log = tsdr.simulate(students=60, questions=20, concepts=4).log
    training = TrainingOptions(max_epochs=2, device="cpu")
    tsdr.fit(log, backbone="dkt", options={"d": 8}, window=10, training=training, validation=0.2).save(tmp_path)
    about = json.loads((tmp_path / "bundle.json").read_text())
    assert about["training"]["validation_students"] == 12
    assert about["training"]["train_students"] == 48
    assert about["training"]["method"] == "tsdr", "a tool for debiasing debiases unless told otherwise"
    assert about["window"] == 10
    assert about["versions"]["torch"] == torch.__version__
    assert set(about["concepts"]) == set(log.frame["concept"])


def broken(folder: Path, kind: str) -> None:
    """Spoil a bundle in one way."""
    description = folder / "bundle.json"
    about = json.loads(description.read_text())
    if kind == "no description":
        description.unlink()
    elif kind == "no weights":
        (folder / "weights.safetensors").unlink()
    elif kind == "truncated weights":
        content = (folder / "weights.safetensors").read_bytes()
        (folder / "weights.safetensors").write_bytes(content[: len(content) // 2])
    elif kind == "pickled weights":
        torch.save({"a": torch.ones(1)}, folder / "weights.safetensors")
    elif kind == "other weights":
        save_file({"a": torch.ones(1)}, folder / "weights.safetensors")
    elif kind == "truncated description":
        description.write_text(description.read_text()[:100])
    elif kind == "another version":
        description.write_text(json.dumps(about | {"format": 99}))
    elif kind == "unknown backbone":
        description.write_text(json.dumps(about | {"backbone": "os.system"}))
    elif kind == "fewer concepts":
        description.write_text(json.dumps(about | {"concepts": about["concepts"][:-1]}))
    elif kind == "impossible options":
        description.write_text(json.dumps(about | {"options": {"d": -16}}))
    elif kind == "options of the call":
        description.write_text(json.dumps(about | {"options": {"n_concepts": 3}}))
    elif kind == "a name twice":
        description.write_text(json.dumps(about | {"concepts": ["a"] * 11}))
    elif kind == "no window":
        description.write_text(json.dumps(about | {"window": -3}))
    elif kind == "something else":
        description.write_text('["a list"]')


REASONS = {
    "no description": "bundle.json is missing",
    "no weights": "weights.safetensors is missing",
    "truncated weights": "can be read",
    "pickled weights": "can be read",
    "other weights": "do not fit",
    "truncated description": "can be read",
    "another version": "format 99",
    "unknown backbone": "no backbone 'os.system'",
    "fewer concepts": "do not fit",
    "impossible options": "d is -16",
    "options of the call": "not those of a backbone",
    "a name twice": "a name twice",
    "no window": "window",
    "something else": "can be read",
}


@pytest.mark.parametrize("kind", REASONS)
def test_a_broken_or_foreign_bundle_is_refused_with_the_reason(kind: str, tmp_path: Path) -> None:
    bundle().write(tmp_path / "model")
    broken(tmp_path / "model", kind)
    with pytest.raises(InputError, match=f"(?s){REASONS[kind]}"):
        read_bundle(tmp_path / "model")


def test_a_folder_with_other_things_in_it_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match="other things"):
        bundle().write(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
