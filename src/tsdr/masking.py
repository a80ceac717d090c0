"""Complete response matrices logged through a known skip policy: real answers of which the whole truth is known."""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, validate_call

from tsdr.errors import InputError
from tsdr.log import Log, with_skipped
from tsdr.simulator import Floats, Probability, skip_probability

_NEWTON_ROUNDS = 1000


@dataclass(frozen=True)
class MaskedResponses:
    """A complete response matrix as a selected log, and the answers that the log does not show.

    `log` has the answers, `skipped` the offers that were passed over. `answers[s, q]` is the answer of student
    s to question q, logged or not; `success[s, q]` is the item-response estimate that decided the skips;
    `student`, `question` and `concept` (of each question) name the axes.
    """

    log: Log
    skipped: Log
    answers: NDArray[np.int8]
    success: Floats
    student: tuple[str, ...]
    question: tuple[str, ...]
    concept: tuple[str, ...]

    def offers(self) -> Log:
        """Answers and skipped offers in one log, as a platform that records both would have it."""
        return with_skipped(self.log, self.skipped)

    def truth(self) -> "AnswerTruth":
        """What every student knows of every concept, just before each answer of the log.

        It is the share right of the concept's questions that the log has not shown by then: each is asked once.
        """
        concepts = sorted(set(self.concept))
        of_concept = np.array([[name == concept for concept in concepts] for name in self.concept], dtype=float)
        left = np.ones((len(self.student), self.answers.shape[1] + 1, self.answers.shape[1]))
        rows = self.log.answered.with_columns(answer=pl.int_range(pl.len()).over("student"))
        student, question = (
            rows[column].replace_strict(list(names), list(range(len(names))), return_dtype=pl.Int64).to_numpy()
            for column, names in (("student", self.student), ("question", self.question))
        )
        left[student, rows["answer"].to_numpy() + 1, question] = 0
        left = left.cumprod(1)[:, :-1]
        with np.errstate(invalid="ignore"):
            share = (left * self.answers[:, None] @ of_concept) / (left @ of_concept)
        return AnswerTruth(self.student, tuple(concepts), share.astype(np.float32))


@dataclass(frozen=True)
class AnswerTruth:
    """The truth of a complete response matrix; not a number where all questions of a concept have been answered."""

    student: tuple[str, ...]
    concept: tuple[str, ...]
    probability: NDArray[np.float32]


@validate_call(config=ConfigDict(arbitrary_types_allowed=True))
def mask_responses(
    matrix_log: Log,
    gamma: Probability = 0.8,
    seed: Annotated[int, Field(ge=0)] = 1,
    *,
    too_hard: Probability = 0.25,
    too_easy: Probability = 0.75,
) -> MaskedResponses:
    """Log a complete response matrix (every student answered every question once) through the skip policy.

    Each student is offered all questions in a random order of their own and skips each with
    `skip_probability(p, gamma, too_hard, too_easy)`, p being the estimate of a Rasch model of the matrix.
    `time` is the place of the offer in that order.
    """
    names, concept, answers = _matrix(matrix_log)
    success = rasch_success(answers)
    rng = np.random.default_rng(seed)
    order = rng.permuted(np.tile(np.arange(len(names["question"])), (len(answers), 1)), axis=1)
    skip = rng.random(answers.shape) < skip_probability(success, gamma, too_hard, too_easy)
    student = np.repeat(np.arange(len(answers)), answers.shape[1])
    question = order.ravel()
    offers = pl.DataFrame(
        {
            "student": pl.Series(names["student"]).gather(student),
            "question": pl.Series(names["question"]).gather(question),
            "concept": pl.Series(concept).gather(question),
            "correct": answers[student, question],
            "time": np.tile(np.arange(answers.shape[1]), len(answers)),
            "skipped": skip[student, question],
        }
    )
    return MaskedResponses(
        log=Log(offers.filter(~pl.col("skipped")).drop("skipped")),
        skipped=Log(offers.filter("skipped").with_columns(correct=pl.lit(None, pl.Int8))),
        answers=answers,
        success=success,
        concept=tuple(concept),
        **names,
    )


def rasch_success(answers: NDArray[np.integer[Any]], prior_sd: float = 2.0, tolerance: float = 1e-8) -> Floats:
    """The success probabilities of a Rasch model, sigmoid(ability of the student - difficulty of the question).

    Both have a normal prior with mean 0 and standard deviation `prior_sd`, which keeps students and questions
    with all answers right, or none, finite. Newton's steps on abilities and difficulties in turn climb to the
    one maximum of the posterior.
    """
    ability, difficulty = np.zeros(answers.shape[0]), np.zeros(answers.shape[1])
    precision = prior_sd**-2
    for _ in range(_NEWTON_ROUNDS):
        largest = 0.0
        for value, axis, sign in ((ability, 1, 1), (difficulty, 0, -1)):
            success = 1 / (1 + np.exp(difficulty - ability[:, None]))
            slope = sign * (answers - success).sum(axis=axis) - precision * value
            curvature = (success * (1 - success)).sum(axis=axis) + precision
            value += slope / curvature
            largest = max(largest, float(np.abs(slope / curvature).max()))
        if largest < tolerance:
            return 1 / (1 + np.exp(difficulty - ability[:, None]))
    raise RuntimeError(f"the Rasch model has not settled after {_NEWTON_ROUNDS} rounds of Newton's steps")


def _matrix(log: Log) -> tuple[dict[str, tuple[str, ...]], list[str], NDArray[np.int8]]:
    """The names along the axes, the concept of each question, and the answers [students, questions]."""
    frame = log.answered.sort("student", "question")
    if not frame.height:
        raise InputError("the responses are not complete: there is no answer in the log")
    questions = frame.unique(["question", "concept"]).sort("question")
    students = tuple(frame["student"].unique(maintain_order=True))
    if questions["question"].is_duplicated().any():
        twice = questions.filter(questions["question"].is_duplicated())["question"][0]
        raise InputError(f"question {twice!r} has two concepts; give it one, the set of both")
    cells = len(students) * questions.height
    if frame.height != cells or frame.select("student", "question").is_duplicated().any():
        raise InputError(
            f"the responses are not complete: {len(students):,} students and {questions.height:,} questions need "
            f"{cells:,} answers, one for each pair, and there are {frame.height:,} "
            f"({frame.n_unique(['student', 'question']):,} different pairs)"
        )
    answers = frame["correct"].to_numpy().reshape(len(students), questions.height)
    names = {"student": students, "question": tuple(questions["question"])}
    return names, questions["concept"].to_list(), answers
