"""The service: answers in, mastery out, over HTTP."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path as FolderPath
from typing import Annotated, Any

from anyio import CapacityLimiter, fail_after, to_thread
from fastapi import APIRouter, Body, Depends, FastAPI, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from tsdr.errors import InputError, in_a_sentence
from tsdr.models.model import Model
from tsdr.serving.databases import StoreError
from tsdr.serving.guard import PROBLEM, Guard, Turns, problem
from tsdr.serving.measures import CONTENT_TYPE, Measures
from tsdr.serving.messages import (
    MOST_ANSWERS,
    MOST_RANKED,
    AnswersAdded,
    AnswersFound,
    Health,
    MasteryFound,
    NewAnswer,
    NewAnswers,
    NextFound,
    OfferMade,
    Predicted,
    PredictRequest,
    PredictResponse,
    Problem,
    RankedConcept,
    Renewed,
    StoredAnswer,
    StudentName,
)
from tsdr.serving.page import page_routes
from tsdr.serving.served import Serving
from tsdr.serving.store import ConflictError, Store, Student
from tsdr.serving.students import TARGET, on_one_core
from tsdr.serving.token import Token

EXPLORE, RANKED, LISTED = 0.1, 5, 100
_AMONG = "Offer one of these: their names, separated by commas or as several `concepts`; any, if left out."
WRITERS = 4  # threads that write at a time: more would only wait for each other
THREADS = WRITERS + 2  # that answer at a time: those who read never wait for those who write
HEALTH_SECONDS = 3.0
StudentId = Annotated[StudentName, Path(description="The platform's own id of the student.")]
_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "content": {PROBLEM: {"schema": Problem.model_json_schema()}}, "description": why}
    for status, why in {
        400: "The request cannot be read.",
        401: "The token is missing or wrong.",
        413: "The request is too large.",
        422: "The request was read, and refused with the reason.",
        503: "The store cannot be used now; Retry-After says when to send the request again.",
    }.items()
}


def create_app(
    model: Model,
    store: Store,
    *,
    token: str | None = None,
    hosts: Iterable[str] | None = None,
    measures: Measures | None = None,
    folder: FolderPath | None = None,
    tell_others: Callable[[], None] = lambda: None,
) -> FastAPI:
    """The service of a model and a store, and of the next model that comes into the `folder`.

    It counts in `measures` of its own unless some are given; of another model, it can `tell_others` of its processes.

    With a token, every request but `/health` must bring it. With `hosts`, requests under another host name are refused:
    a page of another site could otherwise reach a service on the visitor's own machine by a name that it controls.
    """
    secret = Token(token)
    serving, measures, turns = Serving(model, store, folder, tell_others), measures or Measures(), Turns(WRITERS)

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        to_thread.current_default_thread_limiter().total_tokens = THREADS
        yield
        store.close()

    app = FastAPI(
        title="tsdr",
        description="What students know, from the answers that they gave.",
        docs_url=None,  # their pages load scripts from another host
        redoc_url=None,
        openapi_url=None,
        lifespan=life,
    )
    app.add_middleware(Guard, measures=measures, hosts=hosts)
    _explain_errors(app)
    signed = [Depends(_token_check(secret)), Depends(_refuse_unknown_parameters)]
    app.include_router(_student_routes(serving, measures, turns), dependencies=signed)
    app.include_router(_other_routes(app, serving, measures), dependencies=signed)
    app.include_router(page_routes(serving, secret, measures, turns))

    @app.head("/health", include_in_schema=False)
    @app.get("/health", responses={503: _ERRORS[503]})
    async def health() -> Health:
        """Whether the model is loaded and answers can be stored."""
        return await look()

    look = _health_check(serving, store)
    app.state.serving = serving
    return app


def _health_check(serving: Serving, store: Store) -> Callable[[], Awaitable[Health]]:
    """A look at the store by a thread of its own: not to be had while it waits, and no other request waits for it."""
    own = CapacityLimiter(1)

    def look() -> Health:
        store.check()
        model = serving.students.model
        return Health(
            status="ok",
            bundle=serving.bundle,
            backbone=model.bundle.backbone,
            concepts=len(model.concepts),
            students=store.count(),
        )

    async def check() -> Health:
        try:
            with fail_after(HEALTH_SECONDS):
                return await to_thread.run_sync(look, abandon_on_cancel=True, limiter=own)
        except TimeoutError as error:
            raise StoreError("the store does not answer") from error

    return check


def _student_routes(serving: Serving, measures: Measures, turns: Turns) -> APIRouter:
    routes = APIRouter(prefix="/students/{student}", responses=_ERRORS, tags=["students"])

    async def turn(student: StudentId) -> AsyncIterator[None]:
        async with turns.of(student):
            yield

    in_turn = [Depends(turn)]

    @routes.post(
        "/answers",
        responses={409: _ERRORS[400] | {"description": "An event with another content."}},
        dependencies=in_turn,
    )
    def add_answers(student: StudentId, answers: Annotated[NewAnswers, Body()]) -> AnswersAdded:
        """Store answers and skipped offers, one or several, all or none: durable once acknowledged, each event once."""
        given = [answers] if isinstance(answers, NewAnswer) else answers
        students = serving.students
        added = students.add(student, [answer.to_store() for answer in given])
        measures.stored(added.answers, added.skips)
        return AnswersAdded(
            added=added.answers + added.skips,
            answers=added.student.answers,
            skips=added.student.skips,
            unknown_concepts=students.unknown(answer.concept for answer in given),
        )

    @routes.get("/answers")
    def answers(
        student: StudentId,
        after: Annotated[int, Query(ge=0, lt=1 << 31, description="Leave out so many of the first.")] = 0,
        count: Annotated[int, Query(ge=1, le=MOST_ANSWERS, description="How many to list.")] = LISTED,
    ) -> AnswersFound:
        """List answers and skipped offers in the order in which they were acknowledged, page by page."""
        store = serving.students.store
        known = store.find(student) or Student(-1, student, 0, 0)
        end = min(after + count, known.events)
        found = store.latest(known, max(0, end - after), end)
        return AnswersFound(
            answers=known.answers,
            skips=known.skips,
            events=[
                StoredAnswer(number=number, skipped=answer.correct is None, **vars(answer))
                for number, answer in enumerate(found, after + 1)
            ],
            next=end if end < known.events else None,
        )

    @routes.get("/mastery")
    def mastery(student: StudentId) -> MasteryFound:
        """The probability of success on every concept; a student who is not known has no answers."""
        students = serving.students
        found, concepts = students.mastery(student), students.model.concepts
        return MasteryFound.model_construct(
            answers=found.answers,
            skips=found.skips,
            in_view=found.in_view,
            mastery=dict(zip(concepts, found.success, strict=True)),
            evidence=dict(zip(concepts, found.evidence, strict=True)),
        )

    @routes.get("/next", dependencies=in_turn)
    def ask_next(
        student: StudentId,
        target: Annotated[float, Query(ge=0, le=1, description="The success probability to come close to.")] = TARGET,
        explore: Annotated[float, Query(ge=0, le=1, description="Share of offers drawn at random.")] = EXPLORE,
        count: Annotated[int, Query(ge=1, le=MOST_RANKED, description="How many concepts to rank.")] = RANKED,
        concepts: Annotated[list[str] | None, Query(description=_AMONG)] = None,
    ) -> NextFound:
        """Offer a concept, and store the offer with its propensity: exploring makes the next log less selected."""
        students = serving.students
        among = None if concepts is None else _named(concepts, students.model)
        found = students.next(student, target, explore, count, among)
        measures.offer(found.offer.explored)
        shown = {name: getattr(found.offer, name) for name in ("concept", "success", "propensity", "explored")}
        return NextFound(
            answers=found.offer.answers,
            target=target,
            explore=explore,
            next=OfferMade(offer=found.number, **shown),
            ranking=[RankedConcept(**vars(ranked)) for ranked in found.ranking],
            unknown_concepts=students.unknown(among or []),
        )

    @routes.delete(
        "",
        status_code=204,
        responses={404: _ERRORS[400] | {"description": "There is no such student."}},
        dependencies=in_turn,
    )
    def delete(student: StudentId) -> None:
        """Forget a student: every answer and every offer."""
        if not serving.students.delete(student):
            raise HTTPException(404, "there is no such student")

    return routes


def _other_routes(app: FastAPI, serving: Serving, measures: Measures) -> APIRouter:
    routes = APIRouter(responses=_ERRORS)

    @routes.post("/predict")
    def predict(asked: PredictRequest) -> PredictResponse:
        """Predict for a history that comes with the request; nothing is stored."""
        on_one_core()
        students = serving.students
        model = students.model
        session = model.session()
        unknown = students.unknown(answer.concept for answer in asked.history)
        for answer in asked.history:
            if not model.knows(answer.concept):
                continue
            if answer.outcome is None:
                session.skip(answer.question, answer.concept)
            else:
                session.observe(answer.question, answer.concept, answer.outcome)
        targets: list[tuple[str | None, str]] = [(None, concept) for concept in model.concepts]
        if asked.targets is not None:
            targets = [(target.question, target.concept) for target in asked.targets]
        found = session.mastery_of_all().tolist() if asked.targets is None else session.predict_all(targets)
        evidence = session.evidence()
        return PredictResponse(
            predictions=[
                Predicted(question=question, concept=concept, success=success, evidence=evidence[concept])
                for (question, concept), success in zip(targets, found, strict=True)
            ],
            unknown_concepts=unknown,
        )

    @routes.post("/model")
    def renew() -> Renewed:
        """Serve the bundle that is in its folder by now; until it is checked, and if it is refused, the old one."""
        changed = serving.renew()
        serving.tell_others()
        return Renewed(bundle=serving.bundle, changed=changed)

    @routes.get("/metrics", response_class=Response, responses={200: {"content": {CONTENT_TYPE: {}}}})
    def metrics() -> Response:
        """Counts and times, for Prometheus."""
        return Response(measures.text(), media_type=CONTENT_TYPE)

    @routes.get("/openapi.json", include_in_schema=False)
    def openapi() -> dict[str, Any]:
        return app.openapi()

    return routes


def _token_check(token: Token) -> Any:
    def check(request: Request) -> None:
        if not token.brought_by(request):
            raise HTTPException(401, "the token is missing or wrong", {"WWW-Authenticate": "Bearer"})

    return check


def _refuse_unknown_parameters(request: Request) -> None:
    """Refuse what a route does not take in its query: a slip there would be ignored, and its answer believed."""
    takes = sorted(field.alias for field in request.scope["route"].dependant.query_params)
    for name in request.query_params:
        if name not in takes:
            raise HTTPException(422, f"there is no parameter {name!r}; this takes {', '.join(takes) or 'none'}")


def _named(given: Iterable[str], model: Model) -> list[str]:
    """Names of concepts, several in one separated by commas; but a concept may have a comma in its name."""
    return [name for one in given for name in ([one] if model.knows(one) else map(str.strip, one.split(",")))]


def _explain_errors(app: FastAPI) -> None:
    """Every error is a problem+json, with what is wrong and nothing of what is inside."""

    @app.exception_handler(RequestValidationError)
    def wrong(request: Request, error: RequestValidationError) -> Response:
        unread = any(fault["type"] == "json_invalid" for fault in error.errors())
        faults = (f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()[:10])
        return problem(400 if unread else 422, "; ".join(faults))

    @app.exception_handler(InputError)
    def refused(request: Request, error: InputError) -> Response:
        return problem(409 if isinstance(error, ConflictError) else 422, str(error))

    @app.exception_handler(HTTPException)
    def declined(request: Request, error: HTTPException) -> Response:
        return problem(error.status_code, str(error.detail), dict(error.headers or {}))

    @app.exception_handler(StoreError)
    def unavailable(request: Request, error: StoreError) -> Response:
        # What the database says, without the statement: that would name a student.
        cause = getattr(error.__cause__, "orig", None)
        logging.getLogger(__name__).error("%s%s", error, f" ({in_a_sentence(cause)})" if cause else "")
        return problem(503, str(error), {"Retry-After": "1"})

    @app.exception_handler(Exception)
    def failed(request: Request, error: Exception) -> Response:
        return problem(500, "something went wrong here, not in the request")
