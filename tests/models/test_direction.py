"""Mastery that moves the wrong way is found, and is what a student who is observed would see."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import tsdr
from served import random_model
from tsdr import TrainingOptions
from tsdr.models.direction import direction_of
from tsdr.models.model import Model


@pytest.mark.parametrize(("name", "window"), [("dkt", "all"), ("simplekt", 8)])
def test_it_is_the_change_that_sessions_see(name: str, window: int | str) -> None:
    model = random_model(name, window)  # type: ignore[arg-type]
    found = direction_of(model, at_once=4)
    assert found.answers == (20 if window == "all" else 7)
    for place in (0, 10):
        for answered, correct in (("right", 1), ("wrong", 0)):
            session, concept = model.session(), model.concepts[place]
            seen = [session.mastery()[concept]]
            for _ in range(found.answers):
                session.observe(None, concept, correct)
                seen.append(session.mastery()[concept])
            assert found.change[answered][place] == pytest.approx(np.mean(seen[1:]) - seen[0], abs=1e-5)  # type: ignore[index]


def test_concepts_that_go_astray_are_counted_and_weighted() -> None:
    """Counts by which right answers help and wrong ones do not, but in one concept, which is logged often."""
    model = random_model("counts", "all")
    backbone = model.backbone
    with torch.no_grad():
        for effects in backbone.parameters():
            effects.zero_()
        backbone.get_parameter("slope").copy_(torch.tensor([1.0, -1.0]))
        backbone.get_parameter("concept_slope.weight")[3] = torch.tensor([0.0, 1.5])
    answers = tuple(30 if concept == 3 else 10 for concept in range(11))
    found = direction_of(Model(replace(model.bundle, training_answers=answers)))
    assert found.any_astray
    assert found.astray("right").concepts == 0
    wrong = found.astray("wrong")
    assert (wrong.concepts, wrong.among, wrong.worst) == (1, 11, "c03")
    assert wrong.logged_share == pytest.approx(30 / 130)
    steps = 1 / (1 + np.exp(-0.5 * np.log1p(np.arange(21))))
    assert wrong.by == wrong.worst_by == pytest.approx(steps[1:].mean() - 0.5, abs=1e-6)
    assert found.astray("wrong", found.often).share == 1
    said = " ".join(found.sentences())
    assert "Right answers lower mastery of 0 of 11 concepts." in said
    assert "Wrong answers raise mastery of 1 of 11 concepts (9.1%; 23.1% weighted by how often they are logged)" in said


@pytest.mark.parametrize("backbone", ["counts", "hybrid"])
def test_what_is_fitted_by_default_moves_the_right_way(backbone: str) -> None:
    """By tsdr, from the latest answers of long histories, of which none is a first."""
    log = tsdr.simulate(students=80, questions=60, concepts=6, seed=3).log
    training = TrainingOptions(device="cpu", max_epochs=5, learning_rate=0.01)
    found = direction_of(tsdr.fit(log, backbone=backbone, method="tsdr", window=20, training=training))
    for answered in ("right", "wrong"):
        assert found.astray(answered, found.often).concepts == 0
