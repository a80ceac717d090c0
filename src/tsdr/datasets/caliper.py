"""IMS Caliper events (1.0 to 1.2) of the items of assessments: completed, skipped, graded.

`AssessmentItemEvent` with `Completed` is an answer, with `Skipped` a skipped offer. Whether an answer is right stands
in the grade of its attempt, which may come much later and in another file, or else in the event itself. An item's
concepts are the first of these that any event has: extensions named like CONCEPT_NAMES, learning objectives, keywords,
what the item is a part of.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

import polars as pl

from tsdr.datasets.account import Account
from tsdr.datasets.interactions import JOINER, RIGHT, WRONG, Preparation
from tsdr.datasets.raw import RawFolder
from tsdr.datasets.source import Source
from tsdr.datasets.statements import Row, at, concepts_among, events, identity, last_part, named, table

GIVEN = ("scoreGiven", "resultScore", "totalScore", "normalScore")
MAXIMUM = ("maxScore", "maxResultScore")
RIGHT_NAMES = ("correct", "iscorrect", "success")
OBJECTIVES = ("learningObjectives", "alignedLearningObjective")
LARGEST = 1e15  # number that is taken for a score; no platform gives more, and NaN and infinity are none
GRADINGS = ("GradeEvent", "OutcomeEvent")  # the second is the first's name in Caliper 1.0


def read(raw: RawFolder, options: Preparation, account: Account) -> pl.DataFrame:
    """Every event of every file; those that are no answer, skip or grade are counted and left out."""
    return table(_rows(raw), account, options, time="eventTime", kind="event")


def _rows(raw: RawFolder) -> Iterator[Row | str]:
    items, grades = _Items(), _Grades()
    offers: dict[str, _Offer] = {}
    for event in events(raw, "data", "an event"):
        if isinstance(event, str):
            yield event
        elif _kind(event) == "AssessmentItemEvent":
            offer, action = _Offer.of(event), last_part(event.get("action"))
            items.learn(_item(event), event.get("extensions"))
            grades.expect(offer, answered=action == "Completed" and offer.id not in offers)
            if action not in ("Completed", "Skipped"):
                yield "action other than Completed or Skipped"
            elif not offer.student or not offer.item:
                yield "no actor or item"
            elif offer.id in offers:
                yield "the same event twice"
            else:
                offers[offer.id or f"the event in place {len(offers)}"] = offer
        elif _kind(event) in GRADINGS and last_part(event.get("action")) == "Graded":
            items.learn(at(event, "object", "assignable"))
            yield from grades.learn(event)
        else:
            if _kind(event) == "AssessmentItem":  # described by itself, for events that only name it
                items.learn(event)
            yield "event other than of an item or a grade"
    yield from grades.judge()
    yield from (offer.row(items) for offer in offers.values())


class _Score(NamedTuple):
    given: float
    maximum: float | None


@dataclass(frozen=True)
class _Grade:
    item: str  # empty where the grade does not say
    student: str
    moment: float
    score: _Score

    def fits(self, student: str, item: str) -> bool:
        return (self.student or student) == student and (self.item or item) == item


@dataclass
class _Offer:
    """An item that was completed or skipped; `score` is what its own event or its grade says."""

    id: str | None
    student: str
    item: str
    time: str
    attempts: tuple[str, ...]
    score: _Score | None
    empty: bool
    skipped: bool
    replaced: bool = False

    @classmethod
    def of(cls, event: dict[str, Any]) -> "_Offer":
        generated, skipped = event.get("generated"), last_part(event.get("action")) == "Skipped"
        names = [identity(at(generated, "attempt")), identity(generated)]
        names += [identity(event.get("object"))] if _kind(event.get("object")) == "Attempt" else []
        return cls(
            identity(event) or None,
            identity(event.get("actor")),
            identity(_item(event)),
            str(event.get("eventTime") or ""),
            tuple(name for name in dict.fromkeys(names) if name),
            None if skipped else _own_score(event),
            _says_nothing(generated),
            skipped,
        )

    def row(self, items: "_Items") -> Row | str:
        """A row, or the reason why there is none."""
        skills = JOINER.join(items.concepts(self.item))
        row = Row(self.id, self.student, self.item, skills, None, self.time, unanswered=True)
        if not skills:
            return "no concept"
        if self.replaced:
            return "answer that another one replaced in the same attempt"
        if self.skipped or (self.score is None and self.empty):
            return row
        if self.score is None:
            return "no grade"
        given, maximum = self.score.given, self.score.maximum or items.maximum.get(self.item)
        if maximum is None:
            return "score without a maximum"
        right = given >= maximum
        return row._replace(
            correct=int(right), unanswered=False, part=0 < given < maximum, empty=self.empty and not right
        )


@dataclass
class _Items:
    """What all events together say of an item: one may have what another one leaves out."""

    maximum: dict[str, float] = field(default_factory=dict)
    _concepts: dict[str, tuple[int, set[str]]] = field(default_factory=dict)

    def learn(self, item: Any, extensions: Any = None) -> None:
        name, maximum = identity(item), _number(item, MAXIMUM)
        if maximum is not None and maximum > 0:
            self.maximum[name] = maximum
        kinds = (
            concepts_among(at(item, "extensions"), extensions),
            [concept for objectives in OBJECTIVES for concept in named(at(item, objectives))],
            named(at(item, "keywords")),
            [identity(at(item, "isPartOf"))],
        )
        for rank, found in enumerate(kinds):
            known, concepts = self._concepts.get(name, (len(kinds), set()))
            if any(found) and rank <= known:
                self._concepts[name] = rank, {*found, *(concepts if rank == known else ())}

    def concepts(self, item: str) -> list[str]:
        """Those of the best kind that any event gave."""
        return sorted(self._concepts.get(item, (0, set()))[1])


@dataclass
class _Grades:
    """The grades of attempts, and whose answers to what they may be of."""

    _of: dict[str, list[_Grade]] = field(default_factory=dict)
    _answers: dict[str, dict[tuple[str, str], list[_Offer]]] = field(default_factory=dict)

    def expect(self, offer: _Offer, answered: bool) -> None:
        """Keep what was tried in an attempt, answered or not: the grade of several items is of none of them."""
        for attempt in offer.attempts if offer.student and offer.item else ():
            answers = self._answers.setdefault(attempt, {}).setdefault((offer.student, offer.item), [])
            answers += [offer] if answered else []

    def learn(self, event: dict[str, Any]) -> Iterator[str]:
        """Keep a grade, or give the reason why there is none."""
        score = _score(event.get("generated"))
        told = (event.get("object"), at(event, "generated", "attempt"))
        attempt, item, student = (
            next(filter(None, map(identity, places)), "")
            for places in (told, *([at(one, name) for one in told] for name in ("assignable", "assignee")))
        )
        if score is None or not attempt:
            yield "grade without an attempt or a score"
        else:
            grade = _Grade(item, student, _moment(str(event.get("eventTime"))), score)
            self._of.setdefault(attempt, []).append(grade)

    def judge(self) -> Iterator[str]:
        """Give answers their grades, and say what became of each grade.

        The last grade of an attempt is of the last answer in it: an answer before that was replaced.
        """
        for attempt, grades in self._of.items():
            tried = self._answers.get(attempt, {})
            for grade in sorted(grades, key=lambda grade: grade.moment):
                fitting = [answers for whose, answers in tried.items() if grade.fits(*whose)]
                if len(fitting) != 1 or not fitting[0]:
                    yield "grade of no answer that is here"
                    continue
                *before, last = sorted(fitting[0], key=lambda answer: _moment(answer.time))
                last.score = grade.score
                for answer in before:
                    answer.replaced = answer.score is None
                yield "grade, which counts with its answer"


def _kind(entity: Any) -> str:
    return last_part(at(entity, "type") or at(entity, "@type"))


def _item(event: dict[str, Any]) -> Any:
    """What was answered: the object, or, where that is the attempt, what the attempt was at."""
    thing = event.get("object")
    return at(thing, "assignable") if _kind(thing) == "Attempt" else thing


def _own_score(event: dict[str, Any]) -> _Score | None:
    """The score in what an answer brought forth, or else an extension that says whether it is right."""
    generated = event.get("generated")
    for extensions in (at(generated, "extensions"), event.get("extensions")):
        for name, value in extensions.items() if isinstance(extensions, dict) else ():
            said = str(value).strip().lower()
            if last_part(name).lower() in RIGHT_NAMES and said in (*RIGHT, *WRONG):
                return _Score(float(said in RIGHT), 1.0)
    return _score(generated)


def _score(entity: Any) -> _Score | None:
    given, maximum = _number(entity, GIVEN), _number(entity, MAXIMUM)
    # Some platforms write 0 for a maximum that they do not give.
    return None if given is None else _Score(given, maximum if maximum and maximum > 0 else None)


def _number(entity: Any, names: tuple[str, ...]) -> float | None:
    """The first of these properties that is a number."""
    for name in names:
        value = at(entity, name)
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST:
            return float(value)
    return None


def _says_nothing(response: Any) -> bool:
    """Whether a response is there, and empty."""
    given = [at(response, name) for name in ("value", "values") if isinstance(response, dict) and name in response]
    return bool(given) and not any(named(value) for value in given)


def _moment(time: str) -> float:
    """A time as a number, to tell what came later; what cannot be read came first."""
    try:
        moment = datetime.fromisoformat(time)
    except ValueError:
        return -math.inf
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


SOURCES = [
    Source(
        name="caliper",
        what="events of the items of assessments, from a Caliper sensor",
        published="www.imsglobal.org/spec/caliper/v1p2",
        terms="your own",
        files="*.jsonl, *.ndjson or *.json: events or envelopes, one a line, or a file of one envelope or list",
        read=read,
    )
]
