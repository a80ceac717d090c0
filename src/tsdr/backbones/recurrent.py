"""A recurrent network over a history, that can be asked at any step and goes on from where it ended."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence


@dataclass(frozen=True)
class States:
    """An LSTM's hidden state before each step, [B, T + 1, d], and its cell state after all T steps, [B, d].

    Beyond the end of a shorter sequence neither is of any use; `inputs` [B, T, d] are what the cell state at its own
    end can be computed from, and `first` [B, d] the cell state that it began with. There is neither once the cell
    states are those of the sequences' ends.
    """

    hidden: Tensor
    cell: Tensor
    length: Tensor
    inputs: Tensor | None = None
    first: Tensor | None = None

    @property
    def steps(self) -> int:
        """T."""
        return self.hidden.shape[1] - 1


def begun(lstm: nn.LSTM, sequences: int, device: torch.device) -> States:
    """Before any input."""
    nothing = torch.zeros(sequences, lstm.hidden_size, device=device)
    return ended_with(nothing, nothing)


def ended_with(hidden: Tensor, cell: Tensor) -> States:
    """Sequences that ended with these states [B, d]."""
    return States(hidden[:, None], cell, torch.zeros_like(hidden[:, 0], dtype=torch.long))


def run_on(lstm: nn.LSTM, past: States, inputs: Tensor, length: Tensor) -> States:
    """One pass over inputs [B, T, d] of sequences that go on from a past.

    Padding and all: to pack the sequences would take thrice as long.
    """
    hidden, cell = end_of(lstm, past)
    before, last = hidden[:, None], cell
    if inputs.shape[1]:
        after, (_, end) = lstm(inputs, (hidden[None].contiguous(), cell[None].contiguous()))
        before, last = torch.cat([before, after], 1), end[0]
    return States(before, last, length, inputs, cell)


def step_on(lstm: nn.LSTM, past: States, inputs: Tensor) -> States:
    """One more step, of inputs [B, d]: what is kept does not grow."""
    hidden, cell = end_of(lstm, past)
    _, (hidden, cell) = lstm(inputs[:, None], (hidden[None].contiguous(), cell[None].contiguous()))
    return ended_with(hidden[0], cell[0])


def end_of(lstm: nn.LSTM, states: States) -> tuple[Tensor, Tensor]:
    """The hidden and the cell state [B, d] after the last input of each sequence."""
    return at_steps(states, states.length[:, None])[:, 0], _cell(lstm, states)


def at_steps(states: States, steps: Tensor) -> Tensor:
    """The hidden states [B, M, d] before steps [B, M], by the rows of one long table: faster than to gather."""
    sequences, rows, d = states.hidden.shape
    first = rows * torch.arange(sequences, device=steps.device)[:, None]
    at = first + torch.minimum(steps, states.length[:, None])
    return states.hidden.reshape(-1, d).index_select(0, at.flatten()).view(*at.shape, d)


def _cell(lstm: nn.LSTM, states: States) -> Tensor:
    inputs, length = states.inputs, states.length
    if inputs is None or states.first is None or torch.compiler.is_exporting():  # then only asked for answers
        return states.cell
    if bool((length == inputs.shape[1]).all()):
        return states.cell
    begin = states.hidden[:, 0], states.first
    packed = pack_padded_sequence(inputs, length.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False)
    _, (_, cell) = lstm(packed, tuple(state[None].contiguous() for state in begin))
    return torch.where((length > 0)[:, None], cell[0], states.first)  # packing wants one step at least
