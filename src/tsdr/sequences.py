"""From a log to what a model reads: histories cut into rows, and batches of them."""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Self

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from torch import Tensor

from tsdr.defaults import MINIMUM, WIDEST_WINDOW, WINDOW, Extent
from tsdr.errors import InputError
from tsdr.log import SKIPPED as SKIPPED
from tsdr.log import Log, Unknown, Vocabulary
from tsdr.pairs import Pairs

UNKNOWN_QUESTION = -1
STRETCH = 200  # steps that a batch has at most, where rows are longer: they go on in the next one
JITTER = 0.1  # rows of so much the same length are taken for alike, so that they meet others in every epoch


@dataclass(frozen=True)
class Events:
    """Answers and, where they are read, skipped offers, one after the other, [events] each; a student's are together.

    `concept`, `question` and `response` are what a model reads of an event once it is past; `correct` is the label of
    an answer, which no model reads, and nothing of an offer that was skipped. A `question` of -1 is one that the
    vocabulary does not know: it counts as a question of average difficulty. Labels are of the logged question or, with
    a `target`, of that concept at no question. `exposure` is how likely what was logged was to be, relative to an even
    choice of concept and of question within it, where that is known.
    """

    concept: Tensor
    question: Tensor
    response: Tensor
    correct: Tensor
    target: Tensor | None = None
    exposure: Tensor | None = None

    def __len__(self) -> int:
        return len(self.concept)

    @property
    def answered(self) -> Tensor:
        """Which of them are answers."""
        return self.response != SKIPPED

    def pairs(self) -> Pairs:
        """How often each question was answered in each concept, and how often right."""
        return Pairs.of(self.concept, self.question, self.correct)

    def __getitem__(self, chosen: Tensor) -> "Events":
        return Events(**{name: column[chosen] for name, column in self.columns().items()})

    def columns(self) -> dict[str, Tensor]:
        """What there is of it, by name."""
        every = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: column for name, column in every.items() if column is not None}


@dataclass(frozen=True)
class Batch:
    """Interactions of several students, right-padded: [batch, steps] each, and otherwise as `Events` has them.

    `mask` is true at real interactions, and `scored` at those whose label losses and metrics count. `place` says which
    of all events of its sequences a step is. A long history comes in several batches, one after the other: `after`
    [batch] are then the rows of the batch before which these go on from.
    """

    concept: Tensor
    question: Tensor
    response: Tensor
    correct: Tensor
    scored: Tensor
    mask: Tensor
    target: Tensor | None = None
    exposure: Tensor | None = None
    place: Tensor | None = None
    after: Tensor | None = None

    @classmethod
    def of_answers(cls, concept: Tensor, question: Tensor, correct: Tensor, mask: Tensor) -> Self:
        """Answers that are both read and foretold; the first of a sequence, before which nothing is, is not scored."""
        scored = mask.clone()
        scored[:, :1] = False
        return cls(concept, question, correct, correct, scored, mask)

    def __len__(self) -> int:
        return self.mask.shape[0]

    def events(self) -> Events:
        """Its real interactions, one after the other."""
        names = (field.name for field in fields(Events))
        columns = {name: column for name in names if (column := getattr(self, name)) is not None}
        return Events(**{name: column[self.mask] for name, column in columns.items()})

    def map(self, function: Callable[[Tensor], Tensor]) -> Self:
        """The batch with a function applied to each of its tensors."""
        tensors = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{name: function(tensor) for name, tensor in tensors.items() if tensor is not None})

    def to(self, device: torch.device | str) -> Self:
        """The same batch on another device."""
        return self.map(lambda tensor: tensor.to(device))


@dataclass(frozen=True)
class Dropped:
    """What the way from a log to sequences left out: answers, students with too few, and skipped offers.

    The answers are those to unknown concepts, those of students with too few, and those that are earlier than any
    window that is read.
    """

    skipped_offers: int = 0
    unknown_concepts: int = 0
    short_students: int = 0
    short_answers: int = 0
    earlier_interactions: int = 0


@dataclass(frozen=True)
class Rows:
    """Stretches of events that are read one at a time: where each begins, how long it is, and how much is `context`.

    The context, an answer at least, is read and not scored.
    """

    begin: Tensor
    length: Tensor
    context: Tensor

    def __len__(self) -> int:
        return len(self.begin)

    def __getitem__(self, rows: Tensor) -> "Rows":
        return Rows(self.begin[rows], self.length[rows], self.context[rows])

    @classmethod
    def of_students(cls, answers: NDArray[np.int64], window: Extent, scored: Extent) -> tuple["Rows", Tensor]:
        """Rows of students with so many answers each, which lie one after the other; and whose each row is.

        A row has a window at most, and every answer that counts is scored in one of them. One row that ends with the
        latest answer will do if that has all that counts; else rows begin half a window after each other, so that what
        is scored in any but the first has half a window before it.

        >>> Rows.of_students(np.array([7]), window=4, scored="all")[0]
        Rows(begin=tensor([0, 2, 4]), length=tensor([4, 4, 3]), context=tensor([1, 2, 2]))
        """
        first = np.ones_like(answers) if scored == "all" else np.maximum(1, answers - scored)
        if window == "all":
            begin, owner, context = np.zeros_like(answers), np.arange(len(answers)), first
        else:
            hop, one = stride(window), answers - first < window
            owner, number = _counted_off(np.where(one, 1, -(-(answers - window + hop) // hop)))
            begin = np.where(one[owner], np.maximum(0, answers - window)[owner], number * hop)
            context = np.where(one[owner] | (begin == 0), 1, window - hop)
            needed = begin + window > first[owner]
            begin, owner, context = begin[needed], owner[needed], context[needed]
            context = np.maximum(context, first[owner] - begin)
        length = answers[owner] - begin
        if window != "all":
            length = np.minimum(length, window)
        begin = begin + (answers.cumsum() - answers)[owner]
        return cls(*map(torch.from_numpy, (begin, length, context))), torch.from_numpy(owner)

    def among(self, answered: Tensor) -> "Rows":
        """Rows of answers as rows of events, of which so many are answers, each student's last one among them.

        A row has what was skipped since the answer before its first one.

        >>> rows = Rows(torch.tensor([0, 2]), torch.tensor([2, 1]), torch.tensor([1, 1]))
        >>> rows.among(torch.tensor([False, True, False, True, False, True]))
        Rows(begin=tensor([0, 4]), length=tensor([4, 2]), context=tensor([3, 2]))
        """
        until = torch.cat([torch.zeros(1, dtype=torch.long), answered.nonzero().squeeze(1) + 1])
        begin, end = until[self.begin], until[self.begin + self.length]
        scored = self.begin + self.context + 1
        first = torch.where(self.context < self.length, until[scored.clamp(max=len(until) - 1)] - 1, end)
        return Rows(begin, end - begin, first - begin)


def _vocabulary_of(log: Log) -> Vocabulary:
    """The names in a log that a model is to learn, if they are as few as can be learned."""
    vocabulary = Vocabulary.fit(log)
    vocabulary.check_learnable(log.answered.height)
    return vocabulary


def stride(window: int) -> int:
    """How far apart the windows of one history begin: half a window, so that half of one is always in view."""
    return max(1, window // 2)


def view_begins(answers: int, window: Extent) -> int:
    """Where what is in view begins, of a student with so many answers who is asked once more.

    As in the rows of a history that is scored throughout: when a window is full, its older half goes out of view.

    >>> [view_begins(answers, 4) for answers in range(9)]
    [0, 0, 0, 0, 2, 2, 4, 4, 6]
    """
    if window == "all" or answers < window:
        return 0
    hop = stride(window)
    return -((window - 1 - answers) // hop) * hop


@dataclass(frozen=True)
class Sequences:
    """What models read of a log: events, and rows of them, with whose they are and where in the history they stand.

    `student[i]` is the student of row i, and `position[j]` says how many of the student's answers in the log came
    before event j. Events are answers and, with `skips`, the offers that were turned down before them. Rows, and what
    is scored in them, are in the order of students and of time, however histories are cut: sequences of the same log
    with the same answers scored can be compared answer by answer.
    """

    events: Events
    position: Tensor
    rows: Rows
    student: tuple[str, ...]
    vocabulary: Vocabulary
    dropped: Dropped
    window: Extent
    counted: Extent
    minimum: int
    width: int
    skips: bool = False

    @classmethod
    def from_log(
        cls,
        log: Log,
        vocabulary: Vocabulary | None = None,
        *,
        window: Extent = WINDOW,
        scored: Extent | None = None,
        minimum: int = MINIMUM,
        unknown: Unknown = "error",
        skips: bool = False,
    ) -> "Sequences":
        """The histories of every student with `minimum` interactions or more, a `window` of them in view at a time.

        The latest `scored` interactions of a student are scored, or all of them, but for the very first, before which
        nothing is. Unless it is said, those that one window has: a student then has one row, the latest window.
        Skipped offers are left out and counted; or, with `skips`, read: a window of answers then has what was skipped
        between them, too, and the same answers are scored. A concept that the vocabulary does not know is an error;
        `unknown="skip"` drops its interactions and counts them. Without a vocabulary, the log's own is fitted.
        """
        vocabulary = vocabulary or _vocabulary_of(log)
        told = coded_events(log, vocabulary, unknown, skips=skips)
        laid_out = cls.of_coded(told, vocabulary, window=window, scored=scored, minimum=minimum, skips=skips)
        dropped = replace(
            laid_out.dropped,
            skipped_offers=log.skipped_offers - laid_out.skips_read,
            short_students=len(log.students) - len(laid_out.students()),
        )
        return replace(laid_out, dropped=dropped)

    @classmethod
    def of_coded(
        cls,
        told: pl.DataFrame,
        vocabulary: Vocabulary,
        *,
        window: Extent,
        scored: Extent | None,
        minimum: int,
        skips: bool,
    ) -> "Sequences":
        """The same of events as `coded_events` gives them, of which `skips` are a part or not."""
        counted = scored or ("all" if window == "all" else window - 1)
        if window != "all" and window < 2:
            raise InputError(f"a window has an answer to read and one to foretell: at least 2 answers, not {window}")
        if window != "all" and window > WIDEST_WINDOW:
            raise InputError(f"a window of {window:,} answers is wider than {WIDEST_WINDOW:,}; give fewer, or all")
        if (counted != "all" and counted < 1) or minimum < 1:
            raise InputError(f"scored and minimum are at least 1, not {counted} and {minimum}")
        coded = told.filter(pl.col("concept") >= 0).with_columns(
            answers=_ANSWERED.sum().over("student"),
            left=_ANSWERED.sum().over("student") - _ANSWERED.cum_sum().over("student"),
        )
        kept = coded.filter((pl.col("answers") >= minimum) & (_ANSWERED | (pl.col("left") > 0)))
        numbers = kept.group_by("student", maintain_order=True).agg(_ANSWERED.sum().cast(pl.Int64).alias("answers"))
        events = Events(*(_tensor(kept[name]) for name in ("concept", "question", "response", "correct")))
        rows, owner = Rows.of_students(numbers["answers"].to_numpy(), window, counted)
        rows = rows.among(events.answered)
        names = numbers["student"].to_list()
        answers, known, left = (frame.select(_ANSWERED.sum()).item() for frame in (told, coded, kept))
        laid_out = cls(
            events=events,
            position=_tensor(kept["position"]),
            rows=rows,
            student=tuple(names[number] for number in owner.tolist()),
            vocabulary=vocabulary,
            dropped=Dropped(),
            window=window,
            counted=counted,
            minimum=minimum,
            width=int(rows.length.max()) if len(rows) else 0,
            skips=skips,
        )._in_reach()
        dropped = Dropped(
            unknown_concepts=answers - known,
            short_students=told["student"].n_unique() - len(names),
            short_answers=known - left,
            earlier_interactions=left - len(laid_out.answers),
        )
        return replace(laid_out, dropped=dropped)

    @classmethod
    def of_batch(cls, batch: Batch, student: Sequence[str], vocabulary: Vocabulary) -> "Sequences":
        """A batch as sequences, a row a student, of which all but the first answer is scored."""
        length = batch.mask.sum(1)
        rows = Rows(length.cumsum(0) - length, length, torch.ones_like(length))
        position = torch.arange(batch.mask.shape[1]).expand_as(batch.mask)[batch.mask]
        width = batch.mask.shape[1]
        window = max(2, width)
        counted = window - 1
        return cls(batch.events(), position, rows, tuple(student), vocabulary, Dropped(), window, counted, 1, width)

    def __len__(self) -> int:
        return len(self.student)

    @property
    def answers(self) -> Events:
        """Its events without the skipped offers."""
        return self.events[self.events.answered] if self.skips else self.events

    @property
    def skips_read(self) -> int:
        """How many of its events are skipped offers."""
        return len(self.events) - int(self.events.answered.sum())

    @property
    def unknown_questions(self) -> int:
        """How many answers are to questions that the vocabulary does not know."""
        return int((self.answers.question == UNKNOWN_QUESTION).sum())

    @property
    def batch(self) -> Batch:
        """All rows in one batch: of a small log."""
        return self.batch_of(torch.arange(len(self)))

    @cached_property
    def scored(self) -> Tensor:
        """The places among the events of the answers that are scored."""
        places = self._beyond_context()
        return places[self.events.answered[places]]

    @property
    def scored_answers(self) -> int:
        """How many answers are scored."""
        return len(self.scored)

    def pairs(self) -> Pairs:
        """How often each question was answered in each concept, and how often right."""
        return self.answers.pairs()

    def sample(self) -> "Sequences":
        """What is fitted at once is fitted to all of them: they are in memory."""
        return self

    def _beyond_context(self) -> Tensor:
        return _ranges(self.rows.begin + self.rows.context, self.rows.length - self.rows.context)

    def answers_in_rows(self) -> tuple[Tensor, Tensor]:
        """How many answers each row has, and how many of them are context."""
        before = torch.cat([torch.zeros(1, dtype=torch.long), self.events.answered.cumsum(0)])
        begin, rows = before[self.rows.begin], self.rows
        return before[rows.begin + rows.length] - begin, before[rows.begin + rows.context] - begin

    def student_numbers(self) -> Tensor:
        """The student of each row as a number: the place among the sorted names of all that have a sequence here."""
        place = {name: number for number, name in enumerate(sorted(set(self.student)))}
        return torch.tensor([place[name] for name in self.student], dtype=torch.long)

    def student_of_scored(self) -> Tensor:
        """The number of the student of each scored answer."""
        student = self.student_numbers().repeat_interleave(self.rows.length - self.rows.context)
        return student[self.events.answered[self._beyond_context()]]

    def row_of_events(self) -> Tensor:
        """The first row that each event is in."""
        row = torch.zeros(len(self.events), dtype=torch.long)
        last_first = torch.arange(len(self)).flip(0)  # so that the first one is written last
        row[_ranges(self.rows.begin[last_first], self.rows.length[last_first])] = last_first.repeat_interleave(
            self.rows.length[last_first]
        )
        return row

    def first_answers(self) -> Tensor:
        """Which events [events] are the first answer of their student here."""
        student = self.student_numbers()[self.row_of_events()]
        answers = self.events.answered.nonzero().squeeze(1)
        of_answers = student[answers]
        new = of_answers != torch.cat([torch.full((1,), -1), of_answers[:-1]])
        return torch.zeros(len(self.events), dtype=torch.bool).index_put((answers,), new)

    def students(self) -> tuple[str, ...]:
        """Those that have a sequence here, in order."""
        return tuple(dict.fromkeys(self.student))

    def select(self, students: Sequence[str]) -> "Sequences":
        """The sequences of these students only; students without a sequence are passed over."""
        wanted = set(students)
        numbers = torch.tensor([i for i, student in enumerate(self.student) if student in wanted], dtype=torch.long)
        student = tuple(self.student[i] for i in numbers.tolist())
        return replace(self, rows=self.rows[numbers], student=student)._in_reach()

    def _in_reach(self) -> "Sequences":
        """The same rows, and of the events only those that one of them has."""
        held = torch.zeros(len(self.events), dtype=torch.bool)
        held[_ranges(self.rows.begin, self.rows.length)] = True
        place = held.cumsum(0) - 1
        return replace(
            self,
            events=self.events[held],
            position=self.position[held],
            rows=replace(self.rows, begin=place[self.rows.begin]),
        )

    def within(self, window: int) -> "Sequences":
        """The same answers scored, with a window of the history in view; or these, if no more is."""
        if self.window != "all":
            return self
        answers = self.answers_in_rows()[0].numpy()  # a row is the whole of a student's history
        rows, owner = Rows.of_students(answers, window, self.counted)
        rows = rows.among(self.events.answered)
        student = tuple(self.student[number] for number in owner.tolist())
        width = int(rows.length.max()) if len(rows) else 0
        return replace(self, rows=rows, student=student, window=window, width=width)._in_reach()

    def digest(self) -> str:
        """Tells these interactions of these students from any others."""
        content = hashlib.sha256(json.dumps([self.student, self.vocabulary.concepts]).encode())
        for tensor in self._told_apart_by():
            content.update(tensor.numpy().tobytes())
        return content.hexdigest()[:16]

    def _told_apart_by(self) -> Iterator[Tensor]:
        if self.skips:
            yield self.events.response
        if self._alike_in_length:
            rows = self.rows
            yield from (self.events.concept, self.events.question, self.events.correct)
            yield from (rows.begin, rows.length, rows.context)
            return
        batch = self.batch  # one window a student: as records have always had it
        yield from (batch.concept, batch.question, batch.correct, batch.mask)

    @property
    def _alike_in_length(self) -> bool:
        """Whether batches are of rows alike in length, as rows of many lengths have to be.

        Those of the latest window, and no longer than the paper's, are as they are drawn.
        """
        return self.counted == "all" or self.window == "all" or self.window > WINDOW

    def batch_of(self, rows: Tensor) -> Batch:
        """The batch of these rows."""
        return self._gathered(self.rows[rows], self.width)

    def batches(self, size: int = 64, generator: torch.Generator | None = None) -> Iterator[Batch]:
        """The sequences in batches of `size`, in a random order if a `generator` is given.

        Where rows are of many lengths, those of a batch are alike, and long ones come in stretches, one batch after
        the other, so that neither padding nor memory grows with the longest.
        """
        order = torch.arange(len(self)) if generator is None else torch.randperm(len(self), generator=generator)
        if not self._alike_in_length:
            for rows in order.split(size) if len(order) else ():
                yield self.batch_of(rows)
            return
        length = self.rows.length[order].double()
        if generator is not None:
            length *= 1 + JITTER * torch.rand(len(order), generator=generator, dtype=torch.double)
        groups = order[length.argsort(stable=True)].split(size)
        turn = torch.arange(len(groups)) if generator is None else torch.randperm(len(groups), generator=generator)
        for group in turn.tolist():
            yield from self._stretches(self.rows[groups[group]], STRETCH if self.window == "all" else self.width)

    def _stretches(self, rows: Rows, most: int) -> Iterator[Batch]:
        """Rows in batches of so many steps at most that go on from each other; a row that has ended is left out."""
        begun, after = 0, None
        while len(rows):
            stretch = Rows(
                rows.begin + begun, (rows.length - begun).clamp(max=most), (rows.context - begun).clamp(min=0)
            )
            yield replace(self._gathered(stretch, int(stretch.length.max())), after=after)
            begun += most
            after = (rows.length > begun).nonzero().squeeze(1)
            rows = rows[after]

    def _gathered(self, rows: Rows, width: int) -> Batch:
        step = torch.arange(width)
        mask = step < rows.length[:, None]
        place = torch.where(mask, rows.begin[:, None] + step, 0)
        columns = {name: torch.where(mask, column[place], 0) for name, column in self.events.columns().items()}
        scored = mask & (step >= rows.context[:, None]) & (columns["response"] != SKIPPED)
        return Batch(**columns, scored=scored, mask=mask, place=place)


def _counted_off(numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """0, 0, 1, 2, 2, 2 ... and 0, 1, 0, 0, 1, 2 ...: as many of each as the numbers 2, 1, 3 ... say."""
    owner = np.arange(len(numbers)).repeat(numbers)
    return owner, np.arange(len(owner)) - (numbers.cumsum() - numbers)[owner]


def _ranges(begin: Tensor, length: Tensor) -> Tensor:
    """begin, begin + 1, ... of each, as many as its length."""
    owner, number = map(torch.from_numpy, _counted_off(length.numpy()))
    return begin[owner] + number


_ANSWERED = pl.col("response") != SKIPPED


def coded_events(log: Log, vocabulary: Vocabulary, unknown: Unknown = "error", *, skips: bool = False) -> pl.DataFrame:
    """The answers of a log as integers and, with `skips`, the skipped offers, with what they are a `response` of.

    The `position` of an event is how many of the student's answers came before. A concept that the vocabulary does not
    know is an error or, with `unknown="skip"`, -1.
    """
    if unknown not in ("error", "skip"):
        raise InputError(f'unknown is "error" or "skip", not {unknown!r}')
    events = log.frame if skips else log.answered
    events = events.with_columns(response=pl.col("correct").fill_null(SKIPPED), correct=pl.col("correct").fill_null(0))
    position = (_ANSWERED.cum_sum() - _ANSWERED).over("student").cast(pl.Int64)
    coded = vocabulary.encode(events.with_columns(position=position))
    strange = coded["concept"] < 0
    if unknown == "error" and strange.any():
        raise _unknown_concept(events.filter(strange)["concept"])
    return coded


def _unknown_concept(names: pl.Series) -> InputError:
    return InputError(
        f"concept {names[0]!r} is not in the vocabulary ({len(names):,} interactions with "
        f"{names.n_unique():,} unknown concepts); fit a vocabulary on a log that has them, "
        'or leave these interactions out with unknown="skip" or --unknown skip'
    )


def _tensor(column: pl.Series) -> Tensor:
    return torch.from_numpy(column.cast(pl.Int64).to_numpy(writable=True))
