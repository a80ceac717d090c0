"""The skeleton of whatever learns, and how the trainer goes about it."""

from collections.abc import Iterator

import pytest
import torch
from torch import nn
from torch.optim import Optimizer

import tsdr
from conftest import random_batch
from tsdr import Batch, Sequences, TrainingOptions, build_backbone
from tsdr.debias.imputation import Imputation
from tsdr.debias.objective import JointObjective
from tsdr.methods import NAIVE_OPTIONS, options_of
from tsdr.parallel import Team
from tsdr.training.learner import Learner
from tsdr.training.trainer import fit

TRAINING = TrainingOptions(device="cpu", max_epochs=3, patience=3)


class Model(nn.Module):
    """A number."""

    def __init__(self) -> None:
        super().__init__()
        self.options: dict[str, object] = {}
        self.value = nn.Parameter(torch.zeros(()))


class Climbing(Learner):
    """Drives its number up, and is judged by it; another one may have to climb first."""

    score_name = "height"

    def __init__(self, first: "Climbing | None" = None) -> None:
        model = Model()
        super().__init__(model, {"model": torch.optim.SGD(model.parameters(), lr=1.0)})
        self.first, self.batches = first, 0

    def settings(self) -> str:
        return "climbing"

    def step(self, batch: Batch) -> float:
        assert self.model.training
        self.batches += 1
        self.update("model", -self.model.get_parameter("value"))
        return 0.5

    def validate(self, validation: Sequences) -> float:
        return float(self.model.get_parameter("value").detach())

    def warm_up(self) -> Iterator[Learner]:
        if self.first is not None:
            yield self.first
            yield self.first
            self.batches_of_first = self.first.batches


@pytest.fixture(scope="module")
def sequences() -> Sequences:
    return Sequences.from_log(tsdr.simulate(students=20, questions=10, concepts=3).log, window=8)


def test_the_trainer_stops_by_whatever_the_learner_is_judged_by(sequences: Sequences) -> None:
    epochs = fit(Climbing(), sequences, sequences, TRAINING)
    assert [epoch.score_name for epoch in epochs] == ["height"] * 3
    assert [epoch.score for epoch in epochs] == [1.0, 2.0, 3.0], "one batch an epoch, one step up a batch"
    assert epochs[-1].best_score == 3.0
    assert {epoch.loss for epoch in epochs} == {0.5}


def test_what_has_to_learn_first_is_trained_by_the_same_loop(sequences: Sequences) -> None:
    learner = Climbing(first=Climbing())
    epochs = fit(learner, sequences, sequences, TRAINING)
    assert learner.batches_of_first == 2, "an epoch each time that it is named"
    assert len(epochs) == learner.batches == 3


def test_gradients_can_be_changed_when_they_are_complete_and_not_yet_applied() -> None:
    """What a team needs to add them up: every optimiser once a batch, all of its gradients there."""
    torch.manual_seed(0)
    model, imputation = (build_backbone("dkt", n_concepts=11, n_questions=13, d=8) for _ in range(2))
    options = options_of("tsdr-own", by_question=False)
    learner = JointObjective(model, options, TRAINING, Imputation([], imputation))
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    seen: list[Optimizer] = []

    class Stopping(Team):
        def add_up(self, optimiser: Optimizer) -> None:
            seen.append(optimiser)
            for group in optimiser.param_groups:
                assert all(parameter.grad is not None for parameter in group["params"])
                for parameter in group["params"]:
                    parameter.grad = None

    learner.team = Stopping()
    learner.step(random_batch())
    assert seen == [learner.optimisers["auxiliary"], learner.optimisers["model"]]
    assert all(torch.equal(parameter, before[name]) for name, parameter in model.named_parameters())


def test_labels_are_not_read_and_what_is_read_is_no_label() -> None:
    """Other labels, at steps that are not scored, change nothing; other responses change what comes after them."""
    batch = random_batch()
    scored = batch.scored.clone()
    scored[:, :5] = False
    context = Batch(batch.concept, batch.question, batch.response, batch.correct, scored, batch.mask)
    other = torch.where(scored, batch.correct, 1 - batch.correct)

    def learned(correct: torch.Tensor, response: torch.Tensor) -> dict[str, torch.Tensor]:
        torch.manual_seed(0)
        model = build_backbone("simplekt", n_concepts=11, n_questions=13, d=16, dropout=0.0)
        asked = Batch(context.concept, context.question, response, correct, scored, context.mask)
        JointObjective(model, NAIVE_OPTIONS, TRAINING).step(asked)
        return model.state_dict()

    plain = learned(batch.correct, batch.response)
    unscored = learned(other, batch.response)
    assert all(torch.equal(plain[name], unscored[name]) for name in plain)
    reread = learned(batch.correct, other)
    assert not all(torch.equal(plain[name], reread[name]) for name in plain)
