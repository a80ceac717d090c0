"""DKT: a recurrent network over answers, one output a concept."""

from collections.abc import Mapping
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
    can be computed from, and `first` [B, d] the cell state that it began with. There is neither once the cell states
    are those of the sequences' ends.
    """

    hidden: Tensor
    cell: Tensor
    length: Tensor
    answered: Tensor | None = None
    first: Tensor | None = None


@register_backbone("dkt")
class DKT(Backbone[DKTHistory]):
    """Deep knowledge tracing (Piech et al., 2015).

    h_t = LSTM(h_{t-1}, embedding of (c_t, r_t)); the answer to concept c at step t + 1 has logit
    w_c · dropout(h_t) + b_c. It knows no questions: `size` and `n_questions` change nothing.
    """

    linear = True

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
        nothing = torch.zeros(batch.mask.shape[0], self.lstm.hidden_size, device=batch.mask.device)
        return self._run(nothing, nothing, batch)

    def go_on(self, past: DKTHistory, batch: Batch) -> DKTHistory:
        """The same, from the states at the end of the past."""
        end = self.state_of(past)
        return self._run(end["hidden"], end["cell"], batch)

    def state_of(self, history: DKTHistory) -> dict[str, Tensor]:
        """The states at the end."""
        return {"hidden": self._at(history, history.length[:, None])[:, 0], "cell": self._cell(history)}

    def from_state(self, state: Mapping[str, Tensor]) -> DKTHistory:
        """The same, as a history."""
        hidden = state["hidden"]
        return DKTHistory(hidden[:, None], state["cell"], torch.zeros_like(hidden[:, 0], dtype=torch.long))

    def _run(self, hidden: Tensor, cell: Tensor, batch: Batch) -> DKTHistory:
        answered, last = 2 * batch.concept + batch.response, cell
        before = hidden[:, None]
        if answered.shape[1]:
            begin = hidden[None].contiguous(), cell[None].contiguous()
            after, (_, end) = self.lstm(self.interaction(answered), begin)
            before, last = torch.cat([before, after], 1), end[0]
        return DKTHistory(before, last, batch.mask.sum(1), answered, cell)

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
        end = self.state_of(history)
        inputs = self.interaction(2 * concept + response)[:, None]
        _, (hidden, cell) = self.lstm(inputs, (end["hidden"][None].contiguous(), end["cell"][None].contiguous()))
        return self.from_state({"hidden": hidden[0], "cell": cell[0]})

    def steps_of(self, history: DKTHistory) -> int:
        """The steps of the history."""
        return history.hidden.shape[1] - 1

    def _cell(self, history: DKTHistory) -> Tensor:
        """The cell state after the last interaction of each sequence."""
        answered, length = history.answered, history.length
        if answered is None or history.first is None or torch.compiler.is_exporting():  # then only asked for answers
            return history.cell
        if bool((length == answered.shape[1]).all()):
            return history.cell
        inputs, begin = self.interaction(answered), (history.hidden[:, 0], history.first)
        packed = pack_padded_sequence(inputs, length.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False)
        _, (_, cell) = self.lstm(packed, tuple(state[None].contiguous() for state in begin))
        return torch.where((length > 0)[:, None], cell[0], history.first)  # packing wants one step at least

    def _at(self, history: DKTHistory, steps: Tensor) -> Tensor:
        """The hidden states [B, M, d] before steps [B, M], by the rows of one long table: faster than to gather."""
        sequences, rows, d = history.hidden.shape
        first = rows * torch.arange(sequences, device=steps.device)[:, None]
        at = first + torch.minimum(steps, history.length[:, None])
        return history.hidden.reshape(-1, d).index_select(0, at.flatten()).view(*at.shape, d)
