"""The page of a service: a student's mastery over time, or the class and the log behind the model; no scripts."""

import math
import threading
import time
import uuid
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Annotated, Any, Literal
from urllib.parse import quote

import numpy as np
from fastapi import APIRouter, Depends, Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from markupsafe import Markup
from starlette.exceptions import HTTPException

from tsdr.errors import InputError
from tsdr.models.direction import Direction, direction_of
from tsdr.models.effects import effects_of
from tsdr.models.evidence import FEW, Evidence
from tsdr.report.pages import TONES, templates
from tsdr.serving.databases import StoreError
from tsdr.serving.guard import Turns
from tsdr.serving.measures import Measures
from tsdr.serving.messages import NAME, STUDENT, Name, ServedBundle, StudentName, checked
from tsdr.serving.reference import messages_of, operations_of
from tsdr.serving.served import Serving, diagnosis_of
from tsdr.serving.store import Answer, Student
from tsdr.serving.students import TARGET, Ranked, Students, on_one_core
from tsdr.serving.token import SIGNED_IN, Token

SHOWN_ANSWERS = 50
SHOWN_CONCEPTS = 24
SUGGESTED = 5
LISTED_STUDENTS, LISTED_CONCEPTS = 50, 100
CLASS_CELLS, CLASS_STUDENTS = 100_000, 200  # how much is computed for one look at the class
CLASS_SECONDS = 15.0  # how long a look at the class is kept
FIRST_DATE, LAST_DATE = (datetime(year, 1, 1, tzinfo=UTC).timestamp() for year in (1980, 9999))


@dataclass(frozen=True)
class Row:
    """A concept of the heat map: its mastery before the first answer shown and after each, the latest last."""

    concept: str
    mastery: list[float]


@dataclass(frozen=True)
class Mastered:
    """A concept with its mastery now, and what stands behind it."""

    concept: str
    mastery: float
    evidence: Evidence


@dataclass(frozen=True)
class Past:
    """An answer, or a skipped offer, in a student's history; `number` counts from 1."""

    number: int
    answer: Answer

    @property
    def kind(self) -> str:
        """What came of it, in a word."""
        return {None: "skipped", 0: "wrong", 1: "right"}[self.answer.correct]

    @property
    def sign(self) -> str:
        """The same as a sign."""
        return {None: "–", 0: "✗", 1: "✓"}[self.answer.correct]

    @property
    def when(self) -> str:
        """Date and time, in UTC; a log that was enrolled may have had a mere order, which is none."""
        seconds = self.answer.time or 0.0
        if not FIRST_DATE <= seconds <= LAST_DATE:
            return "–"
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")


@dataclass(frozen=True)
class StudentView:
    """What the page says of a student."""

    id: str
    answers: int
    skips: int
    in_view: int
    now: list[Mastered]
    unlisted_concepts: int
    rows: list[Row]
    history: list[Past]
    suggested: tuple[Ranked, ...]
    hidden_concepts: int


@dataclass(frozen=True)
class ClassConcept:
    """Mastery of a concept in the class: the mean with its 95 % interval over students, and the middle 80 % of them.

    The evidence is that of all students together.
    """

    concept: str
    evidence: Evidence
    mean: float
    low: float
    high: float
    tenth: float
    ninetieth: float


@dataclass(frozen=True)
class ClassView:
    """What the page says of the class."""

    students: int
    counted: int
    concepts: list[ClassConcept]
    hidden_concepts: int
    recent: list[tuple[str, int]]


class Pages:
    """Fills the templates."""

    def __init__(self, students: Students, bundle: ServedBundle) -> None:
        self.students, self.bundle = students, bundle
        self._templates = templates("tsdr.serving")
        self._templates.filters["shade"] = shade
        self._templates.filters["path"] = lambda name: quote(name, safe="")
        self._diagnosis = diagnosis_of(students.model)
        self._effects = effects_of(students.model)
        self._lock = threading.Lock()
        self._looked: tuple[float, ClassView] | None = None

    def of_student(self, student: str, told: str = "") -> str:
        """The page of a student, known or not."""
        view = self._student(student)
        return self._render("student.html", view=view, target=TARGET, told=told, event=uuid.uuid4().hex)

    def of_class(self) -> str:
        """The page of the class."""
        verdict = None if self._diagnosis is None else self._diagnosis.verdict
        view, effects = self._class(), self._effects
        return self._render(
            "class.html",
            view=view,
            verdict=verdict,
            tones=TONES,
            seconds=CLASS_SECONDS,
            hardest=effects.questions[:SUGGESTED] if effects else [],
            easiest=effects.questions[: -SUGGESTED - 1 : -1] if effects else [],
            worth=effects.concepts[:SHOWN_CONCEPTS] if effects else [],
            direction=self._direction,
        )

    def of_interface(self, openapi: Mapping[str, Any]) -> str:
        """The interface of the service."""
        return self._render("reference.html", operations=list(operations_of(openapi)), messages=messages_of(openapi))

    def sign_in(self, wrong: bool) -> str:
        """The form that asks for the token."""
        return self._render("sign_in.html", wrong=wrong)

    @cached_property
    def of_log(self) -> str | None:
        """The whole diagnosis of the log that the model was trained on, if the bundle has it."""
        if self._diagnosis is None:
            return None
        from tsdr.report.diagnosis import diagnosis_page  # draws charts, which takes long to import

        with self._lock:  # the charts are drawn by one thread at a time
            return diagnosis_page(self._diagnosis, "the log behind the model", "the diagnosis in the bundle")

    @cached_property
    def _direction(self) -> Direction:
        """Whether mastery moves the right way: worked out once, which takes a second or some."""
        return direction_of(self.students.model)

    def _render(self, template: str, **content: Any) -> str:
        bundle = self.students.model.bundle
        recent = [student.id for student in self.students.store.recent(LISTED_STUDENTS)]
        about = {
            "backbone": bundle.backbone,
            "concepts": self.students.model.concepts,
            "few": FEW,
            "bundle": self.bundle,
        }
        return self._templates.get_template(template).render(about=about, known=recent, **content)

    def _student(self, student: str) -> StudentView:
        model, store = self.students.model, self.students.store
        found = self.students.mastery(student)
        known = store.find(student) or Student(-1, student, 0, 0)
        latest = store.latest(known, SHOWN_ANSWERS)
        before, events = self.students.in_view(known, SHOWN_ANSWERS)
        ranking = self.students.ranking(found, TARGET)[:SUGGESTED]
        met = list(dict.fromkeys(answer.concept for answer in reversed(latest) if model.knows(answer.concept)))
        shown = list(dict.fromkeys([*met[:SHOWN_CONCEPTS], *(ranked.concept for ranked in ranking)]))
        # A column before the first event that is shown and one after each; one that cannot be read changes nothing.
        read = np.cumsum([0, *(self.students.reads(answer) for answer in latest)])
        steps = [int(step) for step in len(events) - read[-1] + read]
        targets = [model.target(name) for name in shown]
        columns = list(model.at_each_step(events, steps, targets, before))
        rows = [Row(name, [float(column[i]) for column in columns]) for i, name in enumerate(shown)]
        history = [Past(i, answer) for i, answer in enumerate(latest, start=known.events - len(latest) + 1)]
        now = sorted(
            map(Mastered, model.concepts, found.success, found.evidence),
            key=lambda mastered: (mastered.evidence.little, mastered.mastery),
        )
        return StudentView(
            id=student,
            answers=known.answers,
            skips=known.skips,
            in_view=found.in_view,
            now=now[:LISTED_CONCEPTS],
            unlisted_concepts=max(0, len(now) - LISTED_CONCEPTS),
            rows=rows,
            history=history[::-1],
            suggested=ranking,
            hidden_concepts=max(0, len(met) - SHOWN_CONCEPTS),
        )

    def _class(self) -> ClassView:
        """The class as it is, or was a moment ago: to work it out takes seconds where there are many concepts."""
        with self._lock:
            if self._looked is None or time.monotonic() > self._looked[0] + CLASS_SECONDS:
                view = self._class_now()
                self._looked = time.monotonic(), view
            return self._looked[1]

    def _class_now(self) -> ClassView:
        on_one_core()
        model, store = self.students.model, self.students.store
        most = max(2, min(CLASS_STUDENTS, CLASS_CELLS // len(model.concepts)))
        recent = [student for student in store.recent(most) if student.events]
        histories = [self.students.in_view(student)[1] for student in recent]
        concepts = []
        if histories:
            every = np.stack([found.numpy() for found in model.mastery_of(histories)])
            mean = every.mean(0)
            error = every.std(0, ddof=1) / math.sqrt(len(every)) if len(every) > 1 else np.full(len(mean), np.nan)
            low, high = np.clip(mean - 1.96 * error, 0, 1), np.clip(mean + 1.96 * error, 0, 1)
            tenth, ninetieth = np.quantile(every, (0.1, 0.9), axis=0)
            numbers = np.stack([mean, low, high, tenth, ninetieth], axis=1)
            evidence = model.evidence(sum(map(model.met, histories), model.met([])))
            concepts = [
                ClassConcept(model.concepts[i], evidence[i], *map(float, numbers[i]))
                for i in sorted(range(len(mean)), key=lambda i: (evidence[i].little, mean[i]))
            ]
        return ClassView(
            students=store.count(),
            counted=len(histories),
            concepts=concepts[:LISTED_CONCEPTS],
            hidden_concepts=max(0, len(concepts) - LISTED_CONCEPTS),
            recent=[(student.id, student.answers) for student in store.recent(LISTED_STUDENTS)],
        )


def shade(success: float) -> Markup:
    """The colour of a probability and of the letters on it: from pale yellow to dark blue, the better mastered."""
    letters = "#12202c" if success < 0.82 else "#fff"
    return Markup(f"background:hsl({55 + 160 * success:.0f} 60% {92 - 62 * success:.0f}%);color:{letters}")


def page_routes(serving: Serving, token: Token, measures: Measures, turns: Turns) -> APIRouter:
    """The routes of the page."""
    routes = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)
    latest = Pages(serving.students, serving.bundle)

    def pages_now() -> Pages:
        """Those of the model that is served now."""
        nonlocal latest
        students = serving.students
        if latest.students is not students:
            latest = Pages(students, serving.bundle)
        return latest

    def signed_in(request: Request) -> None:
        if not token.signed_in(request):
            raise HTTPException(303, headers={"Location": "/sign-in"})

    @routes.head("/", dependencies=[Depends(signed_in)])
    @routes.get("/", dependencies=[Depends(signed_in)])
    def look(student: Annotated[str, Query(max_length=1000)] = "") -> HTMLResponse:
        pages = pages_now()
        if not student.strip():
            return HTMLResponse(pages.of_class())
        return HTMLResponse(pages.of_student(checked(STUDENT, student.strip(), "student")))

    async def turn(student: Annotated[StudentName, Form()]) -> AsyncIterator[None]:
        async with turns.of(student):
            yield

    @routes.post("/", dependencies=[Depends(signed_in), Depends(turn)])
    def add(
        student: Annotated[StudentName, Form()],
        event: Annotated[Name, Form()],
        concept: Annotated[str, Form(max_length=1000)],
        correct: Annotated[Literal["1", "0", "skipped"], Form()],
        question: Annotated[str, Form(max_length=200)] = "",
    ) -> Response:
        pages = pages_now()
        try:
            asked = checked(NAME, question.strip(), "question") if question.strip() else None
            outcome = None if correct == "skipped" else int(correct)
            pages.students.model.target(concept)  # what is typed by hand and not known is a slip, not a new concept
            added = pages.students.add(student, [Answer(event, asked, concept, outcome)])
        except StoreError:
            raise
        except InputError as error:
            return HTMLResponse(pages.of_student(student, told=str(error)), 422)
        measures.stored(added.answers, added.skips)
        return RedirectResponse(f"/?student={quote(student, safe='')}", 303)

    @routes.get("/log", dependencies=[Depends(signed_in)])
    def log() -> HTMLResponse:
        page = pages_now().of_log
        if page is None:
            raise HTTPException(404, "the bundle has no diagnosis; tsdr diagnose LOG --model BUNDLE makes one")
        return HTMLResponse(page)

    @routes.get("/docs")
    def interface(request: Request) -> HTMLResponse:
        if not token.brought_by(request):
            raise HTTPException(303, headers={"Location": "/sign-in"})
        return HTMLResponse(pages_now().of_interface(request.app.openapi()))

    @routes.get("/sign-in")
    def ask_token() -> HTMLResponse:
        return HTMLResponse(pages_now().sign_in(wrong=False))

    @routes.post("/sign-in")
    def sign_in(request: Request, given: Annotated[str, Form(alias="token", max_length=1000)]) -> Response:
        response = RedirectResponse("/", 303)
        if not token.is_asked:
            return response
        if not token.is_right(given):
            return HTMLResponse(pages_now().sign_in(wrong=True), 401)
        secure = request.url.scheme == "https"
        response.set_cookie(SIGNED_IN, given, httponly=True, samesite="strict", secure=secure)
        return response

    return routes
