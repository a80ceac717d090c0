"""The audit passes what is causal, and catches what is not."""

import io
from dataclasses import replace

import pytest
import torch
from rich.console import Console
from torch import Tensor, nn

import tsdr
from tsdr import Batch, build_backbone, check_backbone
from tsdr.backbones.attention import AttentionHistory, View
from tsdr.backbones.checks import Audit
from tsdr.backbones.dkt import DKT
from tsdr.backbones.recurrent import States
from tsdr.backbones.simplekt import SimpleKT
from tsdr.debias.objective import JointObjective
from tsdr.methods import NAIVE_OPTIONS
from tsdr.report.terminal import show_audit
from tsdr.training.options import TrainingOptions
from tsdr.training.trainer import fit

CAUSAL = ("own answer unseen", "later answers unseen", "later questions unseen", "given targets see only earlier steps")
SIX = ("dkt", "akt", "simplekt", "folibikt", "sparsekt", "diskt")


def failed(model: tsdr.Backbone) -> dict[str, float]:  # type: ignore[type-arg]
    return {check.name: check.worst for check in check_backbone(model).checks if not check.passed}


@pytest.mark.parametrize("name", [*SIX, "counts"])
def test_every_backbone_passes_untrained_and_trained(name: str) -> None:
    audit = check_backbone(name)
    assert audit.passed, audit
    worst = {check.name: check.worst for check in audit.checks}
    assert all(worst[name] == worst[f"with skips: {name}"] == 0.0 for name in CAUSAL)

    simulation = tsdr.simulate(students=80, questions=40, concepts=6)
    sequences = tsdr.Sequences.from_log(simulation.log, window=20)
    train, validation = sequences.select(sequences.student[:64]), sequences.select(sequences.student[64:])
    torch.manual_seed(0)
    sizes = {} if name == "counts" else {"d": 16, "size": "light"}
    model = build_backbone(name, n_concepts=6, n_questions=40, **sizes)
    model.prepare(train)
    options = TrainingOptions(max_epochs=3, learning_rate=0.01, device="cpu")
    fit(JointObjective(model, NAIVE_OPTIONS, options), train, validation, options)
    weights = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    audit = check_backbone(model)
    assert audit.passed, audit
    assert all(check.worst == 0.0 for check in audit.checks if check.name in CAUSAL)
    for key, tensor in model.state_dict().items():
        assert torch.equal(tensor, weights[key]), "the audit must leave the model as it is"


class TwiceSoftmaxed(nn.Module):
    """The leak of public code: a softmax, and over its probabilities, unmasked, another one."""

    def forward(self, scores: Tensor, view: View) -> Tensor:
        probabilities = scores.masked_fill(~view.visible, -1e32).softmax(-1)
        view.visible.fill_(True)  # the second softmax is not masked: what was hidden gets weight exp(0)
        return probabilities


class DoubleSoftmaxKT(SimpleKT):
    def shaping(self) -> list[nn.Module]:
        return [TwiceSoftmaxed()]


class ReadsItsOwnAnswer(DKT):
    def forward(self, batch: Batch) -> Tensor:
        return super().forward(batch) + 0.01 * batch.correct


class StateOfTheTarget(SimpleKT):
    """The propensity's disease: a summary that knows the concept that is about to be logged."""

    def keep(self, state: Tensor | None, y: Tensor, batch: Batch) -> dict[str, Tensor]:
        return {"target": self.target(batch.concept, batch.question)}

    def summary(self, history: AttentionHistory) -> Tensor:
        return super().summary(history) + history.extra["target"]


class ForgetsItsState(DKT):
    def append(self, history: States, concept: Tensor, question: Tensor, correct: Tensor) -> States:
        return super().append(
            replace(history, cell=torch.zeros_like(history.cell), inputs=None), concept, question, correct
        )


class MixesStudents(DKT):
    def forward(self, batch: Batch) -> Tensor:
        logits = super().forward(batch)
        return logits - logits.mean(0)


class HasAnIdleParameter(DKT):
    def __init__(self, n_concepts: int, n_questions: int) -> None:
        super().__init__(n_concepts, n_questions)
        self.idle = nn.Parameter(torch.ones(3))


class LeaksLate(DKT):
    """Only past the fifty-fourth step."""

    def forward(self, batch: Batch) -> Tensor:
        late = torch.arange(batch.mask.shape[1]) > 54
        return super().forward(batch) + late * batch.correct


class LeaksInTraining(DKT):
    def forward(self, batch: Batch) -> Tensor:
        return super().forward(batch) + self.training * batch.correct


class KnowsHowLongItIs(DKT):
    def summary(self, history: States) -> Tensor:
        return super().summary(history) + history.length[:, None, None]


class ComparesSummaries(DKT):
    def summary(self, history: States) -> Tensor:
        return super().summary(history) - super().summary(history).mean(0)


class RetrievesAllForAQuestion(DKT):
    def retrieve(
        self, history: States, concept: Tensor, question: Tensor | None = None, steps: Tensor | None = None
    ) -> Tensor:
        state = super().retrieve(history, concept, question, steps)
        return state if question is None else state + history.hidden.sum()


class NeedsAFirstStep(DKT):
    def encode(self, batch: Batch) -> States:
        return replace(super().encode(batch), length=batch.concept[:, 0] * 0 + batch.mask.sum(1))


class SummarisesInItsOwnWay(DKT):
    def __init__(self, n_concepts: int, n_questions: int) -> None:
        super().__init__(n_concepts, n_questions)
        self.view = nn.Linear(64, 8)

    def summary(self, history: States) -> Tensor:
        return self.view(super().summary(history))


class SaysWhatSummarises(SummarisesInItsOwnWay):
    def summary_parameters(self) -> list[nn.Parameter]:
        return list(self.view.parameters())


class SummaryMovesTheModel(DKT):
    def summary(self, history: States) -> Tensor:
        return history.hidden[:, :-1]


class KeepsAnswersFromLearning(DKT):
    def summary_parameters(self) -> list[nn.Parameter]:
        return [self.output.bias]


class TakesNoQuestionForOne(DKT):
    def answer_rows(self, history: States, concept: Tensor, question: Tensor | None, steps: Tensor) -> Tensor:
        logits = super().answer_rows(history, concept, question, steps)
        return logits if question is None else logits + 0.1 * question


class HasNoPenalty(DKT):
    def penalty(self, batch: Batch) -> Tensor:
        return torch.tensor(float("nan"))


class SaysNothing(DKT):
    def forward(self, batch: Batch) -> Tensor:
        return super().forward(batch) * float("nan")


def test_the_double_softmax_is_caught() -> None:
    caught = failed(DoubleSoftmaxKT(7, 19))
    assert caught["later answers unseen"] > 1e-3
    assert caught["own answer unseen"] > 0
    assert caught["given targets see only earlier steps"] > 0


def test_a_model_that_reads_its_own_answer_is_caught() -> None:
    caught = failed(ReadsItsOwnAnswer(7, 19))
    assert caught["own answer unseen"] == pytest.approx(0.01, rel=1e-3)
    assert "answer is forward at observed targets" in caught


@pytest.mark.parametrize(
    ("model", "check"),
    [
        (StateOfTheTarget, "given targets see only earlier steps"),
        (ForgetsItsState, "streaming is batch"),
        (MixesStudents, "other students do not matter"),
        (HasAnIdleParameter, "gradients reach every parameter"),
        (SaysNothing, "own answer unseen"),
        (LeaksLate, "own answer unseen"),
        (LeaksInTraining, "own answer unseen"),
        (KnowsHowLongItIs, "the number of later steps unseen"),
        (ComparesSummaries, "other students do not matter"),
        (RetrievesAllForAQuestion, "given targets see only earlier steps"),
        (HasNoPenalty, "penalty is a number"),
        (TakesNoQuestionForOne, "question -1 is no question"),
    ],
)
def test_other_breaches_of_the_contract_are_caught(model: type[DKT], check: str) -> None:
    assert check in failed(model(7, 19))


@pytest.mark.parametrize(
    ("model", "check", "parameters", "advice"),
    [
        (
            SummarisesInItsOwnWay,
            "summary_parameters has all that serve the summary",
            "view.weight, view.bias",
            "have `summary_parameters` return them",
        ),
        (SummaryMovesTheModel, "the summary does not move the model", "interaction.weight, lstm.", "detach"),
        (KeepsAnswersFromLearning, "summary_parameters serve the summary alone", "output.bias", "leave them out there"),
    ],
)
def test_what_is_wrong_about_a_summary_is_told_with_what_to_do(
    model: type[DKT], check: str, parameters: str, advice: str
) -> None:
    (found,) = (one for one in check_backbone(model(7, 19)).checks if not one.passed)
    assert found.name == check
    assert found.where.startswith(parameters)
    said = io.StringIO()
    show_audit(Audit((found,)), Console(file=said, width=80))
    assert advice in said.getvalue()


def test_a_summary_may_have_parameters_that_are_told() -> None:
    assert not failed(SaysWhatSummarises(7, 19))


def test_a_student_without_answers_is_tried() -> None:
    with pytest.raises(IndexError):
        check_backbone(NeedsAFirstStep(7, 19))
