"""The students of a service: their answers are in the store, and the sessions of those seen last are held in memory.

A session that is held is brought up to date from the store before it is asked, so that any process may have written.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import SystemRandom

import torch

from tsdr.errors import InputError
from tsdr.models.evidence import Evidence
from tsdr.models.model import Interaction, Model, Session, answered_until
from tsdr.serving.databases import StoreError
from tsdr.serving.messages import NEW_CONCEPT, checked
from tsdr.serving.store import Added, Answer, Offer, Store, Student

TARGET = 0.7  # the success that an offer should come close to
PAGE = 200  # events that are asked of the store at a time, at least
HELD = 1000  # sessions in memory: 20 to 170 kB each, by backbone


@dataclass(frozen=True)
class Mastery:
    """What a student with so many answers and skipped offers masters, concept by concept, and what stands behind it.

    `in_view` is how many of the answers the model goes by.
    """

    answers: int
    skips: int
    in_view: int
    success: tuple[float, ...]
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True)
class Ranked:
    """A concept, how likely the student is to succeed, and how likely it is to be offered."""

    concept: str
    success: float
    propensity: float


@dataclass(frozen=True)
class Next:
    """What to ask next: the offer that was drawn and stored, and the concepts from which it was, the best first."""

    number: int
    offer: Offer
    ranking: tuple[Ranked, ...]


@dataclass
class _Held:
    """A session, and the student as far as it has been read."""

    session: Session
    student: Student | None = None
    kept: int = 0  # by how many events its session is in the store
    lock: threading.Lock = field(default_factory=threading.Lock)


def on_one_core() -> None:
    """Let the thread of this request compute on one core: requests are small, and several are under way at a time.

    It is said anew in every thread, for part of what torch computes with keeps it by thread.
    """
    torch.set_num_threads(1)


class Students:
    """Answers in, mastery out."""

    def __init__(self, model: Model, store: Store, held: int = HELD) -> None:
        self.model, self.store = model, store
        self._most = held
        self._held: OrderedDict[str, _Held] = OrderedDict()
        self._lock = threading.Lock()
        self._random = SystemRandom()

    def add(self, student: str, answers: Sequence[Answer]) -> Added:
        """Store answers and skipped offers, all or none; those on concepts that the model does not know, too."""
        for concept in self.unknown(answer.concept for answer in answers):
            checked(NEW_CONCEPT, concept, "concept")
        return self.store.add(student, answers)

    def unknown(self, concepts: Iterable[str]) -> list[str]:
        """Those of the concepts that the model does not know, each once."""
        return [concept for concept in dict.fromkeys(concepts) if not self.model.knows(concept)]

    def mastery(self, student: str) -> Mastery:
        """The mastery of a student; of one who is not known, that of anybody without answers."""
        on_one_core()
        known = self.store.find(student)
        if known is None:
            return self._mastery(Student(-1, student, 0, 0), self.model.session())
        held = self._hold(student)
        with held.lock:
            return self._mastery(self._bring_up_to_date(held, known), held.session)

    def next(self, student: str, target: float, explore: float, count: int, among: Sequence[str] | None = None) -> Next:
        """Offer a concept: the one closest to the target or, with chance `explore`, any concept with equal chance.

        It is one of those that it is to be `among`, as far as the model knows them; or else any.
        """
        mastery = self.mastery(student)
        ranking = self.ranking(mastery, target, explore, among)
        explored = self._random.random() < explore
        drawn = self._random.choice(ranking) if explored else ranking[0]
        offer = Offer(
            answers=mastery.answers,
            concept=drawn.concept,
            success=drawn.success,
            propensity=drawn.propensity,
            explored=explored,
            target=target,
            explore=explore,
            among=None if among is None else sorted(ranked.concept for ranked in ranking),
        )
        return Next(self.store.offer(student, offer), offer, ranking[:count])

    def ranking(
        self, mastery: Mastery, target: float, explore: float = 0.0, among: Sequence[str] | None = None
    ) -> tuple[Ranked, ...]:
        """All concepts, or those of them that are asked for, by closeness to the target, with the chance of each."""
        concepts = self.model.concepts
        wanted = set(concepts if among is None else among)
        asked = [i for i, concept in enumerate(concepts) if concept in wanted]
        if not asked:
            raise InputError("the model knows none of these concepts, so there is nothing to offer")
        order = sorted(asked, key=lambda i: abs(mastery.success[i] - target))
        at_random = explore / len(order)
        return tuple(
            Ranked(concepts[i], mastery.success[i], at_random + (0.0 if place else 1 - explore))
            for place, i in enumerate(order)
        )

    def delete(self, student: str) -> bool:
        """Forget a student; whether there was one."""
        with self._lock:
            self._held.pop(student, None)
        return self.store.delete(student)

    def readable(self, student: Student) -> int:
        """How many answers of a student the model can read: a store may have concepts that it does not know."""
        return sum(count for concept, count in self.store.concepts(student).items() if self.model.knows(concept))

    def in_view(self, student: Student, shown: int = 0) -> tuple[int, list[Interaction]]:
        """What the model has in view, or had at any of the latest events that are `shown`; how many answers precede.

        What it cannot read is passed over, and does not count.
        """
        total = self.readable(student)
        begins = self.model.view_begins(max(0, total - shown))
        found: list[Interaction] = []
        left, wanted = student.events, total - begins
        while left and (begins == 0 or len(answered_until(found)) - 1 <= wanted):
            part = self.store.latest(student, max(PAGE, wanted), left)
            found = self.interactions(part) + found
            left -= len(part)
        until = answered_until(found)  # with what was skipped since the last answer that is out of view
        return begins, found[until[len(until) - 1 - wanted] :]

    def reads(self, answer: Answer) -> bool:
        """Whether the model can make anything of it."""
        return self.model.knows(answer.concept) and (answer.correct is not None or self.model.reads_skips)

    def interactions(self, answers: Sequence[Answer]) -> list[Interaction]:
        """Answers and skipped offers as the model reads them, but for those that it cannot."""
        if not self.model.reads_skips and any(answer.correct is None for answer in answers):
            self.model.ignore_skips()
        return [
            self.model.interaction(answer.concept, answer.question, answer.correct)
            for answer in answers
            if self.reads(answer)
        ]

    def _mastery(self, student: Student, session: Session) -> Mastery:
        success, evidence = tuple(session.mastery_of_all().tolist()), tuple(session.evidence_of_all())
        return Mastery(student.answers, student.skips, session.in_view, success, evidence)

    def _hold(self, student: str) -> _Held:
        with self._lock:
            held = self._held.get(student) or _Held(self.model.session())
            self._held[student] = held
            self._held.move_to_end(student)
            while len(self._held) > self._most:
                self._held.popitem(last=False)
        return held

    def _bring_up_to_date(self, held: _Held, known: Student) -> Student:
        """Read what was stored since the session was asked last; or, the first time, all that is in view."""
        before = held.student if held.student is not None and held.student.number == known.number else None
        missing = known.events - (before.events if before else 0)
        if before is not None and missing <= 0:  # another request may have read even more
            return before
        if before is None and self._resume(held, known):
            missing = known.events - held.kept
        elif before is None or (missing > PAGE and not self.model.reads_all):
            begins, events = self.in_view(known)
            held.session, held.kept, missing = self.model.session(begins), 0, 0
            self._take_in(held, events)
        self._take_in(held, self.interactions(self.store.latest(known, missing)))
        held.student = known
        self._keep(held, known)
        return known

    def _take_in(self, held: _Held, events: Sequence[Interaction]) -> None:
        for event in events:
            held.session.take_in(event)

    def _resume(self, held: _Held, known: Student) -> bool:
        """Go on from what a session of the same bundle left in the store, if there is any and it can be read."""
        bundle = self._bundle_of_kept()
        kept = None if bundle is None else self.store.kept_session(known, bundle)
        if kept is None:
            return False
        try:
            held.session = self.model.session_from(kept.content)
        except InputError:  # it can be done without
            return False
        held.kept = kept.events
        return True

    def _keep(self, held: _Held, known: Student) -> None:
        """Leave what the session knows in the store, once it is by a page of events more than what lies there."""
        bundle = self._bundle_of_kept()
        if bundle is None or known.events - held.kept < PAGE:
            return
        with suppress(StoreError):  # it can be done without, and comes again with the next event
            self.store.keep_session(known, bundle, held.session.kept())
            held.kept = known.events

    def _bundle_of_kept(self) -> str | None:
        """What tells this bundle's sessions from others', if they can be kept."""
        return self.model.bundle.digest if self.model.reads_all else None
