"""Those that train one model together: each has a share of every batch, and what they find is added up.

Every worker goes through the same whole batches, of which it takes its own rows: how much there is of the whole, and
what is drawn at random for it, all of them know without asking. What one has to be told by the others is a sum: of
gradients, of weights, of what is said of validation students.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
import torch.distributed as dist
from torch import Tensor
from torch.optim import Optimizer

from tsdr.devices import RandomState, random_state, set_random_state
from tsdr.sequences import Batch


class Team:
    """A worker that trains with others or, as here, alone: then every sum is what it has itself."""

    rank = 0
    size = 1

    @property
    def first(self) -> bool:
        """Whether this is the one that writes what all have come to."""
        return self.rank == 0

    def sum(self, values: Tensor) -> Tensor:
        """The sum over the workers of what each has."""
        return values

    def add_up(self, optimiser: Optimizer) -> None:
        """Put in place of the gradients that an optimiser is to go by their sums over the workers."""

    @contextmanager
    def together(self) -> Iterator[None]:
        """Random numbers that are drawn meanwhile are the same for every worker."""
        yield

    def draw_apart(self, shuffle: torch.Generator) -> None:
        """Random numbers are from now on a worker's own, by its rank and by where the shuffling of batches stands."""

    def random_state(self) -> RandomState:
        """Where the random numbers that are drawn together stand."""
        return random_state()

    def set_random_state(self, state: RandomState) -> None:
        """Go on with them from there."""
        set_random_state(state)


ALONE = Team()


class Workers(Team):
    """The processes of torch's process group, which is there already; what each computes is on a device."""

    def __init__(self, device: torch.device) -> None:
        self.rank, self.size, self.device = dist.get_rank(), dist.get_world_size(), device
        self._shared = random_state()

    def sum(self, values: Tensor) -> Tensor:
        """By one exchange, on the device that the process group can reach."""
        total = values.to(self.device, copy=True)
        dist.all_reduce(total)
        return total.to(values.device)

    def add_up(self, optimiser: Optimizer) -> None:
        """By one exchange of all of them; one that no worker has a gradient of is left without."""
        parameters = (parameter for group in optimiser.param_groups for parameter in group["params"])
        learned = [parameter for parameter in parameters if parameter.requires_grad]
        found = [torch.zeros_like(one) if one.grad is None else one.grad for one in learned]
        there = torch.tensor([float(one.grad is not None) for one in learned], device=self.device)
        total = self.sum(torch.cat([*(gradient.flatten() for gradient in found), there]))
        *sums, there = total.split([*(one.numel() for one in learned), len(learned)])
        for parameter, gradient, known in zip(learned, sums, there.tolist(), strict=True):
            parameter.grad = gradient.view_as(parameter) if known else None

    @contextmanager
    def together(self) -> Iterator[None]:
        """They come from a stream of their own, which stands at the same place everywhere."""
        own = random_state()
        set_random_state(self._shared)
        try:
            yield
        finally:
            self._shared = random_state()
            set_random_state(own)

    def draw_apart(self, shuffle: torch.Generator) -> None:
        """Those of dropout: a worker draws for its own rows only."""
        content = shuffle.get_state().numpy().tobytes() + self.rank.to_bytes(8, "big")
        torch.manual_seed(int.from_bytes(hashlib.sha256(content).digest()[:8], "big"))

    def random_state(self) -> RandomState:
        """That of the common stream."""
        return self._shared

    def set_random_state(self, state: RandomState) -> None:
        """The common stream goes on from there."""
        self._shared = state


@dataclass(frozen=True)
class Share:
    """The rows of a whole batch that one worker has, in order, as a batch; all of them, where `rows` is not given."""

    whole: Batch
    batch: Batch
    rows: Tensor | None = None
    team: Team = ALONE

    @classmethod
    def all_of(cls, batch: Batch) -> "Share":
        """That of whoever is alone."""
        return cls(batch, batch)

    def of(self, whole: Tensor) -> Tensor:
        """Its rows of what there is of the whole batch [B, ...]."""
        return whole if self.rows is None else whole[self.rows]

    @property
    def own(self) -> Tensor:
        """Which of the scored answers of the whole batch are in it."""
        here = torch.zeros_like(self.whole.scored)
        here[slice(None) if self.rows is None else self.rows] = self.batch.scored
        return here[self.whole.scored]

    def spread(self, values: Tensor) -> Tensor:
        """Values [own, ...] of its scored answers as those of the whole batch's, nought where others have them."""
        if self.rows is None:
            return values
        own = self.own
        return values.new_zeros(len(own), *values.shape[1:]).index_put((own,), values)


class Sharing:
    """Takes a worker's share of batches that come one after the other; of those that go on, the rows that it had.

    Rows are dealt out one by one: those of a batch are in the order of their length.
    """

    def __init__(self, team: Team) -> None:
        self.team = team
        self._rows: Tensor | None = None

    def __call__(self, batch: Batch) -> Share:
        """The share of a batch, which may be empty."""
        if self.team.size == 1:
            return Share.all_of(batch)
        if batch.after is None or self._rows is None:
            rows, after = torch.arange(self.team.rank, len(batch), self.team.size, device=batch.mask.device), None
        else:
            rows = torch.isin(batch.after, self._rows).nonzero().squeeze(1)
            after = torch.searchsorted(self._rows, batch.after[rows])
        self._rows = rows
        own = replace(batch, after=None).map(lambda tensor: tensor[rows])
        return Share(batch, replace(own, after=after), rows, self.team)
