"""DKT: a recurrent network over answers, one output a concept."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from tsdr.backbones.contract import Backbone, only_if, register_backbone
from tsdr.backbones.dropout import Dropout
from tsdr.backbones.recurrent import States, at_steps, begun, end_of, ended_with, run_on, step_on
from tsdr.backbones.sizes import SIZES
from tsdr.errors import InputError
from tsdr.sequences import Batch


@register_backbone("dkt")
class DKT(Backbone[States]):
    """Deep knowledge tracing (Piech et al., 2015).

    h_t = LSTM(h_{t-1}, embedding of (c_t, r_t)); the answer to concept c at step t + 1 has logit
    w_c · dropout(h_t) + b_c. It knows no questions: `size` and `n_questions` change nothing.
    """

    linear = True
    can_read_skips = True

    def __init__(
        self,
        n_concepts: int,
        n_questions: int,
        *,
        d: int = 64,
        dropout: float = 0.05,
        size: str = "paper",
        skips: bool = False,
    ) -> None:
        super().__init__(n_concepts, n_questions)
        if size not in SIZES:
            raise InputError(f"there is no size {size!r}; choose from {', '.join(SIZES)}")
        self.options = {"d": d, "dropout": dropout, **only_if(skips)}
        self.responses = 3 if skips else 2
        self.interaction = nn.Embedding(self.responses * n_concepts, d)
        self.lstm = nn.LSTM(d, d, batch_first=True)
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(d, n_concepts)

    @property
    def slim_options(self) -> dict[str, Any]:
        """Half as wide."""
        return {"d": max(1, self.options["d"] // 2)}

    def encode(self, batch: Batch) -> States:
        """One pass of the LSTM over the answers."""
        return self.go_on(begun(self.lstm, batch.mask.shape[0], batch.mask.device), batch)

    def go_on(self, past: States, batch: Batch) -> States:
        """The same, from the states at the end of the past."""
        return run_on(
            self.lstm, past, self.interaction(self.responses * batch.concept + batch.response), batch.mask.sum(1)
        )

    def state_of(self, history: States) -> dict[str, Tensor]:
        """The states at the end."""
        hidden, cell = end_of(self.lstm, history)
        return {"hidden": hidden, "cell": cell}

    def from_state(self, state: Mapping[str, Tensor]) -> States:
        """The same, as a history."""
        return ended_with(state["hidden"], state["cell"])

    def retrieve(
        self, history: States, concept: Tensor, question: Tensor | None = None, steps: Tensor | None = None
    ) -> Tensor:
        """The hidden state before the step, whatever the target."""
        if steps is None:
            steps = torch.arange(history.steps, device=concept.device)[None]
        return at_steps(history, steps)[:, :, None].expand(-1, -1, concept.shape[2], -1)

    def answer_rows(self, history: States, concept: Tensor, question: Tensor | None, steps: Tensor) -> Tensor:
        """The outputs of the target concepts: all of them at once, or, where few are asked, only theirs."""
        state = self.dropout(at_steps(history, steps))
        if 4 * concept.shape[2] > self.n_concepts:
            return self.output(state).gather(2, concept)
        weights = nn.functional.embedding(concept, self.output.weight)
        return (weights * state[:, :, None]).sum(-1) + self.output.bias[concept]

    def summary(self, history: States) -> Tensor:
        """The hidden state before each step."""
        return history.hidden[:, :-1].detach()

    def append(self, history: States, concept: Tensor, question: Tensor, response: Tensor) -> States:
        """One more step of the LSTM."""
        return step_on(self.lstm, history, self.interaction(self.responses * concept + response))

    def steps_of(self, history: States) -> int:
        """The steps of the history."""
        return history.steps
