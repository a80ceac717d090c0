"""The audit: does a model keep the contract, and above all, does no prediction see the future?

Every check compares what the model says with what it must say, and reports the worst deviation and where it is.
"""

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import torch
from safetensors.torch import load, save
from torch import Tensor

from tsdr.backbones.contract import AnyBackbone, build_backbone
from tsdr.sequences import Batch

STUDENTS, STEPS = 6, 12
ROUNDING = 2e-5  # what float32 may lose between two orders of the same sums, on logits of size 1 to 10


@dataclass(frozen=True)
class Check:
    """One check: the worst deviation found, where, and how large it may be."""

    name: str
    worst: float
    where: str
    allowed: float

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


def check_backbone(model: AnyBackbone | str, *, seed: int = 0) -> Audit:
    """Audit a model, or a registered backbone by name; the model itself is left as it is.

    >>> check_backbone("dkt").passed
    True
    """
    if isinstance(model, str):
        model = build_backbone(model, n_concepts=7, n_questions=19)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        auditor = _Auditor(copy.deepcopy(model).cpu())
        return Audit(tuple(auditor.run()))


class _Auditor:
    def __init__(self, model: AnyBackbone) -> None:
        self.model = model.eval()
        self.batch = self._random_batch()
        self.targets = torch.arange(model.n_concepts).expand(STUDENTS, STEPS, -1)

    def run(self) -> Iterable[Check]:
        with torch.no_grad():
            yield self._causality("own answer unseen", self._own_answer)
            yield self._causality("later answers unseen", self._later_answers)
            yield self._causality("later questions unseen", self._later_questions)
            yield self._strictly_before()
            yield self._padding()
            yield self._alone()
            yield self._answer_is_forward()
            yield self._streaming()
            yield self._chunks()
            yield self._save_and_load()
        yield self._same_seed()
        yield self._gradients()

    def _causality(self, name: str, change: Callable[[int], Batch]) -> Check:
        """Change the batch at and after each step: predictions for the observed targets up to it stay, bit by bit."""
        before = self.model(self.batch)
        deviations = [(self.model(change(step)) - before).abs()[:, : step + 1] for step in range(STEPS)]
        return _worst(name, {f"change at step {step}": each for step, each in enumerate(deviations)}, 0.0)

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
            history = self.model.encode(batch)
            return {
                "answer": self.model.answer(history, self.targets, question),
                "answer to concepts": self.model.answer(history, self.targets),
                "retrieve": self.model.retrieve(history, self.targets).flatten(2),
                "summary": self.model.summary(history),
            }

        before = views(self.batch)
        deviations = {}
        for step in range(STEPS):
            other = self._random_batch()
            changed = Batch(
                torch.cat([self.batch.concept[:, :step], other.concept[:, step:]], dim=1),
                torch.cat([self.batch.question[:, :step], other.question[:, step:]], dim=1),
                torch.cat([self.batch.correct[:, :step], other.correct[:, step:]], dim=1),
                self.batch.mask,
            )
            for name, after in views(changed).items():
                deviations[f"{name}, change at step {step}"] = (after - before[name]).abs()[:, : step + 1]
        return _worst("given targets see only earlier steps", deviations, 0.0)

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
        deviations = {"forward": (self.model(padded)[:, :length] - self.model(cut)).abs(), "after all": at_the_end}
        return _worst("padding does not matter", deviations, ROUNDING)

    def _alone(self) -> Check:
        """A student alone and in a batch gets the same answers."""
        together = self.model(self.batch)
        deviations = {}
        for row in range(STUDENTS):
            one = self.batch.map(lambda tensor, row=row: tensor[row : row + 1])  # type: ignore[misc]
            deviations[f"student {row}"] = (self.model(one) - together[row : row + 1]).abs()
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
        empty = self.batch.map(lambda tensor: torch.zeros_like(tensor[:, :1]))
        history = self.model.encode(empty)
        deviations = {}
        for step in range(STEPS):
            now = self.model.answer(history, self.targets[:, :1], steps=torch.full((STUDENTS, 1), step))
            deviations[f"step {step}"] = (now - every[:, step : step + 1]).abs()
            history = self.model.append(
                history, self.batch.concept[:, step], self.batch.question[:, step], self.batch.correct[:, step]
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

    def _save_and_load(self) -> Check:
        """Weights that are saved and loaded into another copy give the same answers, bit by bit."""
        other = copy.deepcopy(self.model)
        for parameter in other.parameters():
            parameter.add_(1.0)
        other.load_state_dict(load(save({name: t.contiguous() for name, t in self.model.state_dict().items()})))
        return _worst("save and load", {"forward": (other(self.batch) - self.model(self.batch)).abs()}, 0.0)

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
        return Check("gradients reach every parameter", len(missed), ", ".join(missed) or "-", 0.0)

    def _flip(self, steps: slice) -> Batch:
        correct = self.batch.correct.clone()
        correct[:, steps] = 1 - correct[:, steps]
        return replace(self.batch, correct=correct)

    def _random_batch(self) -> Batch:
        shape = (STUDENTS, STEPS)
        return Batch(
            concept=torch.randint(self.model.n_concepts, shape),
            question=torch.randint(self.model.n_questions, shape),
            correct=torch.randint(2, shape),
            mask=torch.ones(shape, dtype=torch.bool),
        )


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
