"""What the service takes and gives, with a limit on everything that it takes."""

import unicodedata
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, StrictBool, StringConstraints, Tag

from tsdr.serving.store import Answer

LONGEST_NAME = 200
MOST_ANSWERS = 1000
MOST_RANKED = 100
_EVENT = "The client's own name for this answer: sent twice, it counts once."


def _printable(name: str) -> str:
    if any(unicodedata.category(character) in ("Cc", "Cs", "Co", "Cn") for character in name) or not name.strip():
        raise ValueError("a name has letters, digits or signs, and nothing that cannot be written")
    return name


Name = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_NAME), AfterValidator(_printable)]


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Answered(_Message):
    """A question that was answered; without a question, the concept stands in."""

    question: Name | None = None
    concept: Name
    correct: StrictBool | Literal[0, 1]


class NewAnswer(Answered):
    """An answer of a student; without a time, the service's own."""

    event: Annotated[Name, Field(description=_EVENT)]
    time: datetime | None = None

    def to_store(self) -> Answer:
        """As it is stored; a time without a zone is UTC."""
        when = self.time if self.time is None or self.time.tzinfo else self.time.replace(tzinfo=UTC)
        return Answer(
            event=self.event,
            question=self.question,
            concept=self.concept,
            correct=int(self.correct),
            time=None if when is None else when.timestamp(),
        )


def _one_or_many(value: Any) -> str:
    return "many" if isinstance(value, list) else "one"


_Many = Annotated[list[NewAnswer], Field(min_length=1, max_length=MOST_ANSWERS)]
NewAnswers = Annotated[Annotated[NewAnswer, Tag("one")] | Annotated[_Many, Tag("many")], Discriminator(_one_or_many)]


class Added(_Message):
    """How many answers were new, and how many the student has now."""

    added: int
    answers: int


class MasteryFound(_Message):
    """How many answers of the student are known, and the probability of success on every concept."""

    answers: int
    mastery: dict[str, float]


class Asked(_Message):
    """A question about a concept."""

    question: Name | None = None
    concept: Name


class PredictRequest(_Message):
    """Answers so far, the oldest first, and what to predict; every concept if nothing is named."""

    history: Annotated[list[Answered], Field(max_length=MOST_ANSWERS)] = []
    targets: Annotated[list[Asked], Field(min_length=1, max_length=MOST_ANSWERS)] | None = None


class Predicted(_Message):
    """A target with its probability of success."""

    question: str | None
    concept: str
    success: float


class PredictResponse(_Message):
    """The probability of success for every target."""

    predictions: list[Predicted]


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


class Health(_Message):
    """Whether the service can answer."""

    status: Literal["ok"]
    backbone: str
    concepts: int
    students: int


class Problem(BaseModel):
    """An error, as RFC 9457 has it."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
