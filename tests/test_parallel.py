"""A team of workers comes to what one comes to alone: two real processes, beside this one."""

import os
import pickle
import socket
from dataclasses import dataclass, replace
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing
from torch import Tensor

import tsdr
from conftest import random_batch
from tsdr import Sequences, TrainingOptions, build_backbone
from tsdr.backbones.contract import backbone_class
from tsdr.debias.building import new_objective
from tsdr.debias.objective import JointObjective
from tsdr.defaults import Extent
from tsdr.methods import Method
from tsdr.paper import BACKBONES
from tsdr.parallel import Sharing, Team, Workers
from tsdr.training.epoch import Epoch
from tsdr.training.trainer import fit

WORKERS = 2
OPTIONS: dict[str, dict[str, Any]] = {
    "dkt": {"d": 8, "dropout": 0.0},
    "simplekt": {"d": 16, "heads": 2, "size": "light", "dropout": 0.0},
    "hybrid": {"d": 8, "dropout": 0.0},
}
# 60 students to learn from, 6 of them in the last batch: five batches an epoch, or more where histories are long.
TRAINING = TrainingOptions(device="cpu", max_epochs=2, batch_size=18)
CASES = [
    *((backbone, method) for backbone in OPTIONS for method in ("naive", "tsdr")),
    ("dkt", "tsdr-own:negatives=3:ask=both"),
    ("dkt", "tsdr-paper"),
    ("simplekt", "tsdr:joint=false:warm_up=2"),
]


@dataclass(frozen=True)
class Trained:
    """What a worker has after two epochs: the weights of all models, the stack, and what it told of each epoch."""

    weights: dict[str, Tensor]
    stack: list[Tensor]
    epochs: list[Epoch]
    batches: int


@dataclass(frozen=True)
class Found:
    """What one of the two processes makes of all that is asked of it."""

    cases: dict[tuple[str, str], Trained]
    whole: Trained
    again: Trained
    drawn: tuple[Tensor, ...]


@cache
def halves(window: Extent) -> tuple[Sequences, Sequences]:
    """Students to learn from, some of whom have more answers than a stretch, and others to stop by."""
    population = tsdr.Population(answers=(5, 240))
    log = tsdr.simulate(students=108, questions=40, concepts=8, seed=2, population=population).log
    sequences = Sequences.from_log(log, window=window)
    return sequences.select(sequences.student[:78]), sequences.select(sequences.student[78:])


def learned(
    backbone: str,
    method: str,
    team: type[Team],
    options: dict[str, Any] | None = None,
    training: TrainingOptions = TRAINING,
    **more: Any,
) -> Trained:
    """What one of a team learns, or one alone."""
    train, held_out = halves("all" if backbone_class(backbone).linear else 30)
    debias = Method.parse(method).options()
    objective = new_objective(backbone, train, options or OPTIONS[backbone], training, debias, held_out)
    objective.team = team()
    weights: dict[str, Tensor] = {}

    def keep(epoch: Epoch) -> None:
        for name, model in objective.models().items():
            weights.update({f"{name}.{key}": value.clone() for key, value in model.state_dict().items()})

    epochs = fit(objective, train, held_out, training, on_epoch=keep, **more)
    imputation = objective.imputation if isinstance(objective, JointObjective) else None
    stack = [] if imputation is None else [imputation.stack.slope, imputation.stack.bias]
    batches = sum(1 for _ in train.batches(training.batch_size, torch.Generator().manual_seed(0)))
    return Trained(weights, stack, epochs, batches)


class OnCpu(Workers):
    """The two processes."""

    def __init__(self) -> None:
        super().__init__(torch.device("cpu"))


def work(folder: Path) -> Found:
    """Every case; three epochs with dropout, and the last of them again, from a checkpoint; and what is drawn."""
    cases = {case: learned(*case, OnCpu) for case in CASES}
    of_dropout: dict[str, Any] = {
        "options": {"d": 8, "dropout": 0.5},
        "checkpoint": folder / f"{dist.get_rank()}.checkpoint",
    }
    three = TRAINING.model_copy(update={"max_epochs": 3})
    learned("dkt", "tsdr", OnCpu, **of_dropout)
    of_dropout["checkpoint"] = folder / "0.checkpoint"
    again = learned("dkt", "tsdr", OnCpu, training=three, resume=True, **of_dropout)
    whole = learned("dkt", "tsdr", OnCpu, training=three, **of_dropout)
    return Found(cases, whole, again, drawn())


def drawn() -> tuple[Tensor, ...]:
    """Own and common random numbers, and two gradients that are added up: the second is one worker's alone."""
    torch.manual_seed(5)
    team = OnCpu()
    team.draw_apart(torch.Generator().manual_seed(1))
    own = torch.rand(4)
    with team.together():
        common = torch.rand(4)
    first, second, none = (torch.nn.Parameter(torch.zeros(2)) for _ in range(3))
    first.grad = torch.tensor([1.0, 2.0 + team.rank])
    if team.rank:
        second.grad = torch.tensor([3.0, 4.0])
    team.add_up(torch.optim.SGD([first, second, none], lr=1.0))
    assert first.grad is not None
    assert second.grad is not None
    assert none.grad is None, "what nobody has a gradient of is not moved"
    return own, common, first.grad, second.grad


@pytest.fixture(scope="module")
def by_team(tmp_path_factory: pytest.TempPathFactory) -> list[Found]:
    """What each of two processes, joined by gloo, finds."""
    folder = tmp_path_factory.mktemp("team")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(_join, (port, folder), nprocs=WORKERS)  # type: ignore[attr-defined]
    assert [path.name for path in folder.glob("*.checkpoint")] == ["0.checkpoint"], "the first one alone writes"
    return [pickle.loads((folder / f"{rank}.found").read_bytes()) for rank in range(WORKERS)]


def _join(rank: int, port: int, folder: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=WORKERS)
    (folder / f"{rank}.found").write_bytes(pickle.dumps(work(folder)))
    dist.barrier()
    os._exit(0)  # a thread of gloo's that outlives what it works for would end in an abort


@pytest.mark.parametrize("case", CASES, ids=" by ".join)
def test_two_workers_come_to_the_weights_of_one(case: tuple[str, str], by_team: list[Found]) -> None:
    alone = learned(*case, Team)
    first, second = (found.cases[case] for found in by_team)
    assert len(alone.epochs) * alone.batches >= 10
    for name, weight in alone.weights.items():
        torch.testing.assert_close(first.weights[name], weight, atol=1e-5, rtol=0)
        assert torch.equal(first.weights[name], second.weights[name]), "workers do not drift apart"
    for one, other in zip(alone.stack, first.stack, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)
    for of_one, of_first, of_second in zip(alone.epochs, first.epochs, second.epochs, strict=True):
        assert (of_first.loss, of_first.score) == (of_second.loss, of_second.score), "all decide alike"
        assert (of_first.loss, of_first.score) == pytest.approx((of_one.loss, of_one.score), abs=1e-5)


def test_a_team_goes_on_from_what_its_first_worker_wrote(by_team: list[Found]) -> None:
    """With dropout, of which each worker has its own."""
    first, second = by_team
    assert [epoch.score for epoch in first.again.epochs] == [epoch.score for epoch in first.whole.epochs]
    for name, weight in first.whole.weights.items():
        assert torch.equal(first.again.weights[name], weight)
        assert torch.equal(second.again.weights[name], weight), "whatever is drawn, there is one model"


def test_what_a_team_draws_together_is_what_one_would_have_drawn_alone(by_team: list[Found]) -> None:
    first, second = (found.drawn for found in by_team)
    torch.manual_seed(5)
    assert torch.equal(first[1], torch.rand(4))
    assert torch.equal(first[1], second[1])
    assert not torch.equal(first[0], second[0]), "dropout is each worker's own"
    for _, _, of_both, of_second in (first, second):
        assert of_both.tolist() == [2.0, 5.0]
        assert of_second.tolist() == [3.0, 4.0]


class OneOf(Team):
    """A worker of several that never ask each other."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size


@pytest.mark.parametrize("size", [2, 3, 7])
def test_every_row_is_in_one_share_and_goes_on_where_it_was(size: int) -> None:
    """Long histories come in stretches, of fewer rows each; the state a row goes on from has to be its own."""
    population = tsdr.Population(answers=(2, 900))
    log = tsdr.simulate(students=30, questions=20, concepts=4, seed=3, population=population).log
    sequences = Sequences.from_log(log, window="all", minimum=2)
    sharings = [Sharing(OneOf(rank, size)) for rank in range(size)]
    read: list[list[Tensor]] = [[] for _ in range(size)]
    for whole in sequences.batches(8, torch.Generator().manual_seed(0)):
        shares = [sharing(whole) for sharing in sharings]
        rows = torch.cat([share.rows for share in shares if share.rows is not None])
        assert rows.sort().values.tolist() == list(range(len(whole)))
        for number, share in enumerate(shares):
            assert whole.place is not None
            assert share.batch.place is not None
            assert torch.equal(share.batch.place, share.of(whole.place))
            begun = share.batch.place[:, 0]
            if share.batch.after is not None:
                before = read[number][-1][share.batch.after]
                assert torch.equal(begun, before + 200), "a stretch goes on where the one before it ended"
            else:
                assert whole.after is None
            read[number].append(begun)
        every = torch.cat([share.spread(share.batch.place[share.batch.scored])[None] for share in shares])  # type: ignore[index]
        assert torch.equal(every.sum(0), whole.place[whole.scored])  # type: ignore[index]


@pytest.mark.parametrize("name", [*BACKBONES, "counts", "hybrid"])
def test_penalties_of_parts_add_up_to_that_of_the_whole(name: str) -> None:
    model = build_backbone(name, n_concepts=11, n_questions=13).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    whole = random_batch(students=5)
    whole = replace(whole, scored=whole.scored & (torch.rand(whole.scored.shape) < 0.7))
    parts = [whole.map(itemgetter(rows)) for rows in (slice(0, 1), slice(1, 5), slice(5, 5))]
    shares = [model.penalty_share(part, whole) for part in parts]
    added = sum(
        share * float(model.penalty(part).detach()) for share, part in zip(shares, parts, strict=True) if len(part)
    )
    assert added == pytest.approx(float(model.penalty(whole).detach()), rel=1e-5)
