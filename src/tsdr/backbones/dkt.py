"""DKT: a recurrent network over answers, one output a concept."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from tsdr.backbones.contract import Backbone, register_backbone
from tsdr.backbones.dropout import Dropout
from tsdr.backbones.sizes import SIZES
from tsdr.errors import InputError
from tsdr.sequences import Batch


@dataclass(frozen=True)
class DKTHistory:
    """The LSTM's hidden state before each step, [B, T + 1, d], and its cell state after all T steps, [B, d].

    Beyond the end of a shorter sequence neither is of any use; `answered` [B, T] is what the cell state at its own end
    can be computed from. There is none once the cell states are those of the sequences' ends.
    """

    hidden: Tensor
    cell: Tensor
    length: Tensor
    answered: Tensor | None = None


@register_backbone("dkt")
class DKT(Backbone[DKTHistory]):
    """Deep knowledge tracing (Piech et al., 2015).

    h_t = LSTM(h_{t-1}, embedding of (c_t, r_t)); the answer to concept c at step t + 1 has logit
    w_c · dropout(h_t) + b_c. It knows no questions: `size` and `n_questions` change nothing.
    """

    def __init__(
        self, n_concepts: int, n_questions: int, *, d: int = 64, dropout: float = 0.05, size: str = "paper"
    ) -> None:
        super().__init__(n_concepts, n_questions)
        if size not in SIZES:
            raise InputError(f"there is no size {size!r}; choose from {', '.join(SIZES)}")
        self.options = {"d": d, "dropout": dropout}
        self.interaction = nn.Embedding(2 * n_concepts, d)
        self.lstm = nn.LSTM(d, d, batch_first=True)
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(d, n_concepts)

    def encode(self, batch: Batch) -> DKTHistory:
        """One pass of the LSTM over the answers, padding and all: to pack the sequences would take thrice as long."""
        answered = 2 * batch.concept + batch.response
        hidden = torch.zeros(*answered.shape[:1], 0, self.lstm.hidden_size, device=answered.device)
        cell = hidden.new_zeros(*answered.shape[:1], self.lstm.hidden_size)
        if answered.shape[1]:
            hidden, (_, last) = self.lstm(self.interaction(answered))
            cell = last[0]
        return DKTHistory(nn.functional.pad(hidden, (0, 0, 1, 0)), cell, batch.mask.sum(1), answered)

    def retrieve(
        self, history: DKTHistory, concept: Tensor, question: Tensor | None = None, steps: Tensor | None = None
    ) -> Tensor:
        """The hidden state before the step, whatever the target."""
        if steps is None:
            steps = torch.arange(self.steps_of(history), device=concept.device)[None]
        state = self._at(history, steps)
        return state[:, :, None].expand(-1, -1, concept.shape[2], -1)

    def answer_rows(self, history: DKTHistory, concept: Tensor, question: Tensor | None, steps: Tensor) -> Tensor:
        """The outputs of the target concepts: all of them at once, or, where few are asked, only theirs."""
        state = self.dropout(self._at(history, steps))
        if 4 * concept.shape[2] > self.n_concepts:
            return self.output(state).gather(2, concept)
        weights = nn.functional.embedding(concept, self.output.weight)
        return (weights * state[:, :, None]).sum(-1) + self.output.bias[concept]

    def summary(self, history: DKTHistory) -> Tensor:
        """The hidden state before each step."""
        return history.hidden[:, :-1].detach()

    def append(self, history: DKTHistory, concept: Tensor, question: Tensor, response: Tensor) -> DKTHistory:
        """One more step of the LSTM."""
        last = self._at(history, history.length[:, None])
        inputs = self.interaction(2 * concept + response)[:, None]
        before = last.transpose(0, 1).contiguous(), self._cell(history)[None].contiguous()
        _, (hidden, cell) = self.lstm(inputs, before)
        grown = nn.functional.pad(history.hidden, (0, 0, 0, 1))
        rows = torch.arange(len(concept), device=concept.device)
        length = history.length + 1
        return DKTHistory(grown.index_put((rows, length), hidden[0]), cell[0], length)

    def steps_of(self, history: DKTHistory) -> int:
        """The steps of the history."""
        return history.hidden.shape[1] - 1

    def _cell(self, history: DKTHistory) -> Tensor:
        """The cell state after the last interaction of each sequence."""
        answered, length = history.answered, history.length
        if answered is None or bool((length == answered.shape[1]).all()):
            return history.cell
        inputs = self.interaction(answered)
        packed = pack_padded_sequence(inputs, length.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False)
        _, (_, cell) = self.lstm(packed)
        return cell[0] * (length > 0)[:, None]  # packing wants one step at least; an empty history has none

    def _at(self, history: DKTHistory, steps: Tensor) -> Tensor:
        """The hidden states [B, M, d] before steps [B, M], by the rows of one long table: faster than to gather."""
        sequences, rows, d = history.hidden.shape
        first = rows * torch.arange(sequences, device=steps.device)[:, None]
        at = first + torch.minimum(steps, history.length[:, None])
        return history.hidden.reshape(-1, d).index_select(0, at.flatten()).view(*at.shape, d)
