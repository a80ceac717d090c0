import numpy as np
import polars as pl
import pytest
import torch

from tsdr import Log, Sequences, build_backbone
from tsdr.backbones.diskt import DisKT


def diskt(concepts: int = 4) -> DisKT:
    model = build_backbone("diskt", n_concepts=concepts, n_questions=5, d=16)
    assert isinstance(model, DisKT)
    return model


def sequences(students: int = 12, answers: int = 10, seed: int = 0) -> Sequences:
    rng = np.random.default_rng(seed)
    rows = [
        (f"s{s}", f"q{rng.integers(5)}", f"c{rng.integers(4)}", int(rng.random() < 0.7))
        for s in range(students)
        for _ in range(answers)
    ]
    return Sequences.from_log(Log(pl.DataFrame(rows, ["student", "question", "concept", "correct"], orient="row")))


def test_shares_are_those_of_the_training_split_smoothed() -> None:
    train = sequences()
    model = diskt()
    model.prepare(train)
    overall = float(train.batch.correct.double().mean())
    for concept in range(4):
        answers = train.batch.correct[train.batch.concept == concept]
        expected = (int(answers.sum()) + 5 * overall) / (len(answers) + 5)
        assert float(model.share_right[concept]) == pytest.approx(expected, abs=1e-6)


def test_contradictions_are_found_by_the_rule() -> None:
    data = sequences()
    model = diskt().eval()
    model.prepare(data)
    flags = model.encode(data.batch).extra["contradicts"]
    share = model.share_right.tolist()
    for student in range(len(data)):
        earlier: list[float] = []
        for step in range(10):
            concept, correct = int(data.batch.concept[student, step]), int(data.batch.correct[student, step])
            evidence = 0.55 * (share[concept] if correct else 1 - share[concept])
            mean = float(np.mean(earlier)) if earlier else 0.2
            assert bool(flags[student, step]) == (evidence < mean - 1e-5), (student, step)
            earlier.append(evidence)
    assert 0.1 < flags.float().mean() < 0.9


def test_contradictory_answers_are_not_read() -> None:
    """With every past answer flagged, right and wrong streams bring nothing."""
    data = sequences()
    model = diskt().eval()
    history = model.encode(data.batch)
    history.extra["contradicts"] = torch.ones_like(history.extra["contradicts"])
    target = torch.zeros(len(data), 10, 1, dtype=torch.long)
    state = model._rows(history, target, None, torch.arange(10).expand(len(data), -1))[1]
    torch.testing.assert_close(model.retrieve(history, target)[:, :, 0], state)


def test_the_penalty_is_the_mean_distance_of_the_streams() -> None:
    data = sequences()
    model = diskt().eval()
    extra = model.encode(data.batch).extra
    distance = (extra["right"] - extra["wrong"]).norm(dim=-1).mean()
    torch.testing.assert_close(model.penalty(data.batch), 0.001 * distance, atol=1e-6, rtol=1e-4)


def test_training_draws_how_much_an_answer_says() -> None:
    data = sequences()
    model = diskt().train()
    torch.manual_seed(0)
    first, second = (model.encode(data.batch).extra["contradicts"] for _ in range(2))
    assert not torch.equal(first, second)
