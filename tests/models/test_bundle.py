import errno
import hashlib
import json
import math
import os
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save

import tsdr
from conftest import random_batch
from tsdr import InputError, Vocabulary, build_backbone
from tsdr.backbones.diskt import DisKT
from tsdr.files import alone
from tsdr.models.bundle import LOCK, Bundle, read_bundle
from tsdr.processes import peak_memory_mib
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


def weights_of(folder: Path) -> Path:
    """The file of the weights of a bundle."""
    (found,) = folder.glob("weights*.safetensors")
    return found


def described(folder: Path, **changes: object) -> None:
    """Change what a bundle says of itself."""
    description = folder / "bundle.json"
    description.write_text(json.dumps(json.loads(description.read_text()) | changes))


def rewritten(folder: Path, weights: dict[str, torch.Tensor]) -> None:
    """Give a bundle other weights, with a digest that is theirs."""
    weights_of(folder).unlink()
    digest = hashlib.sha256(save(weights)).hexdigest()
    (folder / f"weights-{digest[:12]}.safetensors").write_bytes(save(weights))
    described(folder, weights=digest)


def overwrite(path: Path, count: int) -> None:
    """Put noise in the place of some bytes near the end of a file."""
    content = path.read_bytes()
    path.write_bytes(content[: -2 * count] + bytes(range(256))[:count] + content[-count:])


def changed(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Path], None]:
    """Change every tensor of a bundle in the same way."""

    def spoil(folder: Path) -> None:
        rewritten(folder, {name: change(tensor) for name, tensor in load_file(weights_of(folder)).items()})

    return spoil


def with_options(**options: object) -> Callable[[Path], None]:
    """Change the backbone's options."""
    return lambda folder: described(folder, options={"d": 16, "size": "light"} | options)


def with_diagnosis(text: str) -> Callable[[Path], object]:
    """Put something in the place of a diagnosis."""
    return lambda folder: (folder / f"diagnosis-{weights_of(folder).stem[-12:]}.json").write_text(text)


NAMES = list(VOCABULARY.concepts)
BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "no description": (lambda folder: (folder / "bundle.json").unlink(), "bundle.json is missing"),
    "no weights": (lambda folder: weights_of(folder).unlink(), "safetensors is missing"),
    "truncated weights": (lambda folder: os.truncate(weights_of(folder), 5000), "altered or damaged"),
    "overwritten weights": (lambda folder: overwrite(weights_of(folder), 100), "altered or damaged"),
    "pickled weights": (lambda folder: torch.save({"a": torch.ones(1)}, weights_of(folder)), "altered or damaged"),
    "other weights": (lambda folder: rewritten(folder, {"a": torch.ones(1)}), "do not fit"),
    "weights that are no numbers": (changed(lambda tensor: tensor * math.nan), "not finite numbers; copy"),
    "infinite weights": (changed(lambda tensor: tensor * math.inf), "not finite numbers"),
    "weights of another kind": (changed(lambda tensor: tensor.to(torch.int8)), "of int8, and is to be .* of float32"),
    "truncated description": (lambda folder: os.truncate(folder / "bundle.json", 100), "cannot be read"),
    "deep description": (lambda folder: (folder / "bundle.json").write_text("[" * 10**5), "cannot be read"),
    "another version": (lambda folder: described(folder, format=99), "format 99"),
    "no digest": (lambda folder: described(folder, weights=None), "does not say which weights"),
    "unknown backbone": (lambda folder: described(folder, backbone="os.system"), "no backbone 'os.system'"),
    "fewer concepts": (lambda folder: described(folder, concepts=NAMES[:-1]), "do not fit"),
    "impossible options": (with_options(d=-16), "d is -16"),
    "options of the call": (with_options(n_concepts=3), "not those of a backbone"),
    "too wide a model": (with_options(d=8000), "far larger"),
    "too deep a model": (with_options(blocks=100_000), "far larger"),
    "a name twice": (lambda folder: described(folder, concepts=["a"] * 11), "a name twice"),
    "no window": (lambda folder: described(folder, window=-3), "window"),
    "too wide a window": (lambda folder: described(folder, window=10**9), "window"),
    "a window of all": (lambda folder: described(folder, window="all"), "reads a window"),
    "something else": (lambda folder: (folder / "bundle.json").write_text('["a list"]'), "can be read"),
    "a diagnosis of infinite numbers": (with_diagnosis('{"answers": 1e999}'), "1e999 is not a finite number"),
    "a diagnosis of no numbers": (with_diagnosis('{"answers": NaN}'), "NaN is not a finite number"),
    "a deep diagnosis": (with_diagnosis("[" * 10**5), "cannot be read"),
    "a diagnosis that is none": (with_diagnosis("[1]"), "is not a diagnosis"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_or_foreign_bundle_is_refused_with_the_reason(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    bundle().write(folder)
    spoil, reason = BROKEN[kind]
    spoil(folder)
    with pytest.raises(InputError, match=f"(?s){reason}"):
        read_bundle(folder)


def test_a_model_that_is_too_large_for_its_weights_is_refused_before_it_takes_memory(tmp_path: Path) -> None:
    bundle("dkt").write(tmp_path / "wide")
    described(tmp_path / "wide", options={"d": 8000})  # a GB for the first of four matrices
    bundle("simplekt").write(tmp_path / "deep")
    described(tmp_path / "deep", options={"d": 16, "size": "light", "blocks": 100_000})
    before = peak_memory_mib()
    for kind in ("wide", "deep"):
        with pytest.raises(InputError, match="far larger"):
            read_bundle(tmp_path / kind)
    assert peak_memory_mib() - before < 100


def test_a_bundle_from_before_there_were_digests_is_read_with_a_warning_and_has_one_once_saved(tmp_path: Path) -> None:
    bundle().write(tmp_path)
    about = json.loads((tmp_path / "bundle.json").read_text())
    del about["weights"]
    (tmp_path / "bundle.json").write_text(json.dumps(about | {"format": 1}))
    weights_of(tmp_path).rename(tmp_path / "weights.safetensors")
    (tmp_path / "diagnosis.json").write_text('{"answers": 3}')
    with pytest.warns(UserWarning, match="damage to them cannot be told"):
        model = tsdr.load(tmp_path)
    assert model.bundle.diagnosis == {"answers": 3}
    model.save(tmp_path)
    assert not (tmp_path / "weights.safetensors").exists()
    assert not (tmp_path / "diagnosis.json").exists()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tsdr.load(tmp_path).bundle.diagnosis == {"answers": 3}


def test_a_model_whose_training_diverged_is_not_written(tmp_path: Path) -> None:
    diverged = bundle("dkt")
    with torch.no_grad():
        next(diverged.model.parameters()).fill_(math.nan)
    with pytest.raises(InputError, match="training has diverged"):
        diverged.write(tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("failing", ["weights", "diagnosis", "bundle"])
def test_a_write_that_fails_leaves_the_old_bundle_whole(
    failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = bundle("dkt"), replace(bundle("dkt"), window=20, diagnosis={"answers": 2})
    old.write(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    put = os.replace

    def fail(source: Path, target: Path) -> None:
        if target.name.startswith(failing):
            raise OSError(errno.ENOSPC, "No space left on device", str(target))
        put(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fail)
        with pytest.raises(InputError, match=r"cannot be written \(No space left on device\); free some space"):
            new.write(tmp_path)
    assert before.items() <= {path.name: path.read_bytes() for path in tmp_path.iterdir()}.items()
    read = read_bundle(tmp_path)
    assert (read.window, read.diagnosis) == (50, None)
    assert torch.equal(read.model(random_batch()), old.model(random_batch()))
    new.write(tmp_path)
    assert read_bundle(tmp_path).window == 20
    assert len(list(tmp_path.iterdir())) == 3, "what belongs to no bundle is gone"


def test_a_bundle_is_written_by_one_process_at_a_time(tmp_path: Path) -> None:
    with alone(tmp_path / LOCK, ""), pytest.raises(InputError, match="another process writes"):
        bundle().write(tmp_path)
    bundle().write(tmp_path)
    assert not (tmp_path / LOCK).exists()


def test_a_diagnosis_is_not_kept_with_a_model_that_took_the_place_of_the_one_diagnosed(tmp_path: Path) -> None:
    bundle().write(tmp_path)
    diagnosed = replace(read_bundle(tmp_path), diagnosis={"answers": 1})
    bundle("dkt").write(tmp_path)
    with pytest.raises(InputError, match="another model by now"):
        diagnosed.write_diagnosis(tmp_path)
    replace(read_bundle(tmp_path), diagnosis={"answers": 2}).write_diagnosis(tmp_path)
    assert read_bundle(tmp_path).diagnosis == {"answers": 2}


def test_a_folder_with_other_things_in_it_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match="other things"):
        bundle().write(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
