"""What the service takes and gives, with a limit on everything that it takes."""

import unicodedata
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    StrictBool,
    StringConstraints,
    Tag,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from tsdr.errors import InputError, in_a_sentence
from tsdr.models.evidence import Evidence
from tsdr.serving.store import Answer

LONGEST_NAME, LONGEST_CONCEPT = 200, 10_000
MOST_ANSWERS = 1000
MOST_RANKED = 100
_EVENT = "The client's own name for this answer, or skip: sent twice, it counts once."
_OFFER = "The number of the offer, as `next` gave it, that this answers or turns down."
_UNKNOWN = "Concepts that the model was not trained on: kept, and passed over until a model knows them."


def _printable(name: str) -> str:
    unwritten = ("Cc", "Cs", "Co", "Cn")
    if any(unicodedata.category(character) in unwritten or character == "\ufffd" for character in name):
        raise ValueError("a name has nothing in it that cannot be written, or was not UTF-8")
    if name != name.strip():
        raise ValueError("a name does not begin or end with a space")
    return name


def _in_a_path(name: str) -> str:
    if "/" in name:
        raise ValueError("the name of a student has no slash in it")
    return name


Name = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_NAME), AfterValidator(_printable)]
StudentName = Annotated[Name, AfterValidator(_in_a_path)]
# The model's own names, however they are written; others are checked where they are stored.
Concept = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_CONCEPT)]
NAME: TypeAdapter[str] = TypeAdapter(Name)
STUDENT: TypeAdapter[str] = TypeAdapter(StudentName)
NEW_CONCEPT: TypeAdapter[str] = TypeAdapter(Annotated[Concept, AfterValidator(_printable)])


def checked(kind: TypeAdapter[str], name: str, what: str) -> str:
    """A name as the service takes it, or a refusal."""
    try:
        return kind.validate_python(name)
    except ValidationError as error:
        raise InputError(f"{what} {name[:LONGEST_NAME]!r}: {in_a_sentence(error)}") from error


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Answered(_Message):
    """A question that was answered, or `skipped`: shown and turned down; without a question, the concept stands in."""

    question: Name | None = None
    concept: Concept
    correct: StrictBool | Literal[0, 1] | None = None
    skipped: StrictBool = False

    @model_validator(mode="after")
    def _one_of_the_two(self) -> Self:
        if self.skipped == (self.correct is not None):
            raise ValueError("an answer has `correct`, true or false; an offer without one has `skipped`, true")
        return self

    @property
    def outcome(self) -> int | None:
        """0 or 1, or nothing if it was skipped."""
        return None if self.correct is None else int(self.correct)


class NewAnswer(Answered):
    """An answer of a student, or an offer that was skipped; without a time, the service's own."""

    event: Annotated[Name, Field(description=_EVENT)]
    time: datetime | None = None
    offer: Annotated[int, Field(strict=True, ge=1, lt=1 << 63, description=_OFFER)] | None = None

    def to_store(self) -> Answer:
        """As it is stored; a time without a zone is UTC."""
        when = self.time if self.time is None or self.time.tzinfo else self.time.replace(tzinfo=UTC)
        return Answer(
            event=self.event,
            question=self.question,
            concept=self.concept,
            correct=self.outcome,
            time=None if when is None else when.timestamp(),
            offer=self.offer,
        )


def _one_or_many(value: Any) -> str:
    return "many" if isinstance(value, list) else "one"


_Many = Annotated[list[NewAnswer], Field(min_length=1, max_length=MOST_ANSWERS)]
NewAnswers = Annotated[Annotated[NewAnswer, Tag("one")] | Annotated[_Many, Tag("many")], Discriminator(_one_or_many)]


UnknownConcepts = Annotated[list[str], Field(description=_UNKNOWN)]


class AnswersAdded(_Message):
    """How many of what was sent is new, and how many answers and skipped offers the student has now."""

    added: int
    answers: int
    skips: int
    unknown_concepts: UnknownConcepts


class StoredAnswer(_Message):
    """An answer or a skipped offer as it is stored: the `number` counts from 1, `time` is in seconds since 1970."""

    number: int
    event: str
    question: str | None
    concept: str
    correct: int | None
    skipped: bool
    time: float | None
    offer: int | None


class AnswersFound(_Message):
    """Answers and skipped offers of a student in the order in which they came; `next` is where to read on, if any."""

    answers: int
    skips: int
    events: list[StoredAnswer]
    next: int | None


class MasteryFound(_Message):
    """How many answers and skipped offers of the student are known, and the chance of success on every concept.

    `in_view` is how many of the answers the model goes by, and `evidence` what stands behind each mastery.
    """

    answers: int
    skips: int
    in_view: int
    mastery: dict[str, float]
    evidence: dict[str, Evidence]


class Asked(_Message):
    """A question about a concept."""

    question: Name | None = None
    concept: Concept


class PredictRequest(_Message):
    """Answers and skips so far, the oldest first, and what to predict; every concept if nothing is named."""

    history: Annotated[list[Answered], Field(max_length=MOST_ANSWERS)] = []
    targets: Annotated[list[Asked], Field(min_length=1, max_length=MOST_ANSWERS)] | None = None


class Predicted(_Message):
    """A target with its probability of success, and what stands behind it."""

    question: str | None
    concept: str
    success: float
    evidence: Evidence


class PredictResponse(_Message):
    """The probability of success for every target."""

    predictions: list[Predicted]
    unknown_concepts: UnknownConcepts


class OfferMade(_Message):
    """What to ask now; `propensity` is how likely this offer was, and `explored` whether it was drawn at random."""

    offer: int
    concept: str
    success: float
    propensity: float
    explored: bool


class RankedConcept(_Message):
    """A concept in the order of closeness to the target."""

    concept: str
    success: float
    propensity: float


class NextFound(_Message):
    """What to ask next, drawn and stored; and the concepts closest to the target."""

    answers: int
    target: float
    explore: float
    next: OfferMade
    ranking: list[RankedConcept]
    unknown_concepts: UnknownConcepts


class ServedBundle(_Message):
    """The bundle that is served: its folder's name, how the digest of its weights begins, and since when it is."""

    name: str | None
    weights: str | None
    since: datetime


class Renewed(_Message):
    """The bundle that is served now, and whether it is another one than before."""

    bundle: ServedBundle
    changed: bool


class Health(_Message):
    """Whether the service can answer."""

    status: Literal["ok"]
    bundle: ServedBundle
    backbone: str
    concepts: int
    students: int


class Problem(BaseModel):
    """An error, as RFC 9457 has it."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
