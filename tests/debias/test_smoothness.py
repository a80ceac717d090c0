from dataclasses import replace

import numpy as np
import pytest
import torch

from conftest import random_batch
from tsdr import build_backbone
from tsdr.debias.smoothness import smoothness
from tsdr.parallel import Share


@pytest.mark.parametrize("name", ["dkt", "akt"])
def test_it_is_the_mean_squared_step_of_states_for_one_target(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = build_backbone(name, n_concepts=11, n_questions=13, d=16).eval()
    batch = random_batch()
    history = model.encode(batch)
    concept = torch.tensor([[[3]], [[0]], [[7]], [[10]]])
    monkeypatch.setattr(torch, "randint", lambda *a, **k: concept)
    every = model.retrieve(history, concept.expand(4, 9, 1))[:, :, 0]
    steps = [
        float((every[i, t] - every[i, t - 1]).square().mean().detach())
        for i in range(4)
        for t in range(2, 9)
        if batch.mask[i, t]
    ]
    exact = float(smoothness(model, history, Share.all_of(batch), "all").detach())
    assert exact == pytest.approx(np.mean(steps), rel=1e-4)
    torch.manual_seed(0)
    draws = [float(smoothness(model, history, Share.all_of(batch), 2).detach()) for _ in range(1500)]
    assert abs(np.mean(draws) - exact) < 4 * np.std(draws) / np.sqrt(len(draws))


def test_only_neighbours_that_are_both_scored_count() -> None:
    model = build_backbone("dkt", n_concepts=11, n_questions=13, d=16).eval()
    batch = random_batch()
    scored = batch.scored.clone()
    scored[:, :3], scored[0, 6] = False, False
    share = Share.all_of(replace(batch, scored=scored))
    history = model.encode(batch)
    every = model.retrieve(history, torch.zeros(4, 9, 1, dtype=torch.long))[:, :, 0].detach()
    steps = [
        float((every[i, t] - every[i, t - 1]).square().mean())
        for i in range(4)
        for t in range(1, 9)
        if scored[i, t] and scored[i, t - 1]
    ]
    exact = float(smoothness(model, history, share, "all").detach())
    assert exact == pytest.approx(np.mean(steps), rel=1e-4)
    torch.manual_seed(0)
    draws = [float(smoothness(model, history, share, 2).detach()) for _ in range(1500)]
    assert abs(np.mean(draws) - exact) < 4 * np.std(draws) / np.sqrt(len(draws))


def test_a_state_that_does_not_move_is_smooth() -> None:
    model = build_backbone("dkt", n_concepts=11, n_questions=13, d=16)
    history = model.encode(random_batch())
    still = replace(history, hidden=torch.ones_like(history.hidden))
    assert float(smoothness(model, still, Share.all_of(random_batch()), "all")) == 0
    moving = smoothness(model, history, Share.all_of(random_batch()), 3)
    moving.backward()
    assert model.get_parameter("lstm.weight_ih_l0").grad is not None
