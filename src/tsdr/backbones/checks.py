"""The audit: does a model keep the contract, and above all, does no prediction see the future?

Every check compares what the model says with what it must say, and reports the worst deviation and where it is.
"""

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from safetensors.torch import load, save
from torch import Tensor

from tsdr.backbones.contract import AnyBackbone, backbone_class, build_backbone
from tsdr.sequences import SKIPPED, UNKNOWN_QUESTION, Batch

STUDENTS, STEPS = 3, 60
CHANGES = (0, 1, 2, 11, 31, 53, 58)  # the steps at and after which the log is changed
ROUNDING = 2e-5  # what float32 may lose between two orders of the same sums, on logits of size 1 to 10


@dataclass(frozen=True)
class Check:
    """One check: the worst deviation found, where, how large it may be, and what to do where it is larger."""

    name: str
    worst: float
    where: str
    allowed: float
    advice: str = ""

    @property
    def passed(self) -> bool:
        """A deviation that is not a number is not allowed either."""
        return self.worst <= self.allowed


@dataclass(frozen=True)
class Audit:
    """All checks of a model."""

    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(check.passed for check in self.checks)

    def __bool__(self) -> bool:
        return self.passed


def check_backbone(model: AnyBackbone | str, *, seed: int = 0) -> Audit:
    """Audit a model, or a registered backbone by name; the model itself is left as it is.

    A model that reads skipped offers is shown some, among answers: they are no more to be seen too early than answers
    are. Of a backbone that can, by name, both kinds are audited.

    >>> check_backbone("dkt").passed
    True
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if not isinstance(model, str):
            return Audit(tuple(_Auditor(copy.deepcopy(model).cpu()).run()))
        sizes = {"n_concepts": 7, "n_questions": 19}
        checks = list(_Auditor(build_backbone(model, **sizes)).run())
        if backbone_class(model).can_read_skips:
            reading = _Auditor(build_backbone(model, **sizes, skips=True)).run()
            checks += [replace(check, name=f"with skips: {check.name}") for check in reading]
        return Audit(tuple(checks))


class _Auditor:
    def __init__(self, model: AnyBackbone) -> None:
        self.model = model.eval()
        self.responses = 3 if model.reads_skips else 2
        self.batch = self._random_batch()
        self.targets = torch.arange(model.n_concepts).expand(STUDENTS, STEPS, -1)

    def run(self) -> Iterable[Check]:
        with torch.no_grad():
            yield self._causality("own answer unseen", self._own_answer)
            yield self._causality("later answers unseen", self._later_answers)
            yield self._causality("later questions unseen", self._later_questions)
            yield self._strictly_before()
            yield self._length()
            yield self._padding()
            yield self._alone()
            yield self._answer_is_forward()
            yield self._streaming()
            yield self._chunks()
            yield self._no_question()
            yield self._save_and_load()
            yield self._penalty()
        yield self._same_seed()
        yield self._gradients()
        yield from self._summary()

    def _causality(self, name: str, change: Callable[[int], Batch]) -> Check:
        """Change the batch at and after a step: predictions for the observed targets up to it stay, bit by bit.

        In evaluation and in training, where the same seed makes the same dropout.
        """
        deviations = {}
        for training in (False, True):
            self.model.train(training)
            before = self._seeded(self.batch)
            for step in CHANGES:
                moved = (self._seeded(change(step)) - before).abs()[:, : step + 1]
                deviations[f"change at step {step}{', in training' if training else ''}"] = moved
        self.model.eval()
        return _worst(name, deviations, 0.0)

    def _seeded(self, batch: Batch) -> Tensor:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            return self.model(batch)

    def _own_answer(self, step: int) -> Batch:
        return self._flip(slice(step, step + 1))

    def _later_answers(self, step: int) -> Batch:
        return self._flip(slice(step, None))

    def _later_questions(self, step: int) -> Batch:
        other = self._random_batch()
        concept, question = self.batch.concept.clone(), self.batch.question.clone()
        concept[:, step + 1 :], question[:, step + 1 :] = other.concept[:, step + 1 :], other.question[:, step + 1 :]
        return replace(self.batch, concept=concept, question=question)

    def _strictly_before(self) -> Check:
        """States, summaries and answers to given targets do not move with the interaction at their own step."""
        question = torch.randint(self.model.n_questions, self.targets.shape)

        def views(batch: Batch) -> dict[str, Tensor]:
            return self._views(batch, self.targets, question)

        before = views(self.batch)
        deviations = {}
        for step in CHANGES:
            other = self._random_batch()
            changed = _of_events(
                torch.cat([self.batch.concept[:, :step], other.concept[:, step:]], dim=1),
                torch.cat([self.batch.question[:, :step], other.question[:, step:]], dim=1),
                torch.cat([self.batch.response[:, :step], other.response[:, step:]], dim=1),
            )
            for name, after in views(changed).items():
                deviations[f"{name}, change at step {step}"] = (after - before[name]).abs()[:, : step + 1]
        return _worst("given targets see only earlier steps", deviations, 0.0)

    def _views(self, batch: Batch, targets: Tensor, question: Tensor) -> dict[str, Tensor]:
        """All that can be asked of a history."""
        history = self.model.encode(batch)
        return {
            "answer": self.model.answer(history, targets, question),
            "answer to concepts": self.model.answer(history, targets),
            "retrieve": self.model.retrieve(history, targets, question).flatten(2),
            "retrieve for concepts": self.model.retrieve(history, targets).flatten(2),
            "summary": self.model.summary(history),
        }

    def _length(self) -> Check:
        """That there are later steps at all is the future too: rows up to half are those of the first half alone."""
        half = STEPS // 2
        question = torch.randint(self.model.n_questions, self.targets.shape)
        whole = self._views(self.batch, self.targets, question)
        first = self.batch.map(lambda tensor: tensor[:, :half])
        alone = self._views(first, self.targets[:, :half], question[:, :half])
        deviations = {name: (alone[name] - whole[name][:, :half]).abs() for name in whole}
        return _worst("the number of later steps unseen", deviations, ROUNDING)

    def _padding(self) -> Check:
        """What stands in the padding, and how much of it there is, does not matter."""
        length = STEPS // 2
        cut = self.batch.map(lambda tensor: tensor[:, :length])
        mask = self.batch.mask.clone()
        mask[:, length:] = False
        padded = replace(self.batch, mask=mask)
        after = torch.full((STUDENTS, 1), STEPS)
        end = self.targets[:, :1]
        at_the_end = (
            self.model.answer(self.model.encode(padded), end, steps=after)
            - self.model.answer(self.model.encode(cut), end, steps=after.clamp(max=length))
        ).abs()
        question = torch.randint(self.model.n_questions, self.targets.shape)
        long = self._views(padded, self.targets, question)
        short = self._views(cut, self.targets[:, :length], question[:, :length])
        deviations = {name: (long[name][:, :length] - short[name]).abs() for name in long}
        deviations["forward"] = (self.model(padded)[:, :length] - self.model(cut)).abs()
        deviations["after all"] = at_the_end
        return _worst("padding does not matter", deviations, ROUNDING)

    def _alone(self) -> Check:
        """A student alone and in a batch gets the same answers."""
        question = torch.randint(self.model.n_questions, self.targets.shape)
        together = self._views(self.batch, self.targets, question) | {"forward": self.model(self.batch)}
        deviations = {}
        for row in range(STUDENTS):
            part = slice(row, row + 1)
            one = self.batch.map(lambda tensor, part=part: tensor[part])  # type: ignore[misc]
            alone = self._views(one, self.targets[part], question[part]) | {"forward": self.model(one)}
            for name, view in alone.items():
                deviations[f"{name}, student {row}"] = (view - together[name][part]).abs()
        return _worst("other students do not matter", deviations, ROUNDING)

    def _answer_is_forward(self) -> Check:
        """`answer` at the observed targets is `forward`, at every step and at chosen ones."""
        forward = self.model(self.batch)
        history = self.model.encode(self.batch)
        concept, question = self.batch.concept[..., None], self.batch.question[..., None]
        steps = torch.randint(STEPS, (STUDENTS, 3))
        chosen = self.model.answer(
            history, concept.gather(1, steps[..., None]), question.gather(1, steps[..., None]), steps
        )
        deviations = {
            "every step": (self.model.answer(history, concept, question)[..., 0] - forward).abs(),
            "chosen steps": (chosen[..., 0] - forward.gather(1, steps)).abs(),
        }
        return _worst("answer is forward at observed targets", deviations, ROUNDING)

    def _streaming(self) -> Check:
        """One interaction at a time, from none, gives what the whole batch gives."""
        every = self.model.answer(self.model.encode(self.batch), self.targets)
        empty = self.batch.map(lambda tensor: tensor[:, :0])
        history = self.model.encode(empty)
        deviations = {}
        for step in range(STEPS):
            now = self.model.answer(history, self.targets[:, :1], steps=torch.full((STUDENTS, 1), step))
            deviations[f"step {step}"] = (now - every[:, step : step + 1]).abs()
            history = self.model.append(
                history, self.batch.concept[:, step], self.batch.question[:, step], self.batch.response[:, step]
            )
        return _worst("streaming is batch", deviations, ROUNDING)

    def _chunks(self) -> Check:
        """All concepts in one call are the concepts one by one."""
        history = self.model.encode(self.batch)
        together = self.model.answer(history, self.targets)
        deviations = {
            f"concept {concept}": (
                self.model.answer(history, self.targets[..., concept : concept + 1])
                - together[..., concept : concept + 1]
            ).abs()
            for concept in range(self.model.n_concepts)
        }
        return _worst("all concepts at once are each alone", deviations, ROUNDING)

    def _no_question(self) -> Check:
        """A question of -1, in what is asked as in the past, is one that is not known."""
        unknown = torch.full_like(self.batch.question, UNKNOWN_QUESTION)
        batch = replace(self.batch, question=torch.where(self.batch.response == 0, unknown, self.batch.question))
        history = self.model.encode(batch)
        asked = self.model.answer(history, self.targets, unknown[..., None].expand_as(self.targets))
        deviation = (asked - self.model.answer(history, self.targets)).abs()
        return _worst("question -1 is no question", {"answer": deviation}, ROUNDING)

    def _save_and_load(self) -> Check:
        """Weights that are saved and loaded into another copy give the same answers, bit by bit."""
        other = copy.deepcopy(self.model)
        for parameter in other.parameters():
            parameter.add_(1.0)
        other.load_state_dict(load(save({name: t.contiguous() for name, t in self.model.state_dict().items()})))
        return _worst("save and load", {"forward": (other(self.batch) - self.model(self.batch)).abs()}, 0.0)

    def _penalty(self) -> Check:
        """The penalty is a number, and not below 0."""
        penalty = float(self.model.penalty(self.batch))
        return Check("penalty is a number", 0.0 if 0 <= penalty < float("inf") else float("inf"), f"{penalty:.3g}", 0.0)

    def _same_seed(self) -> Check:
        """In training, the same seed gives the same numbers."""
        runs = []
        for _ in range(2):
            torch.manual_seed(5)
            runs.append(copy.deepcopy(self.model).train()(self.batch).detach())
        return _worst("same seed, same numbers", {"forward in training": (runs[0] - runs[1]).abs()}, 0.0)

    def _gradients(self) -> Check:
        """After two optimiser steps on answer, summary and penalty, every parameter has been reached."""
        model = copy.deepcopy(self.model).train()
        optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
        reached: set[str] = set()
        for _ in range(3):
            batch = self._random_batch()
            optimiser.zero_grad()
            history = model.encode(batch)
            every = model.answer(history, self.targets).square().mean() + model(batch).square().mean()
            (every + model.summary(history).pow(3).mean() + model.penalty(batch)).backward()
            reached |= {
                name
                for name, parameter in model.named_parameters()
                if parameter.grad is not None and bool((parameter.grad != 0).any())
            }
            optimiser.step()
        missed = [
            name for name, parameter in model.named_parameters() if parameter.requires_grad and name not in reached
        ]
        advice = "use these parameters, or leave them out: nothing that is learned would move them"
        return _named("gradients reach every parameter", missed, advice)

    def _summary(self) -> Iterable[Check]:
        """What the summary is computed from moves for it alone, and those who train it are told all of it.

        A gradient counts that could flow, even where it is nought at this moment.
        """
        model = copy.deepcopy(self.model).train()
        named = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
        listed = {id(parameter) for parameter in model.summary_parameters()}
        history = model.encode(self.batch)
        answers = model(self.batch).sum() + model.answer(history, self.targets[..., :1]).sum()
        summarised, answered = (
            _reaches(said.sum(), [parameter for _, parameter in named])
            for said in (model.summary(history), answers + model.penalty(self.batch))
        )
        found = [
            (name, by_summary, by_answers, id(parameter) in listed)
            for (name, parameter), by_summary, by_answers in zip(named, summarised, answered, strict=True)
        ]
        yield _named(
            "the summary does not move the model",
            [name for name, by_summary, by_answers, _ in found if by_summary and by_answers],
            "answers are made of these parameters, and the summary sends gradients into them: detach what it takes "
            "from the history, as in `history.state.detach()`",
        )
        yield _named(
            "summary_parameters has all that serve the summary",
            [name for name, by_summary, by_answers, told in found if by_summary and not by_answers and not told],
            "these parameters serve the summary and no answer: have `summary_parameters` return them, or they stay as "
            "they are at the start",
        )
        yield _named(
            "summary_parameters serve the summary alone",
            [name for name, _, by_answers, told in found if by_answers and told],
            "answers are made of these parameters, and what `summary_parameters` returns is not trained for answers: "
            "leave them out there",
        )

    def _flip(self, steps: slice) -> Batch:
        """Other responses at these steps, as labels and as what a model reads."""
        response = self.batch.response.clone()
        response[:, steps] = (response[:, steps] + 1) % self.responses
        return _of_events(self.batch.concept, self.batch.question, response)

    def _random_batch(self) -> Batch:
        shape = (STUDENTS, STEPS)
        return _of_events(
            concept=torch.randint(self.model.n_concepts, shape),
            question=torch.randint(self.model.n_questions, shape),
            response=torch.randint(self.responses, shape),
        )


def _of_events(concept: Tensor, question: Tensor, response: Tensor) -> Batch:
    """A batch without padding of answers and skipped offers; all answers but those of the first step are scored."""
    answered = response != SKIPPED
    batch = Batch.of_answers(concept, question, response * answered, torch.ones_like(answered))
    return replace(batch, response=response, scored=batch.scored & answered)


def _reaches(said: Tensor, parameters: Sequence[Tensor]) -> list[bool]:
    """To which of the parameters a gradient of what is said can flow."""
    if not said.requires_grad:
        return [False] * len(parameters)
    gradients = torch.autograd.grad(said, parameters, retain_graph=True, allow_unused=True)
    return [gradient is not None for gradient in gradients]


def _named(name: str, parameters: Sequence[str], advice: str) -> Check:
    """A check that parameters should not have failed, with those that did."""
    return Check(name, len(parameters), ", ".join(parameters) or "-", 0.0, advice)


def _worst(name: str, deviations: dict[str, Tensor], allowed: float) -> Check:
    """The largest deviation of all, with its place; one that is not a number is the largest."""
    worst, where = -1.0, "-"
    for place, deviation in deviations.items():
        flat = deviation.flatten(1).nan_to_num(nan=float("inf"))
        if not flat.numel():
            continue
        largest = float(flat.max())
        if largest > worst:
            student = int(flat.max(1).values.argmax())
            worst, where = largest, f"{place}, student {student}" if largest > 0 else "-"
    return Check(name, max(worst, 0.0), where, allowed)
