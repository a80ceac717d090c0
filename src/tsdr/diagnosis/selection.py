"""A model of which concept is logged next, independent of any knowledge-tracing model, and how well it holds."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from tsdr.backbones.scored import of_scored
from tsdr.devices import device_of
from tsdr.resampling import Array
from tsdr.sequences import Batch, Sequences
from tsdr.training.learner import Learner
from tsdr.training.options import TrainingOptions
from tsdr.training.trainer import fit

# [steps, concepts] of so many sequences at a time: 22 MB at 50 steps and 1,769 concepts.
SELECTION_BATCH = 64
# Answers that it has in view where a model has more: what was selected long ago tells little of what is now.
SELECTION_WINDOW = 200
# So many answers more than it has count for each concept, so that no propensity is nought; validation students say
# which. Too large a prior makes plain frequencies look worse than they are, and any model better.
PRIORS = (0.03, 0.1, 0.3, 1.0, 3.0)
# Beyond these, one answer more to a concept, or one step longer ago, is taken to make no difference.
MOST_ANSWERS, LONGEST_AGO = 10, 15
# Bounds of |C| p̂, how often a concept is expected relative to uniform exposure: propensities span decades.
EXPOSURE_BOUNDS = (0.01, 0.03, 0.1, 0.3, 0.6, 1.0, 1.6, 3.0, 10.0, 30.0, 100.0)
TRAINING = TrainingOptions(learning_rate=3e-3, weight_decay=1e-3, patience=4, max_epochs=40)
TABLE_RATE = 2e-2


class SelectionModel(nn.Module):
    """p̂(c | history) = softmax over concepts of  b_c + w_c · h + u(right_c, wrong_c) + v(since_c, last_c).

    h is a GRU's state after (concept, answer) of every earlier interaction. u and v are tables that all concepts
    share: how many right and wrong answers the student has given in c, and how long ago the last one was and whether
    it was right, or an offer that was skipped; both are 0 for a concept that the history does not have. They are what
    skips and recommenders go by, and too much for a GRU to find in a small log. The model starts from the marginal
    frequencies of concepts: b their logarithms, all else 0.
    """

    def __init__(self, frequency: Tensor, d: int = 32, *, skips: bool = False) -> None:
        super().__init__()
        self.n_concepts = len(frequency)
        self.options = {"d": d}
        self.responses = 3 if skips else 2
        self.interaction = nn.Embedding(self.responses * self.n_concepts, d)
        self.gru = nn.GRU(d, d, batch_first=True)
        self.dropout = nn.Dropout(0.5)  # the tables are to learn what they can before the GRU learns students by heart
        self.output = nn.Linear(d, self.n_concepts)
        self.counts = nn.Parameter(torch.zeros(MOST_ANSWERS + 1, MOST_ANSWERS + 1))
        self.since = nn.Parameter(torch.zeros(LONGEST_AGO + 1, self.responses))
        self.marginal: Tensor
        self.register_buffer("marginal", frequency)
        nn.init.zeros_(self.output.weight)
        with torch.no_grad():
            self.output.bias.copy_(frequency.log())

    def forward(self, batch: Batch) -> Tensor:
        """log p̂ [scored steps, C] of every concept, from interactions before the step only."""
        after, _ = self.gru(self.interaction(self.responses * batch.concept + batch.response))
        before = nn.functional.pad(after, (0, 0, 1, 0))[:, :-1]
        scored = batch.scored
        record = self._record(batch)[scored]
        met = batch.concept[:, None, :].expand(-1, batch.concept.shape[1], -1)[scored]
        logits = self.output(self.dropout(before[scored])).scatter_add(1, met, record)
        return logits.log_softmax(-1)

    def _record(self, batch: Batch) -> Tensor:
        """u + v [B, T, T] that step s gives to its concept at a later step t: 0 unless s is the latest one with it.

        At most one s of a concept counts for a t, and the counts up to s are those up to t: the cost grows with the
        square of the steps, and not with the number of concepts.
        """
        steps = torch.arange(batch.concept.shape[1], device=batch.concept.device)
        same = batch.concept[:, :, None] == batch.concept[:, None, :]  # [B, s, s']
        until = same & (steps[None, :] <= steps[:, None])
        right, wrong = ((until & (batch.response == kind)[:, None, :]).sum(2) for kind in (1, 0))
        later = torch.where(same & (steps[None, :] > steps[:, None]), steps, len(steps)).min(2).values  # the next one
        ago = steps[:, None] - steps[None, :]  # [t, s]
        latest = (ago > 0) & (steps[:, None] <= later[:, None, :])
        counts = self.counts[right.clamp(max=MOST_ANSWERS), wrong.clamp(max=MOST_ANSWERS)]
        since = self.since[ago.clamp(0, LONGEST_AGO)[None], batch.response[:, None, :]]
        return latest * (counts[:, None, :] + since)


class _SelectionObjective(Learner):
    """The cross-entropy of the concept that was logged."""

    score_name = "log likelihood"
    model: SelectionModel

    def __init__(self, model: SelectionModel, training: TrainingOptions) -> None:
        tables = [model.counts, model.since]
        network = [parameter for parameter in model.parameters() if all(parameter is not table for table in tables)]
        optimiser = torch.optim.Adam(
            [
                {"params": network, "lr": training.learning_rate, "weight_decay": training.weight_decay},
                {"params": tables, "lr": TABLE_RATE},
            ]
        )
        super().__init__(model, {"model": optimiser})

    def settings(self) -> str:
        """There are none."""
        return "selection"

    def step(self, batch: Batch) -> float:
        """One step of Adam."""
        loss = nn.functional.nll_loss(self.model(batch), batch.concept[batch.scored])
        self.update("model", loss)
        return float(loss.detach())

    def validate(self, validation: Sequences) -> float:
        """The mean log likelihood of the concepts that held-out students were logged with."""
        return float(at_observed(self.model, validation).mean())


def marginal_frequency(train: Sequences, validation: Sequences) -> Tensor:
    """How often each concept is logged, whatever the history: counts of training students, smoothed."""
    concepts = len(train.vocabulary.concepts)
    counts, held_out = (
        torch.bincount(part.answers.concept, minlength=concepts).double() for part in (train, validation)
    )
    smoothed = [(counts + prior) / (counts + prior).sum() for prior in PRIORS]
    return max(smoothed, key=lambda frequency: float(held_out @ frequency.log())).float()


def fit_selection(
    train: Sequences,
    validation: Sequences,
    *,
    seed: int = 42,
    on_stage: Callable[[str], None] = lambda stage: None,
) -> SelectionModel:
    """Learn from training students which concept comes next; stop by the log loss of the validation students."""
    torch.manual_seed(seed)
    training = TRAINING.model_copy(update={"seed": seed})
    model = SelectionModel(marginal_frequency(train, validation), skips=train.skips).to(training.torch_device())
    fit(
        _SelectionObjective(model, training),
        train,
        validation,
        training,
        on_epoch=lambda epoch: on_stage(f"learning which concept is logged next, epoch {epoch.number}"),
    )
    return model.eval()


def over_batches(model: SelectionModel, sequences: Sequences) -> Iterator[tuple[Batch, Tensor]]:
    """Each batch in turn, and its log p̂ [scored steps, C]: memory does not grow with the number of students."""
    device = device_of(model)
    model.eval()  # the training loop asks between epochs, and sets it to train again
    for batch in sequences.batches(SELECTION_BATCH):
        with torch.no_grad():
            yield batch, model(batch.to(device)).cpu()


def at_observed(model: SelectionModel, sequences: Sequences) -> Tensor:
    """log p̂ of the concept that was logged, at every scored step."""
    device = device_of(model)
    model.eval()

    def say(batch: Batch) -> Tensor:
        return model(batch.to(device)).cpu().gather(1, batch.concept[batch.scored][:, None]).squeeze(1)

    with torch.no_grad():
        return of_scored(sequences, SELECTION_BATCH, say)


@dataclass(frozen=True)
class Calibration:
    """Predicted against observed frequency in bins of |C| p̂, over every concept at every scored step.

    `predicted` and `logged` are relative to uniform exposure (1 is as often as every other concept). `error` is the
    expected calibration error on that scale: Σ over bins of |Σ p̂ - answers logged|, over all answers.
    """

    cells: Array
    predicted: Array
    logged: Array
    error: float


class CalibrationCount:
    """Counts cells into bins of |C| p̂, batch by batch."""

    def __init__(self, n_concepts: int) -> None:
        self.n_concepts = n_concepts
        self.bounds = torch.tensor(EXPOSURE_BOUNDS)
        self.cells, self.predicted, self.logged = np.zeros((3, len(EXPOSURE_BOUNDS) + 1))

    def add(self, propensity: Tensor, concept: Tensor) -> None:
        """Take in the propensities [steps, C] of all concepts and the concepts [steps] that were logged."""
        place = torch.bucketize(self.n_concepts * propensity, self.bounds)
        size = len(self.cells)
        self.cells += torch.bincount(place.ravel(), minlength=size).numpy()
        self.predicted += torch.bincount(place.ravel(), propensity.double().ravel(), minlength=size).numpy()
        self.logged += torch.bincount(place.gather(1, concept[:, None]).squeeze(1), minlength=size).numpy()

    def result(self) -> Calibration:
        """What was counted; bins without a cell are left out."""
        some = self.cells > 0
        cells, predicted, logged = self.cells[some], self.predicted[some], self.logged[some]
        error = float(np.abs(predicted - logged).sum() / logged.sum())
        return Calibration(cells, self.n_concepts * predicted / cells, self.n_concepts * logged / cells, error)


def calibration(model: SelectionModel, sequences: Sequences) -> Calibration:
    """How far propensities can be taken at their word, on students that the model has not seen."""
    count = CalibrationCount(model.n_concepts)
    for batch, every in over_batches(model, sequences):
        count.add(every.exp(), batch.concept[batch.scored])
    return count.result()


def marginal_log_loss(model: SelectionModel, held_out: Sequences) -> Tensor:
    """-log of the marginal frequency of the logged concept, at every scored step of held-out students."""
    return -model.marginal.cpu().log()[held_out.events.concept[held_out.scored]]
