"""A trained model, ready to answer: for a student as the answers come in, or for a whole log.

Wherever it answers, it sees the latest W interactions before the step, W being the window of the bundle.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import polars as pl
import torch
from torch import Tensor

from tsdr.errors import InputError
from tsdr.log import Log, Unknown, Vocabulary
from tsdr.models.bundle import Bundle, read_bundle
from tsdr.sequences import UNKNOWN_QUESTION, Batch, Sequences, coded_answers

BATCH = 64
ROWS = 1024  # targets are answered so many at a time: what lies between two layers then stays in the cache
Part = TypeVar("Part")


class Interaction(NamedTuple):
    """One answer as integers."""

    concept: int
    question: int
    correct: int


class Target(NamedTuple):
    """What is asked about, as integers."""

    concept: int
    question: int


class Model:
    """A trained backbone with its vocabulary: what is trained, saved, loaded, judged, diagnosed and served.

    Names are those of the log that it was trained on. No question, or one that it does not know, counts as one of
    average difficulty; in a log without questions each concept is its own. A concept that it does not know is refused.
    """

    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle
        self.backbone = bundle.model.eval()
        self.window = bundle.window
        self.concepts = bundle.vocabulary.concepts
        self._concept = {name: i for i, name in enumerate(self.concepts)}
        self._question = {name: i for i, name in enumerate(bundle.vocabulary.questions)}
        # A log without questions has every concept as its own: then that is what mastery of a concept is about.
        own = bundle.vocabulary.questions == self.concepts
        codes = range(len(self.concepts))
        self.every = [Target(i, i if own else UNKNOWN_QUESTION) for i in codes]

    @property
    def vocabulary(self) -> Vocabulary:
        """The concepts and questions that it knows."""
        return self.bundle.vocabulary

    @property
    def training(self) -> Mapping[str, Any]:
        """How it came about."""
        return self.bundle.training

    def save(self, folder: str | Path) -> None:
        """Write the model into a folder, from which `load` reads it."""
        self.bundle.write(folder)

    def with_diagnosis(self, diagnosis: Mapping[str, Any]) -> "Model":
        """The same model with what was found of the selection of its log, as plain data; it is saved along."""
        return Model(replace(self.bundle, diagnosis=diagnosis))

    def session(self) -> "Session":
        """A student without answers yet."""
        return Session(self)

    def knows(self, concept: str) -> bool:
        """Whether it was trained on a concept."""
        return concept in self._concept

    def target(self, concept: str, question: str | None = None) -> Target:
        """A question about a concept, by their names; refused if the concept is not known."""
        if concept not in self._concept:
            raise InputError(f"the model does not know the concept {concept!r}; it was not in the log it learned from")
        code = self._concept[concept]
        if question is None:
            return self.every[code]
        return Target(code, self._question.get(question, UNKNOWN_QUESTION))

    def interaction(self, concept: str, question: str | None, correct: int) -> Interaction:
        """An answer, by names."""
        if correct not in (0, 1):
            raise InputError(f"an answer is 0 or 1, not {correct!r}")
        return Interaction(*self.target(concept, question), int(correct))

    def encode(self, histories: Sequence[Sequence[Interaction]]) -> Any:
        """What the backbone keeps of histories, of which none is longer than the window."""
        with torch.inference_mode():
            return self.backbone.encode(_padded(histories))

    def success(self, history: Any, lengths: Sequence[int], targets: Sequence[Sequence[Target]]) -> Tensor:
        """The probability of success [histories, targets] after `lengths` interactions of each history."""
        asked = torch.tensor(targets, dtype=torch.long).reshape(len(targets), 1, -1, 2)
        steps = torch.tensor(lengths)[:, None]
        with torch.inference_mode():
            parts = [
                self.backbone.answer(history, part[..., 0], part[..., 1], steps)[:, 0]
                for part in asked.split(max(1, ROWS // len(targets)), dim=2)
            ]
            return torch.cat(parts, dim=1).sigmoid()

    def at_each_answer(
        self, answers: Sequence[Interaction], steps: Iterable[int], targets: Sequence[Target]
    ) -> Iterator[Tensor]:
        """For each step, the success [targets] of a student with that many of these answers."""
        for part in _in_batches(list(steps)):
            histories = [answers[max(0, step - self.window) : step] for step in part]
            yield from self.success(
                self.encode(histories), [len(history) for history in histories], [targets] * len(part)
            )

    def mastery_of(self, histories: Sequence[Sequence[Interaction]]) -> Iterator[Tensor]:
        """The mastery of all concepts after each of these histories, of which the latest window is read."""
        for part in _in_batches([history[-self.window :] for history in histories]):
            yield from self.success(self.encode(part), [len(history) for history in part], [self.every] * len(part))

    def predict_log(self, log: Log, *, unknown: Unknown = "error") -> pl.DataFrame:
        """Every answer of a log with the `success` that was to be expected from the student's answers before it.

        With `unknown="skip"`, answers on concepts that the model does not know have no prediction and are no part of
        anybody's history.
        """
        coded = coded_answers(log, self.bundle.vocabulary, unknown).with_row_index("row")
        known = coded.filter(pl.col("concept") >= 0)
        success = np.full(len(coded), np.nan, dtype=np.float32)
        begins, laters = [], []
        for part in known.partition_by("student", maintain_order=True):
            answers = [Interaction(*row) for row in part.select("concept", "question", "correct").iter_rows()]
            rows = part["row"].to_list()
            begins.append((rows[: self.window], answers[: self.window]))
            laters += [(row, answers, step) for step, row in enumerate(rows) if step >= self.window]
            # Students' windows are taken together, but no more of them are held than a batch needs.
            while len(laters) >= BATCH:
                self._predict_later(laters[:BATCH], success)
                del laters[:BATCH]
            if len(begins) == BATCH:
                self._predict_begin(begins, success)
                begins = []
        self._predict_begin(begins, success)
        self._predict_later(laters, success)
        return log.answered.with_columns(success=pl.Series(success).fill_nan(None))

    def _predict_begin(self, begins: list[tuple[list[int], list[Interaction]]], success: np.ndarray[Any, Any]) -> None:
        """The first answers of students, up to a window: one pass over each."""
        if not begins:
            return
        with torch.inference_mode():
            found = self.backbone(_padded([answers for _, answers in begins])).sigmoid()
        for (rows, _), values in zip(begins, found, strict=True):
            success[rows] = values[: len(rows)].numpy()

    def _predict_later(self, laters: list[tuple[int, list[Interaction], int]], success: np.ndarray[Any, Any]) -> None:
        """Answers beyond the window: each from a window of its own."""
        if not laters:
            return
        history = self.encode([answers[step - self.window : step] for _, answers, step in laters])
        targets = [[Target(*answers[step][:2])] for _, answers, step in laters]
        found = self.success(history, [self.window] * len(laters), targets)
        success[[row for row, _, _ in laters]] = found[:, 0].numpy()

    def mastery_log(self, log: Log, *, unknown: Unknown = "error") -> pl.DataFrame:
        """The mastery of every concept by every student of a log, after all of the student's answers."""
        sequences = Sequences.from_log(log, self.bundle.vocabulary, window=self.window, minimum=1, unknown=unknown)
        found = []
        for batch in sequences.batches(BATCH):
            with torch.inference_mode():
                history = self.backbone.encode(batch)
            found.append(self.success(history, batch.mask.sum(1).tolist(), [self.every] * len(batch)))
        mastery = torch.cat(found) if found else torch.zeros(0, len(self.concepts))
        return pl.DataFrame(
            {
                "student": pl.Series(sequences.student, dtype=pl.String).repeat_by(len(self.concepts)).explode(),
                "concept": pl.Series(self.concepts * len(sequences), dtype=pl.String),
                "mastery": pl.Series(mastery.flatten().numpy()),
            }
        )


class Session:
    """A student who is being observed.

    An answer within the window is appended to what the backbone keeps of the history; beyond it, the latest window is
    encoded anew. Either way the cost is bounded by the window, never by the history.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.answers = 0
        self.unknown_questions = 0
        self.latest: deque[Interaction] = deque(maxlen=model.window)
        self.history = model.encode([[]])
        self._unread = 0  # how many of the latest answers are not in the history yet

    def observe(self, question: str | None, concept: str, correct: int) -> None:
        """One more answer of the student."""
        interaction = self.model.interaction(concept, question, correct)
        self.unknown_questions += interaction.question == UNKNOWN_QUESTION
        self.latest.append(interaction)
        self.answers += 1
        self._unread += 1

    def mastery(self) -> dict[str, float]:
        """The probability of success on every concept."""
        return dict(zip(self.model.concepts, self.mastery_of_all().tolist(), strict=True))

    def mastery_of_all(self) -> Tensor:
        """The same as a tensor, in the order of the model's concepts."""
        return self._success(self.model.every)

    def predict(self, question: str | None, concept: str) -> float:
        """The probability that the student answers this question right."""
        return self.predict_all([(question, concept)])[0]

    def predict_all(self, targets: Sequence[tuple[str | None, str]]) -> list[float]:
        """The same for several questions, each with its concept."""
        return self._success([self.model.target(concept, question) for question, concept in targets]).tolist()

    def _success(self, targets: Sequence[Target]) -> Tensor:
        self._read()
        return self.model.success(self.history, [len(self.latest)], [targets])[0]

    def _read(self) -> None:
        """Bring the history up to date: one answer within the window is appended, else the window is encoded."""
        if self._unread == 1 and self.answers <= self.model.window:
            with torch.inference_mode():
                concept, question, correct = torch.tensor(self.latest[-1])[:, None]
                self.history = self.model.backbone.append(self.history, concept, question, correct)
        elif self._unread:
            self.history = self.model.encode([self.latest])
        self._unread = 0


def load(folder: str | Path) -> Model:
    """A trained model, from a bundle that `tsdr fit` wrote; nothing in a bundle is executed."""
    return Model(read_bundle(folder))


def _padded(histories: Sequence[Sequence[Interaction]]) -> Batch:
    lengths = torch.tensor([len(history) for history in histories])
    mask = torch.arange(int(lengths.max())) < lengths[:, None]
    columns = torch.zeros(*mask.shape, 3, dtype=torch.long)
    flat = [interaction for history in histories for interaction in history]
    columns[mask] = torch.tensor(flat, dtype=torch.long).reshape(-1, 3)
    concept, question, correct = columns.unbind(-1)
    return Batch.of_answers(concept, question, correct, mask)


def _in_batches(parts: Sequence[Part]) -> Iterator[Sequence[Part]]:
    for at in range(0, len(parts), BATCH):
        yield parts[at : at + BATCH]
