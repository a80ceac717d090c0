"""The logistic model on counts: against a plain loop, at its optimum, and standardised over questions."""

import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import torch

import tsdr
from conftest import RealLogs, random_batch
from tsdr import Batch, Log, Sequences, TrainingOptions, build_backbone
from tsdr.backbones.contract import tensors_in
from tsdr.backbones.counting import HALF_LIVES
from tsdr.backbones.counts import FREE_RIGHT, FREE_WRONG, Counts
from tsdr.backbones.predicting import predict
from tsdr.debias.building import new_objective
from tsdr.methods import NAIVE_OPTIONS, options_of
from tsdr.metrics import auc
from tsdr.sequences import SKIPPED
from tsdr.training.trainer import fit

TRAINING = TrainingOptions(device="cpu", max_epochs=2, stop_by="auc")


def counts(concepts: int = 11, questions: int = 13, *, skips: bool = False) -> Counts:
    torch.manual_seed(0)
    model = build_backbone("counts", n_concepts=concepts, n_questions=questions, **({"skips": True} if skips else {}))
    assert isinstance(model, Counts)
    model.average.uniform_(0, 1)
    if skips:
        model.expected.copy_(torch.tensor([0.3, 0.7, -0.4]))
    return model.eval()


def told_by(model: Counts, past: list[tuple[int, int, int]]) -> list[list[float]]:
    """What each event counts for: right, wrong and, where skips are read, skipped as too easy and as too hard."""
    found = []
    for place, (concept, question, response) in enumerate(past):
        told = [float(response == 1), float(response == 0)]
        if model.reads_skips:
            same = [r for c, _, r in past[:place] if c == concept]
            bias, of_right, of_wrong = model.expected.tolist()
            logit = bias + float(model.ease_of_concept[concept] + model.ease_of_question[question])
            logit += of_right * math.log1p(same.count(1)) + of_wrong * math.log1p(same.count(0))
            easy = round(128 / (1 + math.exp(-logit))) / 128
            told += [easy, 1 - easy] if response == SKIPPED else [0.0, 0.0]
        found.append(told)
    return found


def by_hand(model: Counts, past: list[tuple[int, int, int]], concept: int, question: int) -> float:
    """The logit of a question, term by term."""

    def value(name: str) -> np.ndarray:
        return model.get_parameter(name).detach().double().numpy()

    told = np.array(told_by(model, past)).reshape(len(past), model.kinds)
    same, asked = (np.array([e[place] == of for e in past], dtype=bool) for place, of in ((0, concept), (1, question)))
    in_concept = told[same].sum(0)
    right, wrong = in_concept[:2].astype(int)
    logs = np.log1p(in_concept)
    logit = (
        value("bias")
        + value("concept.weight")[concept, 0]
        + logs @ (value("slope") + value("concept_slope.weight")[concept])
    )
    free = value("free.weight").reshape(FREE_RIGHT + 1, FREE_WRONG + 1)
    logit += free[min(right, FREE_RIGHT), min(wrong, FREE_WRONG)]
    overall = list(np.log1p(told.sum(0)))
    ago = np.arange(len(past))[::-1]  # in events
    for half_life in HALF_LIVES:
        overall += list(np.log1p(0.5 ** (ago / half_life) @ told))
    all_right, all_wrong = told.sum(0)[:2]
    overall.append((all_right + 1) / (all_right + all_wrong + 2))
    for answer in (1, 0):
        ease = [float(model.ease_of_concept[c] + model.ease_of_question[q]) for c, q, r in past if r == answer]
        overall.append(sum(ease) / (1 + len(ease)))
    differs = np.array(overall) - model.average.double().numpy()
    logit += differs @ (value("overall") + logs @ value("cross")) + value("question.weight")[question, 0]
    return float(logit + np.log1p(told[asked].sum(0)) @ value("question_slope"))


def test_every_logit_is_what_the_formula_says() -> None:
    agrees(counts(), random_batch())


def test_so_it_is_where_skips_are_read() -> None:
    batch = random_batch(steps=14)
    skipped = torch.rand(batch.mask.shape, generator=torch.Generator().manual_seed(1)) < 0.4
    agrees(counts(skips=True), replace(batch, response=batch.response.masked_fill(skipped, SKIPPED)))


def agrees(model: Counts, batch: Batch) -> None:
    logits = model(batch).detach()
    for row in range(len(batch)):
        past: list[tuple[int, int, int]] = []
        for step in range(int(batch.mask[row].sum())):
            concept, question, response = (
                int(getattr(batch, name)[row, step]) for name in ("concept", "question", "response")
            )
            assert float(logits[row, step]) == pytest.approx(by_hand(model, past, concept, question), abs=1e-5)
            past.append((concept, question, response))


def test_answers_one_by_one_take_no_more_room_and_come_to_the_same() -> None:
    model, batch = counts(), random_batch(students=1, steps=300)
    history = model.encode(batch.map(lambda tensor: tensor[:, :0]))
    sizes = set()
    with torch.no_grad():
        whole = model.answer(model.encode(batch), torch.arange(11).expand(1, 300, -1))
        for step in range(300):
            now = model.answer(history, torch.arange(11).expand(1, 1, -1), steps=torch.tensor([[step]]))
            torch.testing.assert_close(now[:, 0], whole[:, step], atol=2e-5, rtol=0)
            history = model.append(history, *(getattr(batch, n)[:, step] for n in ("concept", "question", "response")))
            sizes.add(sum(tensor.numel() for tensor in tensors_in(history)))
    assert len(sizes) == 1


def test_an_encoded_history_goes_on_one_by_one() -> None:
    model, batch = counts(), random_batch(students=3, steps=12)
    cut = batch.map(lambda tensor: tensor[:, :8])
    lengths = cut.mask.sum(1)
    rows = torch.arange(3)
    whole = Batch.of_answers(batch.concept, batch.question, batch.correct, torch.arange(12) <= lengths[:, None])
    history = model.append(
        model.encode(cut), *(t[rows, lengths] for t in (batch.concept, batch.question, batch.correct))
    )
    every = torch.arange(11).expand(3, 1, -1)
    expected = model.answer(model.encode(whole), every, steps=lengths[:, None] + 1)
    torch.testing.assert_close(model.answer(history, every, steps=lengths[:, None] + 1), expected, atol=2e-5, rtol=0)


@pytest.fixture(scope="module")
def sequences() -> Sequences:
    return Sequences.from_log(tsdr.simulate(students=300, questions=60, concepts=6, seed=3).log, window=20)


def test_it_is_fitted_once_and_for_all(sequences: Sequences) -> None:
    train, test = sequences.select(sequences.student[:200]), sequences.select(sequences.student[200:])
    models = []
    for seed in (1, 2):
        training = TRAINING.model_copy(update={"seed": seed})
        objective = new_objective("counts", train, {}, training, NAIVE_OPTIONS)
        epochs = fit(objective, train, test, training)
        assert len(epochs) == 1, "there is nothing more to learn"
        models.append(objective.model)
    for name, tensor in models[0].state_dict().items():
        assert torch.equal(tensor, models[1].state_dict()[name]), "whatever the seed"
    found = predict(models[0], test)
    assert auc(found.success, found.correct) > 0.62


def test_no_step_of_the_weights_makes_it_better(sequences: Sequences) -> None:
    """At the optimum the slope of cross-entropy, shrinkage and price is nought along every effect."""
    model = counts(6, 60)
    model.prepare(sequences)
    assert len(model.often) == 6, "the first answers in every concept have their price"
    logits = model(sequences.batch)[sequences.batch.scored]
    labels = sequences.batch.correct[sequences.batch.scored].float()
    loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, labels) + model.penalty(sequences.batch)
    loss.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        assert float(parameter.grad.abs().max()) < 1e-5, name


def first_answers_gain(model: Counts) -> torch.Tensor:
    """How far 1 to 20 first answers, all right or all wrong, move the logit of a concept the right way on average."""
    concept = torch.arange(model.n_concepts)[:, None].expand(-1, 20)
    gains = []
    for correct in (1, 0):
        told = torch.full_like(concept, correct)
        batch = Batch.of_answers(concept, torch.full_like(concept, -1), told, torch.ones_like(told, dtype=torch.bool))
        with torch.no_grad():
            asked = concept[:, :1, None].expand(-1, 21, 1)
            logit = model.answer(model.encode(batch), asked, steps=torch.arange(21).expand(len(concept), -1))[..., 0]
        gains.append((logit[:, 1:].mean(1) - logit[:, 0]) * (2 * correct - 1))
    return torch.stack(gains)


def test_first_answers_move_mastery_the_right_way(sequences: Sequences, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless that had no price: by what is known of later answers, first wrong ones are a good sign."""

    def gain() -> torch.Tensor:
        model = counts(6, 60)
        model.prepare(sequences)
        return first_answers_gain(model)

    assert (gain() > 0).all()
    for module in ("logistic", "counts"):
        monkeypatch.setattr(f"tsdr.backbones.{module}.PRICE", 0.0)
    _, wrong = gain()
    assert (wrong < 0).all()


def test_a_concept_is_the_mean_over_its_questions_however_the_log_shows_them() -> None:
    """One easy and one hard question of a concept, the easy one asked nine times as often in one log."""
    rng = np.random.default_rng(0)
    for often, shown in ((0.5, 0.6), (0.9, 0.84)):
        easy = rng.random(1500 * 20) < often
        right = rng.random(len(easy)) < np.where(easy, 0.9, 0.3)
        columns = {
            "student": np.repeat([f"s{i}" for i in range(1500)], 20),
            "question": np.where(easy, "easy", "hard"),
            "concept": np.full(len(easy), "c"),
            "correct": right.astype(np.int8),
        }
        log = Log(pl.DataFrame(columns))
        model = tsdr.fit(log, backbone="counts", method="naive")
        assert right.mean() == pytest.approx(shown, abs=0.02)
        assert model.mastery_log(log)["mastery"].mean() == pytest.approx(0.6, abs=0.03)


def test_a_question_that_was_never_seen_is_like_no_question(sequences: Sequences) -> None:
    model = counts(6, 60)
    first = sequences.select(sequences.student[:5])
    model.prepare(first)
    seen = set(first.batch.question[first.batch.mask].tolist())
    strange = next(q for q in range(60) if q not in seen)
    history = model.encode(sequences.batch)
    shape = (*sequences.batch.mask.shape, 1)
    target = torch.zeros(shape, dtype=torch.long)
    plain, asked = model.answer(history, target), model.answer(history, target, torch.full(shape, strange))
    assert torch.equal(plain, asked)
    known = model.answer(history, target, torch.full(shape, min(seen)))
    assert not torch.allclose(plain, known)


@pytest.mark.parametrize("method", ["ipw", "tsdr"])
def test_other_methods_go_on_from_the_optimum(sequences: Sequences, method: str) -> None:
    train, test = sequences.select(sequences.student[:200]), sequences.select(sequences.student[200:])
    objective = new_objective("counts", train, {}, TRAINING, options_of(method))
    start = auc(*(getattr(predict(objective.model, test), name) for name in ("success", "correct")))
    assert fit(objective, train, test, TRAINING)[-1].best_score > start - 0.01


def test_real_logs_are_fitted_beyond_the_means(real_logs: RealLogs) -> None:
    """Slepemapy's sample: the mean over concepts reaches 0.60 there, and dkt 0.62."""
    sequences = Sequences.from_log(real_logs.read("slepemapy_first"))
    split = tsdr.Folds.by_student(sequences.student, 5)[0]
    model = counts(len(sequences.vocabulary.concepts), len(sequences.vocabulary.questions))
    model.prepare(sequences.select(split.train))
    found = predict(model, sequences.select(split.test))
    assert auc(found.success, found.correct) > 0.645
