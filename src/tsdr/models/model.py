"""A trained model, ready to answer: for a student as the answers come in, or for a whole log.

Wherever it answers, it has the same interactions before the step in view: all of them, or between half a window and a
window, the latest. (When the window is full, its older half goes out of view, so that to look on costs little.)
"""

import warnings
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load as load_state
from safetensors.torch import save as save_state
from torch import Tensor

from tsdr.backbones.contract import Reader
from tsdr.errors import InputError, in_a_sentence
from tsdr.log import Log, Unknown, Vocabulary, after
from tsdr.models.bundle import Bundle, read_bundle
from tsdr.models.evidence import Evidence, is_little
from tsdr.sequences import SKIPPED, STRETCH, UNKNOWN_QUESTION, Batch, Sequences, coded_events, view_begins

BATCH = 64
ROWS = 1024  # targets are answered so many at a time: what lies between two layers then stays in the cache
# What a session keeps beside its history: how often each concept was met, answers and unknown questions.
_BESIDE = _MET, _COUNTED = "session.met", "session.counted"
Part = TypeVar("Part")


class Interaction(NamedTuple):
    """An answer, or an offer that was skipped, as integers."""

    concept: int
    question: int
    response: int


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
        codes = torch.arange(len(self.concepts))
        self.every = torch.stack([codes, codes if own else torch.full_like(codes, UNKNOWN_QUESTION)], -1)

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

    @property
    def training_answers(self) -> tuple[int, ...] | None:
        """How many answers in each concept it learned from; not known of a bundle from before that was kept."""
        return self.bundle.training_answers

    def evidence(self, met: NDArray[np.int64]) -> list[Evidence]:
        """What stands behind each mastery of one who `met` the concepts so often, as `met` counts."""
        learned = self.training_answers or (None,) * len(self.concepts)
        pairs = zip(met.tolist(), learned, strict=True)
        return [Evidence.of(answers, skips, training) for (answers, skips), training in pairs]

    @property
    def reads_skips(self) -> bool:
        """Whether it learned from offers that were skipped, and takes them into account."""
        return self.backbone.reads_skips

    def session(self, before: int = 0) -> "Session":
        """A student without answers yet; or with so many that are out of view before those that will be observed."""
        return Session(self, before)

    @property
    def reads_all(self) -> bool:
        """Whether it reads whole histories: what a session knows is then of one size, and can be kept."""
        return self.window == "all"

    def session_from(self, kept: bytes) -> "Session":
        """A student as a session of this model had come to know them, from what it gave to be kept."""
        session = self.session()
        try:
            state = load_state(kept)
        except (SafetensorError, ValueError, KeyError) as error:
            raise InputError(f"this is nothing that a session gave to be kept ({in_a_sentence(error)})") from error
        told, own = ({name: (of.shape, of.dtype) for name, of in some.items()} for some in (state, session.state()))
        if told != own:
            raise InputError("a session of another model gave this to be kept; read the student's answers anew")
        session.go_on_from(state)
        return session

    def knows(self, concept: str) -> bool:
        """Whether it was trained on a concept."""
        return concept in self._concept

    def target(self, concept: str, question: str | None = None) -> Target:
        """A question about a concept, by their names; refused if the concept is not known."""
        if concept not in self._concept:
            raise InputError(f"the model does not know the concept {concept!r}; it was not in the log it learned from")
        code = self._concept[concept]
        if question is None:
            return Target(*self.every[code].tolist())
        return Target(code, self._question.get(question, UNKNOWN_QUESTION))

    def interaction(self, concept: str, question: str | None, correct: int | None) -> Interaction:
        """An answer, by names; or, with nothing for an answer, an offer that was skipped."""
        if correct not in (0, 1, None):
            raise InputError(f"an answer is 0 or 1, not {correct!r}")
        return Interaction(*self.target(concept, question), SKIPPED if correct is None else int(correct))

    def ignore_skips(self) -> None:
        """Say that skipped offers are passed over: of no use to this model, but no fault either."""
        warnings.warn("the model was trained without skipped offers, and ignores them", stacklevel=3)

    def view_begins(self, answers: int) -> int:
        """Where what is in view begins, of a student with so many answers."""
        return view_begins(answers, self.window)

    def encode(self, histories: Sequence[Sequence[Interaction]], past: Any = None) -> Any:
        """What the backbone keeps of histories, all of them in view, at their ends; or of what comes after a past."""
        batch = _padded(histories)
        with torch.inference_mode():
            if not self.backbone.linear:
                return self.backbone.encode(batch)
            for at in range(0, max(1, batch.mask.shape[1]), STRETCH):
                part = batch.map(lambda tensor, at=at: tensor[:, at : at + STRETCH])  # type: ignore[misc]
                history = self.backbone.encode(part) if past is None else self.backbone.go_on(past, part)
                past = self.backbone.ended(history)
            return past

    def state(self) -> dict[str, Tensor]:
        """What a model that reads whole histories knows of a student without answers: noughts, by name."""
        return self.backbone.state_of(self.encode([[]]))

    def append(self, history: Any, interaction: Interaction) -> Any:
        """What it keeps of a history with one more interaction."""
        with torch.inference_mode():
            return self.backbone.append(history, *torch.tensor(interaction)[:, None])

    def success(self, history: Any, lengths: Sequence[int], targets: Tensor) -> Tensor:
        """The probability of success [histories, targets] after `lengths` interactions of each history.

        Targets [histories, targets, 2] are concepts and questions.
        """
        asked, steps = targets[:, None], torch.tensor(lengths)[:, None]
        with torch.inference_mode():
            parts = [
                self.backbone.answer(history, part[..., 0], part[..., 1], steps)[:, 0]
                for part in asked.split(max(1, ROWS // len(targets)), dim=2)
            ]
            return torch.cat(parts, dim=1).sigmoid()

    def at_each_step(
        self, events: Sequence[Interaction], steps: Sequence[int], targets: Sequence[Target], before: int = 0
    ) -> Iterator[Tensor]:
        """For each step, in ascending order, the success [targets] of a student after that many of these events.

        They are all that came after so many answers `before`, which are out of view.
        """
        asked = torch.tensor(targets, dtype=torch.long).reshape(1, 1, -1, 2)
        until = answered_until(events)

        def view_begins(step: int) -> int:
            return until[self.view_begins(before + bisect_right(until, step) - 1) - before]

        for first, group in groupby(steps, view_begins):
            at = torch.tensor([step - first for step in group])[None]
            every = asked.expand(-1, at.shape[1], -1, -1)
            with torch.inference_mode():
                history = self.backbone.encode(_padded([events[first : first + int(at[0, -1])]]))
                yield from self.backbone.answer(history, every[..., 0], every[..., 1], at)[0].sigmoid()

    def mastery_of(self, histories: Sequence[Sequence[Interaction]]) -> Iterator[Tensor]:
        """The mastery of all concepts after each of these histories, all of them in view."""
        for part in _in_batches(histories):
            every = self.every.expand(len(part), -1, -1)
            yield from self.success(self.encode(part), [len(history) for history in part], every)

    def predict_log(self, log: Log, *, unknown: Unknown = "error", history: Log | None = None) -> pl.DataFrame:
        """Every answer of a log with the `success` that was to be expected from the student's answers before it.

        `row` says which row of the log's source it was, from 1. A `history` is what the same students did earlier: it
        is in view, and not predicted.

        With `unknown="skip"`, answers on concepts that the model does not know have no prediction and are no part of
        anybody's history.
        """
        told, later = (log, pl.repeat(True, len(log), eager=True)) if history is None else after(history, log)
        sequences = self._sequences(told, unknown)
        found = torch.full((len(sequences.events),), torch.nan)
        first, reader = sequences.first_answers(), Reader(self.backbone)
        for batch in sequences.batches(BATCH):
            assert batch.place is not None
            asked = batch.scored | (batch.mask & first[batch.place])
            with torch.inference_mode():
                found[batch.place[asked]] = reader.logits(batch).sigmoid()[asked]
        known = coded_events(told, self.vocabulary, unknown)["concept"] >= 0
        success = np.full(len(known), np.nan, dtype=np.float32)
        success[known.to_numpy()] = found[sequences.events.answered].numpy()
        wanted = later.filter(told.frame["correct"].is_not_null())
        numbered = log.frame.select(log.rows, pl.all()).filter(pl.col("correct").is_not_null())
        return numbered.with_columns(success=pl.Series(success).fill_nan(None).filter(wanted))

    def mastery_log(self, log: Log, *, unknown: Unknown = "error") -> pl.DataFrame:
        """The mastery of every concept by every student of a log, after all that the student did, with the evidence.

        The student's own answers and skips in the concept that are in view, and how many answers in it the model
        learned from.
        """
        coded = coded_events(log, self.vocabulary, unknown, skips=self.reads_skips).filter(pl.col("concept") >= 0)
        students, histories, met = [], [], []
        for (student,), part in coded.group_by("student", maintain_order=True):
            students.append(student)
            events = [Interaction(*row) for row in part.select(Interaction._fields).iter_rows()]
            until = answered_until(events)
            histories.append(events[until[self.view_begins(len(until) - 1)] :])
            met.append(self.met(histories[-1]))
        found = list(self.mastery_of(histories))
        mastery = torch.stack(found) if found else torch.zeros(0, len(self.concepts))
        own = np.concatenate(met) if met else np.zeros((0, 2), dtype=np.int64)
        learned = self.training_answers
        known = learned or (None,) * len(self.concepts)
        return pl.DataFrame(
            {
                "student": pl.Series(students, dtype=pl.String).repeat_by(len(self.concepts)).explode(),
                "concept": pl.Series(self.concepts * len(students), dtype=pl.String),
                "mastery": pl.Series(mastery.flatten().numpy()),
                "answers": pl.Series(own[:, 0]),
                "skips": pl.Series(own[:, 1]),
                "training_answers": pl.Series(known * len(students), dtype=pl.Int64),
            }
        ).with_columns(little_evidence=is_little(pl.col("answers"), learned and pl.col("training_answers")))

    def met(self, events: Sequence[Interaction]) -> NDArray[np.int64]:
        """How often each concept was met in events [concepts, 2]: answers, and skips."""
        found = np.zeros((len(self.concepts), 2), dtype=np.int64)
        if events:
            told = np.array(events)
            np.add.at(found, (told[:, 0], (told[:, 2] == SKIPPED).astype(np.int64)), 1)
        return found

    def _sequences(self, log: Log, unknown: Unknown) -> Sequences:
        """A log as the model reads it, every answer that it can read in it."""
        if log.skipped_offers and not self.reads_skips:
            self.ignore_skips()
        return Sequences.from_log(
            log,
            self.bundle.vocabulary,
            window=self.window,
            scored="all",
            minimum=1,
            unknown=unknown,
            skips=self.reads_skips,
        )


class Session:
    """A student who is being observed.

    An answer is appended to what the backbone keeps of the history. Where it reads a window, and that is full, the
    newer half of it is encoded anew, once in half a window. Neither depends on how long the history is. What the
    student skips is taken in alike, and does not count in the window.
    """

    def __init__(self, model: Model, before: int = 0) -> None:
        """A student, of whose answers so many went before what will be observed, and are out of view."""
        self.model = model
        self.answers = before
        self.unknown_questions = 0
        self.met = model.met([])  # of what is in view
        self.history = model.encode([[]])
        self._begins = before
        self._in_view: list[Interaction] = []  # kept where it has to be encoded anew
        self._unread: list[Interaction] = []  # answers that are not in the history yet

    def observe(self, question: str | None, concept: str, correct: int) -> None:
        """One more answer of the student."""
        if correct is None:
            raise InputError("an answer is 0 or 1; an offer without one is for `skip`")
        self.take_in(self.model.interaction(concept, question, correct))

    def skip(self, question: str | None, concept: str) -> None:
        """An offer that the student turned down; a model that was trained without them passes it over."""
        skipped = self.model.interaction(concept, question, None)
        if self.model.reads_skips:
            self.take_in(skipped)
        else:
            self.model.ignore_skips()

    def take_in(self, event: Interaction) -> None:
        """One more event, as integers."""
        self._unread.append(event)
        self.met[event.concept, int(event.response == SKIPPED)] += 1
        self.unknown_questions += event.question == UNKNOWN_QUESTION
        if self.model.window != "all":
            self._in_view.append(event)
        if event.response == SKIPPED:
            return
        self.answers += 1
        begins = self.model.view_begins(self.answers)
        if begins > self._begins:
            gone = answered_until(self._in_view)[begins - self._begins]
            self.met -= self.model.met(self._in_view[:gone])
            del self._in_view[:gone]
            self._begins = begins
            self.history = None

    def kept(self) -> bytes:
        """All that it knows, to go on from later with `Model.session_from`, at the same cost after any history.

        Models with a window go by the latest answers, which are to be kept instead.
        """
        if not self.model.reads_all:
            raise InputError(
                f"this model reads a window of {self.model.window} answers: keep a student's latest answers, and let a "
                "new session observe them"
            )
        return save_state(self.state())

    def state(self) -> dict[str, Tensor]:
        """The same as tensors of one size, by name."""
        self._read()
        counted = torch.tensor([self.answers, self.unknown_questions])
        of_history = {name: of.contiguous() for name, of in self.model.backbone.state_of(self.history).items()}
        return of_history | {_MET: torch.from_numpy(self.met.astype(np.int32)), _COUNTED: counted}

    def go_on_from(self, state: Mapping[str, Tensor]) -> None:
        """Know what such a state says, and nothing else."""
        self.answers, self.unknown_questions = state[_COUNTED].tolist()
        self.met = state[_MET].numpy().astype(np.int64)
        self.history = self.model.backbone.from_state({name: of for name, of in state.items() if name not in _BESIDE})
        self._unread = []

    def mastery(self) -> dict[str, float]:
        """The probability of success on every concept."""
        return dict(zip(self.model.concepts, self.mastery_of_all().tolist(), strict=True))

    def evidence(self) -> dict[str, Evidence]:
        """What stands behind the mastery of every concept."""
        return dict(zip(self.model.concepts, self.evidence_of_all(), strict=True))

    def evidence_of_all(self) -> list[Evidence]:
        """The same, in the order of the model's concepts."""
        return self.model.evidence(self.met)

    @property
    def in_view(self) -> int:
        """How many of the student's answers the model has in view."""
        return self.answers - self._begins

    def mastery_of_all(self) -> Tensor:
        """The same as a tensor, in the order of the model's concepts."""
        return self._success(self.model.every)

    def predict(self, question: str | None, concept: str) -> float:
        """The probability that the student answers this question right."""
        return self.predict_all([(question, concept)])[0]

    def predict_all(self, targets: Sequence[tuple[str | None, str]]) -> list[float]:
        """The same for several questions, each with its concept."""
        asked = [self.model.target(concept, question) for question, concept in targets]
        return self._success(torch.tensor(asked, dtype=torch.long).reshape(-1, 2)).tolist()

    def _success(self, targets: Tensor) -> Tensor:
        self._read()
        shown = self.answers if self.model.window == "all" else len(self._in_view)
        return self.model.success(self.history, [shown], targets[None])[0]

    def _read(self) -> None:
        """Bring the history up to date."""
        if self.history is None:
            self.history = self.model.encode([self._in_view])
        elif len(self._unread) > 1 and self.model.backbone.linear:
            self.history = self.model.encode([self._unread], self.history)
        else:
            for interaction in self._unread:
                self.history = self.model.append(self.history, interaction)
        self._unread = []


def load(folder: str | Path) -> Model:
    """A trained model, from a bundle that `tsdr fit` wrote; nothing in a bundle is executed."""
    return Model(read_bundle(folder))


def answered_until(events: Sequence[Interaction]) -> list[int]:
    """How many of the events there are up to no answer, to the first of them, the second and so on."""
    return [0, *(place for place, event in enumerate(events, 1) if event.response != SKIPPED)]


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
