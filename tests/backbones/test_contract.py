import numpy as np
import polars as pl
import pytest
import torch

import tsdr.backbones.contract as contract
from conftest import random_batch
from tsdr import Batch, InputError, Log, Sequences, build_backbone, register_backbone
from tsdr.backbones import backbone_names
from tsdr.backbones.akt import AKT
from tsdr.backbones.attention import AttentionBackbone
from tsdr.backbones.contract import Reader, check_window
from tsdr.backbones.predicting import predict

SIX = {"dkt", "akt", "simplekt", "folibikt", "sparsekt", "diskt"}
SMALL = {"d": 16}


def test_the_six_are_registered() -> None:
    assert set(backbone_names()) >= SIX


@pytest.mark.parametrize("name", sorted(SIX))
def test_shapes(name: str) -> None:
    model = build_backbone(name, n_concepts=11, n_questions=13, **SMALL).eval()
    batch = random_batch()
    history = model.encode(batch)
    concept = torch.randint(11, (4, 9, 3))
    steps = torch.tensor([[0, 9], [3, 4], [1, 1], [9, 2]])
    assert model(batch).shape == (4, 9)
    assert model.answer(history, concept).shape == (4, 9, 3)
    assert model.answer(history, concept[:, :2], steps=steps).shape == (4, 2, 3)
    assert model.retrieve(history, concept).shape == (4, 9, 3, 16)
    assert model.retrieve(history, concept[:, :2], steps=steps).shape == (4, 2, 3, 16)
    assert model.summary(history).shape == (4, 9, 16)
    assert model.penalty(batch).shape == ()
    grown = model.append(history, concept[:, 0, 0], concept[:, 0, 1], torch.ones(4, dtype=torch.long))
    assert model.steps_of(grown) == (0 if model.linear else 10)


@pytest.mark.parametrize("name", sorted(SIX))
def test_a_step_beyond_the_end_is_the_step_after_the_last_interaction(name: str) -> None:
    model = build_backbone(name, n_concepts=11, n_questions=13, **SMALL).eval()
    batch = random_batch()
    history = model.encode(batch)
    concept = torch.arange(11).expand(4, 1, 11)
    length = batch.mask.sum(1, keepdim=True)
    after_all = model.answer(history, concept, steps=torch.full((4, 1), 9))
    torch.testing.assert_close(after_all, model.answer(history, concept, steps=length))


@pytest.mark.parametrize("name", sorted(SIX))
def test_appending_to_sequences_of_different_lengths_is_encoding_them_longer(name: str) -> None:
    model = build_backbone(name, n_concepts=11, n_questions=13, **SMALL).eval()
    batch = random_batch(steps=9)
    length = batch.mask.sum(1)
    shorter = Batch.of_answers(batch.concept, batch.question, batch.correct, torch.arange(9) < length[:, None] - 1)
    last = length[:, None] - 1
    new = (getattr(batch, field).gather(1, last)[:, 0] for field in ("concept", "question", "correct"))
    appended = model.append(model.encode(shorter), *new)
    targets, after = torch.arange(11).expand(4, 1, 11), length[:, None]
    torch.testing.assert_close(
        model.answer(appended, targets, steps=after),
        model.answer(model.encode(batch), targets, steps=after),
        atol=2e-5,
        rtol=0,
    )


@pytest.mark.parametrize("name", sorted(SIX))
def test_unknown_questions_count_as_average(name: str) -> None:
    model = build_backbone(name, n_concepts=11, n_questions=13, **SMALL).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    if isinstance(model, AttentionBackbone):
        with torch.no_grad():
            model.target.difficulty.weight[-1] = 0
    history = model.encode(random_batch())
    concept = torch.randint(11, (4, 9, 2))
    unknown = model.answer(history, concept, torch.full_like(concept, -1))
    torch.testing.assert_close(unknown, model.answer(history, concept))
    if name != "dkt":
        known = model.answer(history, concept, torch.zeros_like(concept))
        assert not torch.allclose(known, unknown)


@pytest.mark.parametrize("name", sorted(SIX))
def test_the_history_is_encoded_once_for_any_number_of_targets(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Targets in chunks of one row give what one chunk gives, and none of them runs the encoder again."""
    model = build_backbone(name, n_concepts=11, n_questions=13, **SMALL).eval()
    history = model.encode(random_batch())
    targets = torch.arange(11).expand(4, 9, 11)
    at_once = model.answer(history, targets)
    monkeypatch.setattr(contract, "CHUNK_ROWS", 1)
    monkeypatch.setattr(model, "encode", None)
    torch.testing.assert_close(model.answer(history, targets), at_once, atol=2e-5, rtol=0)


def test_bad_requests_are_refused() -> None:
    with pytest.raises(InputError, match=r"no backbone 'akkt'.*akt"):
        build_backbone("akkt", n_concepts=3, n_questions=3)
    with pytest.raises(InputError, match=r"'dkt' cannot be built with .*'headz'"):
        build_backbone("dkt", n_concepts=3, n_questions=3, headz=4)
    with pytest.raises(InputError, match="size 'huge'"):
        build_backbone("akt", n_concepts=3, n_questions=3, size="huge")
    with pytest.raises(InputError, match="a concept and a question"):
        build_backbone("dkt", n_concepts=0, n_questions=3)
    with pytest.raises(InputError, match=r"d is 17.*8 heads"):
        build_backbone("akt", n_concepts=3, n_questions=3, d=17)
    model = build_backbone("dkt", n_concepts=11, n_questions=13)
    history = model.encode(random_batch())
    with pytest.raises(InputError, match="do not fit"):
        model.answer(history, torch.zeros(4, 2, 1, dtype=torch.long))
    with pytest.raises(InputError, match="named 'dkt' already"):
        register_backbone("dkt")(AKT)


@pytest.mark.parametrize("name", ["dkt", "akt", "diskt"])
def test_the_gradient_in_chunks_is_that_of_chunks_whose_graphs_are_kept(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dropout included: a chunk that is computed anew for the backward pass drops what it dropped before."""
    monkeypatch.setattr(contract, "CHUNK_ROWS", 100)
    torch.manual_seed(0)
    model = build_backbone(name, n_concepts=11, n_questions=13, d=16, dropout=0.3).train()
    batch = random_batch()
    every = torch.arange(11).expand(*batch.mask.shape, -1)
    steps = torch.arange(9).expand(4, -1)
    weight = torch.randn(*batch.mask.shape, 11)
    size = 100 // 36

    def gradients(in_chunks: bool) -> dict[str, torch.Tensor]:
        model.zero_grad(set_to_none=True)
        torch.manual_seed(1)
        history = model.encode(batch)
        if in_chunks:
            logits = model.answer(history, every)
        else:
            parts = [model.answer_rows(history, every[..., at : at + size], None, steps) for at in range(0, 11, size)]
            logits = torch.cat(parts, dim=2)
        (weight * logits).sum().backward()
        return {key: p.grad.clone() for key, p in model.named_parameters() if p.grad is not None}

    kept, anew = gradients(False), gradients(True)
    for key, gradient in kept.items():
        torch.testing.assert_close(anew[key], gradient, atol=1e-4, rtol=1e-4)
    assert all(not anew[key].any() for key in anew.keys() - kept.keys())


@pytest.mark.parametrize("name", ["dkt", "counts", "hybrid"])
def test_a_history_read_in_stretches_is_the_history_read_at_once(name: str) -> None:
    """Ended rows are left out, so that what goes on is not in the order in which it began."""
    options = {} if name == "counts" else {"d": 16}
    model = build_backbone(name, n_concepts=11, n_questions=13, **options).eval()
    lengths = {f"s{i}": n for i, n in enumerate([450, 8, 230, 610, 5])}
    drawn = np.random.default_rng(0)
    rows = [
        (student, f"q{drawn.integers(13)}", f"c{drawn.integers(11)}", int(drawn.integers(2)))
        for student, n in lengths.items()
        for _ in range(n)
    ]
    log = Log(pl.DataFrame(rows, ["student", "question", "concept", "correct"], orient="row"))
    whole = Sequences.from_log(log, window="all")
    at_once = Sequences.from_log(log, window=700)
    stretched, together = predict(model, whole), predict(model, at_once)
    np.testing.assert_allclose(stretched.success, together.success, atol=1e-5)
    assert np.array_equal(stretched.student, together.student)
    with pytest.raises(InputError, match="not read"):
        Reader(model).read(next(batch for batch in whole.batches(3) if batch.after is not None))


def test_whole_histories_are_for_those_that_can_read_them() -> None:
    check_window("dkt", "all")
    with pytest.raises(InputError, match="counts, dkt"):
        check_window("simplekt", "all")
