import io
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from torch import Tensor

import tsdr
from conftest import random_batch
from tsdr import InputError, Log, Sequences, build_backbone
from tsdr.backbones import AnyBackbone
from tsdr.backbones.predicting import predict
from tsdr.debias.building import new_model
from tsdr.debias.objective import JointObjective
from tsdr.methods import NAIVE_OPTIONS
from tsdr.metrics import auc, auc_error, log_loss
from tsdr.training.checkpoint import read_checkpoint, write_checkpoint
from tsdr.training.epoch import Epoch
from tsdr.training.options import TrainingOptions
from tsdr.training.trainer import fit

SIX = ("dkt", "akt", "simplekt", "folibikt", "sparsekt", "diskt")
SMALL = {"d": 16, "size": "light"}


@pytest.fixture(scope="module")
def sequences() -> Sequences:
    return Sequences.from_log(tsdr.simulate(students=160, questions=60, concepts=8, seed=2).log, window=20)


def halves(sequences: Sequences) -> tuple[Sequences, Sequences]:
    return sequences.select(sequences.student[:120]), sequences.select(sequences.student[120:])


def train(
    sequences: Sequences, options: TrainingOptions, name: str = "simplekt", **more: object
) -> tuple[AnyBackbone, list[Epoch]]:
    model = new_model(name, sequences, SMALL, options)
    training, validation = halves(sequences)
    model.prepare(training)
    return model, fit(JointObjective(model, NAIVE_OPTIONS, options), training, validation, options, **more)  # type: ignore[arg-type]


def weights(model: AnyBackbone) -> list[Tensor]:
    return [tensor.clone() for tensor in model.state_dict().values()]


def test_the_naive_loss_is_the_mean_over_scored_steps() -> None:
    batch = random_batch()
    options = TrainingOptions(device="cpu")
    model = build_backbone("dkt", n_concepts=11, n_questions=13, dropout=0.0)
    logits = model(batch).detach()
    losses = [
        float(np.logaddexp(0, float(logits[i, j]) * (1 - 2 * int(batch.correct[i, j]))))
        for i in range(len(batch))
        for j in range(1, 9)
        if batch.mask[i, j]
    ]
    assert JointObjective(model, NAIVE_OPTIONS, options).step(batch) == pytest.approx(np.mean(losses), rel=1e-5)


@pytest.mark.parametrize("name", SIX)
def test_every_backbone_can_learn_64_sequences_by_heart(name: str) -> None:
    """A model that cannot overfit has lost its history somewhere."""
    students = 64
    rng = np.random.default_rng(0)
    rows = [
        (f"s{s:02}", f"q{rng.integers(40)}", f"c{rng.integers(6)}", int(rng.random() < 0.6))
        for s in range(students)
        for _ in range(12)
    ]
    log = Log(pl.DataFrame(rows, ["student", "question", "concept", "correct"], orient="row"))
    data = Sequences.from_log(log)
    options = TrainingOptions(learning_rate=5e-3, max_epochs=1, device="cpu")
    model = new_model(name, data, {"d": 32, "dropout": 0.0} | ({} if name == "dkt" else {"size": "light"}), options)
    model.prepare(data)
    objective = JointObjective(model, NAIVE_OPTIONS, options)
    for step in range(400):
        model.train()
        objective.step(data.batch)
        if step % 20 == 19:
            found = predict(model, data)
            if auc(found.success, found.correct) > 0.95:
                break
    found = predict(model, data)
    assert auc(found.success, found.correct) > 0.95


def test_training_learns_and_restores_the_best_weights(sequences: Sequences) -> None:
    options = TrainingOptions(patience=2, max_epochs=30, learning_rate=5e-3, device="cpu", stop_by="auc")
    model, epochs = train(sequences, options)
    best = max(epochs, key=lambda epoch: epoch.score)
    assert epochs[-1].number == best.number + 2 or len(epochs) == 30
    assert epochs[-1].best_epoch == best.number
    found = predict(model, halves(sequences)[1])
    assert auc(found.success, found.correct) == pytest.approx(best.score, abs=1e-9)
    assert best.score > 0.6
    assert epochs[-1].loss < epochs[0].loss
    assert not model.training


def test_training_stops_by_its_loss_unless_told_otherwise(sequences: Sequences) -> None:
    model, epochs = train(sequences, TrainingOptions(patience=2, max_epochs=30, learning_rate=5e-3, device="cpu"))
    assert {epoch.score_name for epoch in epochs} == {"negative loss"}
    best = max(epoch.score for epoch in epochs)
    found = predict(model, halves(sequences)[1])
    assert -log_loss(found.success, found.correct) == pytest.approx(best, abs=1e-9)
    assert epochs[-1].best_score == best
    by_auc = TrainingOptions(device="cpu", stop_by="auc")
    assert "stop_by" not in by_auc.settings(), "records of the paper's rule are called what they were"
    assert TrainingOptions(device="cpu").settings()["stop_by"] == "loss"


def test_the_same_seed_gives_the_same_model(sequences: Sequences) -> None:
    runs = [train(sequences, TrainingOptions(max_epochs=2, seed=seed, device="cpu"))[0] for seed in (1, 1, 2)]
    assert all(torch.equal(a, b) for a, b in zip(weights(runs[0]), weights(runs[1]), strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(weights(runs[0]), weights(runs[2]), strict=True))


@pytest.mark.parametrize("name", ["dkt", "diskt"])
def test_an_interrupted_run_goes_on_to_the_same_numbers(sequences: Sequences, tmp_path: Path, name: str) -> None:
    options = TrainingOptions(max_epochs=5, device="cpu")
    whole, epochs = train(sequences, options, name)

    def interrupt(epoch: Epoch) -> None:
        if epoch.number == 2:
            raise KeyboardInterrupt

    checkpoint = tmp_path / "run.checkpoint"
    with pytest.raises(KeyboardInterrupt):
        train(sequences, options, name, checkpoint=checkpoint, on_epoch=interrupt)
    torch.manual_seed(999)
    resumed, after = train(sequences, options, name, checkpoint=checkpoint, resume=True)
    assert [epoch.score for epoch in after] == [epoch.score for epoch in epochs]
    assert [epoch.loss for epoch in after] == [epoch.loss for epoch in epochs]
    assert all(torch.equal(a, b) for a, b in zip(weights(resumed), weights(whole), strict=True))


def test_a_checkpoint_of_another_run_is_refused(sequences: Sequences, tmp_path: Path) -> None:
    checkpoint = tmp_path / "run.checkpoint"
    train(sequences, TrainingOptions(max_epochs=1, device="cpu"), checkpoint=checkpoint)
    other = TrainingOptions(max_epochs=2, learning_rate=0.5, device="cpu")
    with pytest.raises(InputError, match="other data or options"):
        train(sequences, other, checkpoint=checkpoint, resume=True)
    for name, backbone_options in (("sparsekt", SMALL), ("simplekt", SMALL | {"dropout": 0.4})):
        other_model = new_model(name, sequences, backbone_options, TrainingOptions(device="cpu"))
        options = TrainingOptions(max_epochs=2, device="cpu")
        objective = JointObjective(other_model, NAIVE_OPTIONS, options)
        with pytest.raises(InputError, match="other data or options"):
            fit(objective, *halves(sequences), options, checkpoint=checkpoint, resume=True)
    checkpoint.write_bytes(b"not a checkpoint")
    with pytest.raises(InputError, match="not a checkpoint"):
        train(sequences, TrainingOptions(max_epochs=1, device="cpu"), checkpoint=checkpoint, resume=True)


@pytest.mark.parametrize("count", [0, 1, 40, 2000])
def test_an_altered_checkpoint_is_refused_and_never_gone_on_from(tmp_path: Path, count: int) -> None:
    path, weights = tmp_path / "run.checkpoint", torch.rand(1000)
    write_checkpoint(path, "this run", {"weights": weights, "epochs": [{"loss": 0.5}]})
    assert torch.equal(read_checkpoint(path, "this run")["weights"], weights)
    whole = path.read_bytes()
    for at in range(0, len(whole) - count, len(whole) // 23):
        noise = bytes(255 - byte for byte in whole[at : at + count])
        path.write_bytes(whole[:at] + noise + whole[at + count :] if count else whole[:at])
        with pytest.raises(InputError, match=r"altered, damaged.*; remove it and start anew"):
            read_checkpoint(path, "this run")


def test_a_checkpoint_of_another_version_is_refused_in_a_sentence(sequences: Sequences, tmp_path: Path) -> None:
    checkpoint, options = tmp_path / "run.checkpoint", TrainingOptions(max_epochs=1, device="cpu")
    train(sequences, options, checkpoint=checkpoint)
    run = torch.load(io.BytesIO(checkpoint.read_bytes()[32:]), weights_only=True)["run"]  # after the digest
    written = read_checkpoint(checkpoint, run)
    for part in ("models", "optimisers"):
        renamed = {
            **written["learner"],
            part: {f"old {name}": state for name, state in written["learner"][part].items()},
        }
        write_checkpoint(checkpoint, run, {**written, "learner": renamed})
        with pytest.raises(InputError, match="another version wrote it; remove it"):
            train(sequences, options, checkpoint=checkpoint, resume=True)


def test_shuffled_answers_cannot_be_predicted() -> None:
    """With every answer of the log permuted, there is nothing to find: AUC is 0.5 within its standard error.

    4 standard errors leave a false alarm once in 16,000.
    """
    log = tsdr.simulate(students=300, questions=60, concepts=8, seed=3).log
    answers = np.random.default_rng(0).permutation(log.frame["correct"].to_numpy())
    shuffled = Sequences.from_log(Log(log.frame.with_columns(correct=pl.Series(answers))), window=20)
    train_half, validation, test = (
        shuffled.select(shuffled.student[a:b]) for a, b in ((0, 150), (150, 180), (180, 300))
    )
    options = TrainingOptions(max_epochs=6, patience=3, learning_rate=5e-3, device="cpu")
    model = new_model("simplekt", shuffled, SMALL, options)
    fit(JointObjective(model, NAIVE_OPTIONS, options), train_half, validation, options)
    found = predict(model, test)
    error = auc_error(found)
    assert abs(auc(found.success, found.correct) - 0.5) < 4 * error
    assert error < 0.02


def test_validation_without_both_kinds_of_answers_is_refused(sequences: Sequences) -> None:
    training, validation = halves(sequences)
    validation.answers.correct.fill_(1)
    options = TrainingOptions(device="cpu")
    model = new_model("dkt", sequences, {}, options)
    with pytest.raises(InputError, match="both right and wrong"):
        fit(JointObjective(model, NAIVE_OPTIONS, options), training, validation, options)


def test_a_gpu_that_is_not_there_is_refused() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    with pytest.raises(InputError, match="no CUDA device"):
        TrainingOptions(device="cuda").torch_device()
    assert TrainingOptions().torch_device() == torch.device("cpu")


def test_a_model_that_training_makes_worse_stays_as_it_was(sequences: Sequences) -> None:
    """A rate far too large throws a model off from its first step on."""
    options = TrainingOptions(learning_rate=30.0, max_epochs=4, device="cpu", stop_by="loss")
    begun = new_model("simplekt", sequences, SMALL, options)
    begun.prepare(halves(sequences)[0])
    model, epochs = train(sequences, options)
    assert epochs[-1].best_epoch == 0
    assert epochs[-1].best_score > max(epoch.score for epoch in epochs)
    for kept, before in zip(weights(model), weights(begun), strict=True):
        assert torch.equal(kept, before)
