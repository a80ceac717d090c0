"""Logs that are selected by a known policy, with the whole truth about every cell (student, step, concept)."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, PositiveFloat, PositiveInt, validate_call

from tsdr.errors import InputError, in_a_sentence
from tsdr.files import replacing
from tsdr.log import Log, with_skipped

Floats = NDArray[np.floating[Any]]
Probability = Annotated[float, Field(ge=0, le=1)]

# Students are simulated in blocks of this many, each with a random stream of its own: memory for the working
# arrays does not grow with the number of students, and the first students stay the same when more are added.
BLOCK = 1000


class Population(BaseModel):
    """How students learn and answer, and what the questions are like.

    A student's mastery m of a concept starts at a draw from Beta(`initial_mastery`) and grows by
    `learning_rate` (1 - m) with every right answer. A question of difficulty d is answered right with
    probability guess + (1 - guess - slip) sigmoid(slope (m - d)). Difficulties are drawn around
    `difficulty_mean`, with a part of the question's own and one that its concept's questions share, and are
    standardised under the questions' popularity, so that seeds differ little in how hard the log is.
    Popularity falls with the question's rank as rank^-zipf. A student gives `answers` (from, to) answers.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    initial_mastery: tuple[PositiveFloat, PositiveFloat] = (0.5, 5.0)
    learning_rate: Probability = 0.55
    guess: Probability = 0.1
    slip: Probability = 0.05
    slope: PositiveFloat = 2.5
    difficulty_mean: float = 0.12
    difficulty_sd: NonNegativeFloat = 0.3
    concept_sd: NonNegativeFloat = 0.2
    zipf: NonNegativeFloat = 0.8
    answers: tuple[PositiveInt, PositiveInt] = (30, 200)


class Recommender(BaseModel):
    """A platform that offers what it believes to suit the student.

    A question's popularity is multiplied by exp(-|estimate - target| / width). `estimate="history"` is what a
    platform can know: the student's share right in the concept so far, smoothed by `prior` (right, wrong)
    answers. `estimate="truth"` is the true success probability of the question, which no platform knows.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    target: Probability = 0.7
    width: PositiveFloat = 0.1
    estimate: Literal["history", "truth"] = "history"
    prior: tuple[PositiveFloat, PositiveFloat] = (1.0, 1.0)


@dataclass(frozen=True)
class QuestionBank:
    """The questions, grouped by concept: questions of concept c are neighbours in every array."""

    question: NDArray[np.str_]
    concept: NDArray[np.int64]
    difficulty: Floats
    popularity: Floats

    def by_concept(self, values: Floats) -> Floats:
        """Sum values [..., questions] over the questions of each concept."""
        starts = np.flatnonzero(np.diff(self.concept, prepend=-1))
        return np.add.reduceat(values, starts, axis=-1)


@dataclass(frozen=True)
class Truth:
    """What is true just before each answer of a simulated log.

    `probability[s, t, c]` is the chance that student s, asked a question of concept c as answer t, is right:
    the plain mean over the concept's questions. `propensity[s, t, c]` is the chance that c is the concept that
    is logged there. Both are padded with 0 beyond `length[s]`. `student` and `concept` name the axes.
    """

    student: NDArray[np.str_]
    concept: NDArray[np.str_]
    length: NDArray[np.int64]
    probability: NDArray[np.float32]
    propensity: NDArray[np.float32]
    initial_mastery: Floats
    bank: QuestionBank
    population: Population

    def success(self, mastery: Floats, question: NDArray[np.int64]) -> Floats:
        """The question-level truth: the chance of a right answer to a question of the bank at a given mastery."""
        return success_probability(mastery, self.bank.difficulty[question], self.population)

    def answers_of(self, log: Log) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The question, by its place in the bank, and the correctness of each answer, [students, answers] each."""
        columns = self._coded(log, pl.int_range(pl.len()).over("student").alias("step"), pl.col("correct"))
        found = np.zeros((2, len(self.student), int(self.length.max())), np.int64)
        student, step = columns["student"].to_numpy(), columns["step"].to_numpy()
        for of, name in zip(found, ("question", "correct"), strict=True):
            of[student, step] = columns[name].to_numpy()
        return found[0], found[1]

    def _coded(self, log: Log, *more: pl.Expr) -> pl.DataFrame:
        """The answers of a log, students and questions by their places, with more columns."""
        index = {
            "student": {name: i for i, name in enumerate(self.student.tolist())},
            "question": {name: i for i, name in enumerate(self.bank.question.tolist())},
        }
        coded = (pl.col(name).replace_strict(of, return_dtype=pl.Int64) for name, of in index.items())
        return log.answered.select(*coded, *more)

    def of_answers(self, log: Log) -> Floats:
        """The true success probability of every answer of the log, at the very question that was asked.

        A mastery is known from where it started and how many right answers the concept has had since.
        """
        right_before = pl.col("correct").cum_sum().over("student", "concept") - pl.col("correct")
        columns = self._coded(log, right_before.cast(pl.Int64).alias("right"))
        student, question, right = (columns[name].to_numpy() for name in ("student", "question", "right"))
        start = self.initial_mastery[student, self.bank.concept[question]]
        return self.success(1 - (1 - start) * (1 - self.population.learning_rate) ** right, question)


@dataclass(frozen=True)
class Simulation:
    """A simulated log, the offers that were skipped, and the truth."""

    log: Log
    skipped: Log
    truth: Truth
    options: dict[str, Any]

    def offers(self) -> Log:
        """Answers and skipped offers in one log, as a platform that records both would have it."""
        return with_skipped(self.log, self.skipped)

    def exposure(self) -> NDArray[np.float32]:
        """How likely the question of each answer was to be logged there, [students, answers], padded with 1.

        Relative to an even choice of a concept, and of a question within it. Worked out by going through the log once
        more: what was offered depends on the answers before, and what was skipped on mastery.
        """
        truth, bank, options = self.truth, self.truth.bank, self.options
        recommender = options["recommender"] and Recommender.model_validate(options["recommender"])
        skipping = (options[name] for name in ("gamma", "too_hard", "too_easy"))
        policy = _Policy(bank, truth.population, recommender, *skipping)
        question, correct = truth.answers_of(self.log)
        even = len(truth.concept) * np.bincount(bank.concept)[bank.concept]
        found = np.ones(question.shape, np.float32)
        mastery = truth.initial_mastery.copy()
        right, wrong = np.zeros_like(mastery), np.zeros_like(mastery)
        for step in range(question.shape[1]):
            student = np.flatnonzero(truth.length > step)
            asked, answer = question[student, step], correct[student, step]
            success = success_probability(mastery[student][:, bank.concept], bank.difficulty, truth.population)
            offer = policy.offer(success, right[student], wrong[student])
            logged = policy.logged(offer, policy.skip(success))
            found[student, step] = (logged * even)[np.arange(len(student)), asked]
            concept = bank.concept[asked]
            right[student, concept] += answer
            wrong[student, concept] += 1 - answer
            mastery[student, concept] += answer * truth.population.learning_rate * (1 - mastery[student, concept])
        return found

    def write(self, folder: str | Path) -> None:
        """Write `log.parquet`, `skipped.parquet`, `truth.npz` and `options.json`: same seed, same bytes."""
        folder = Path(folder)
        if (folder / "log.parquet").exists() and not (folder / "truth.npz").exists():
            raise InputError(f"{folder}: has a log.parquet that was not simulated; choose another folder")
        (folder / "truth.npz").unlink(missing_ok=True)  # written last: a folder that has it is whole
        self.log.write(folder / "log.parquet")
        self.skipped.write(folder / "skipped.parquet")
        truth, bank = self.truth, self.truth.bank
        with replacing(folder / "truth.npz") as temporary, temporary.open("wb") as file:
            np.savez(
                file,
                probability=truth.probability,
                propensity=truth.propensity,
                length=truth.length,
                student=truth.student,
                concept=truth.concept,
                initial_mastery=truth.initial_mastery,
                question=bank.question,
                question_concept=bank.concept,
                question_difficulty=bank.difficulty,
                question_popularity=bank.popularity,
            )
        with replacing(folder / "options.json") as temporary:
            temporary.write_text(json.dumps(self.options, indent=1))


def read_simulation(folder: str | Path) -> Simulation:
    """Read what `Simulation.write` wrote."""
    folder = Path(folder)
    try:
        options = json.loads((folder / "options.json").read_text())
        with np.load(folder / "truth.npz", allow_pickle=False) as arrays:
            truth = Truth(
                **{name: arrays[name] for name in ("student", "concept", "length", "probability", "propensity")},
                initial_mastery=arrays["initial_mastery"],
                bank=QuestionBank(
                    arrays["question"],
                    *(arrays[f"question_{name}"] for name in ("concept", "difficulty", "popularity")),
                ),
                population=Population.model_validate(options["population"]),
            )
        log, skipped = (Log(pl.read_parquet(folder / f"{name}.parquet")) for name in ("log", "skipped"))
    except (OSError, ValueError, KeyError, pl.exceptions.PolarsError) as error:
        raise InputError(
            f"{folder}: is not a folder that `tsdr simulate` wrote whole ({in_a_sentence(error)})"
        ) from error
    return Simulation(log, skipped, truth, options)


def skip_probability(success: Floats, gamma: float, too_hard: float = 0.25, too_easy: float = 0.75) -> Floats:
    """The paper's skip rule: γ(1 - p) where p is below `too_hard`, γp where it is above `too_easy`, else 0.

    >>> skip_probability(np.array([0.2, 0.5, 0.9]), gamma=0.5).tolist()
    [0.4, 0.0, 0.45]
    """
    extreme = np.where(success > too_easy, success, np.where(success < too_hard, 1 - success, 0.0))
    return gamma * extreme


@validate_call
def simulate(
    gamma: Probability = 0.8,
    students: PositiveInt = 1000,
    questions: Annotated[int, Field(ge=2)] = 200,
    concepts: PositiveInt = 20,
    seed: Annotated[int, Field(ge=0)] = 1,
    *,
    population: Population = Population(),  # noqa: B008  (frozen)
    recommender: Recommender | None = None,
    too_hard: Probability = 0.25,
    too_easy: Probability = 0.75,
    after: Annotated[int, Field(ge=0, multiple_of=BLOCK)] = 0,
) -> Simulation:
    """Simulate a log that students (by skipping) and a recommender (by offering) have selected.

    At every step a question is offered, by popularity or as the `recommender` chooses. The student skips it
    with `skip_probability(p, gamma, too_hard, too_easy)`, p being the true success probability; then one other
    question is offered, in the same way, and answered. `gamma=0` with a recommender is selection by the
    recommender alone. Students that come `after` so many others are those that they would be in one simulation of all:
    more of them than fit in memory are simulated in parts, from one seed.
    """
    if concepts > questions:
        raise InputError(f"{concepts} concepts need as many questions at least, not {questions}")
    if population.answers[0] > population.answers[1] or population.guess + population.slip > 1:
        raise InputError("answers go from the smaller to the larger number, and guess + slip is at most 1")
    bank_seed, *block_seeds = np.random.SeedSequence(seed).spawn(1 + -(-(after + students) // BLOCK))
    bank = _draw_bank(questions, concepts, population, np.random.default_rng(bank_seed))
    policy = _Policy(bank, population, recommender, gamma, too_hard, too_easy)
    cohorts = [
        _Cohort(min(BLOCK, students - BLOCK * block), concepts, population, np.random.default_rng(block_seed))
        for block, block_seed in enumerate(block_seeds[after // BLOCK :])
    ]
    length = np.concatenate([cohort.length for cohort in cohorts])
    truth = Truth(
        student=_names("s", after + students)[after:],
        concept=_names("c", concepts),
        length=length,
        probability=np.zeros((students, int(length.max()), concepts), np.float32),
        propensity=np.zeros((students, int(length.max()), concepts), np.float32),
        initial_mastery=np.concatenate([cohort.mastery for cohort in cohorts]),
        bank=bank,
        population=population,
    )
    answers, skips = [], []
    for block, cohort in enumerate(cohorts):
        rows = slice(BLOCK * block, BLOCK * (block + 1))
        answered, skipped = cohort.run(policy, truth.probability[rows], truth.propensity[rows])
        answers.append(answered.with_columns(pl.col("student") + rows.start))
        skips.append(skipped.with_columns(pl.col("student") + rows.start))
    options = {
        "gamma": gamma,
        "students": students,
        "questions": questions,
        "concepts": concepts,
        "seed": seed,
        "population": population.model_dump(),
        "recommender": recommender and recommender.model_dump(),
        "too_hard": too_hard,
        "too_easy": too_easy,
        **({"after": after} if after else {}),
        "tsdr": version("tsdr"),
    }
    return Simulation(_as_log(answers, truth), _as_log(skips, truth), truth, options)


def success_probability(mastery: Floats, difficulty: Floats, population: Population) -> Floats:
    """The chance of a right answer to questions of a difficulty, by students of a mastery."""
    spread = 1 - population.guess - population.slip
    return population.guess + spread / (1 + np.exp(population.slope * (difficulty - mastery)))


def _names(prefix: str, count: int) -> NDArray[np.str_]:
    width = len(str(count))
    return np.array([f"{prefix}{i:0{width}d}" for i in range(1, count + 1)])


def _draw_bank(questions: int, concepts: int, population: Population, rng: np.random.Generator) -> QuestionBank:
    concept = np.sort(np.arange(questions) % concepts)
    popularity = rng.permutation(np.arange(1, questions + 1) ** -population.zipf)
    popularity /= popularity.sum()

    def standardised(draws: Floats) -> Floats:
        centred = draws - popularity @ draws
        scale = np.sqrt(popularity @ centred**2)
        return centred / scale if scale > 0 else centred

    own = standardised(rng.normal(size=questions))
    shared = standardised(rng.normal(size=concepts)[concept])
    difficulty = population.difficulty_mean + population.difficulty_sd * own + population.concept_sd * shared
    return QuestionBank(_names("q", questions), concept, difficulty, popularity)


@dataclass(frozen=True)
class _Policy:
    """Who sees what: the offers and the skips, as probabilities for students (rows) and questions (columns)."""

    bank: QuestionBank
    population: Population
    recommender: Recommender | None
    gamma: float
    too_hard: float
    too_easy: float

    def offer(self, success: Floats, right: Floats, wrong: Floats) -> Floats:
        """The chance that each question is offered; `right` and `wrong` count answers by concept."""
        if self.recommender is None:
            return self.bank.popularity[None, :]
        estimate = success
        if self.recommender.estimate == "history":
            prior_right, prior_wrong = self.recommender.prior
            share = (right + prior_right) / (right + wrong + prior_right + prior_wrong)
            estimate = share[:, self.bank.concept]
        distance = np.abs(estimate - self.recommender.target)
        distance -= distance.min(axis=1, keepdims=True)  # a common factor, without which all could underflow
        closeness = np.exp(-distance / self.recommender.width)
        weight = self.bank.popularity * closeness
        return weight / weight.sum(axis=1, keepdims=True)

    def skip(self, success: Floats) -> Floats:
        """The chance that each question is skipped when it is offered."""
        return skip_probability(success, self.gamma, self.too_hard, self.too_easy)

    def logged(self, offer: Floats, skip: Floats) -> Floats:
        """The chance that each question is the one answered, as first offer or as the one after a skip.

        A question q is answered if it is offered and not skipped, or if another one, q', is skipped and q is
        drawn from what is left: offer(q) Σ over q' ≠ q of offer(q') skip(q') / (1 - offer(q')).
        """
        turned_down = offer * skip
        passed_on = turned_down / np.maximum(1 - offer, np.finfo(float).tiny)
        return offer - turned_down + offer * (passed_on.sum(axis=1, keepdims=True) - passed_on)


class _Cohort:
    """A block of students who go through the simulation side by side.

    Students are kept in the order of falling length, so that those who are still at work are a prefix.
    """

    def __init__(self, students: int, concepts: int, population: Population, rng: np.random.Generator) -> None:
        self.rng = rng
        self.population = population
        self.length = rng.integers(population.answers[0], population.answers[1], size=students, endpoint=True)
        self.mastery = rng.beta(*population.initial_mastery, size=(students, concepts))

    def run(
        self, policy: _Policy, probability: NDArray[np.float32], propensity: NDArray[np.float32]
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Simulate all steps, write the truth into the two arrays, and return answers and skipped offers."""
        order = np.argsort(-self.length, kind="stable")
        at_work = np.searchsorted(-self.length[order], -np.arange(self.length.max()), side="left")
        bank = policy.bank
        questions_of = np.bincount(bank.concept)
        # Written step after step and turned at the end: far kinder to the cache than writing into [student, step].
        chances, logged = (np.zeros((len(at_work), *self.mastery.shape), np.float32) for _ in range(2))
        mastery = self.mastery[order]
        right, wrong, skips = np.zeros_like(mastery), np.zeros_like(mastery), np.zeros(len(order), np.int64)
        answers, skipped = [], []
        for step, active in enumerate(at_work):
            student = np.arange(active)
            success = success_probability(mastery[:active, bank.concept], bank.difficulty, self.population)
            offer = policy.offer(success, right[:active], wrong[:active])
            skip = policy.skip(success)
            chances[step, :active] = bank.by_concept(success) / questions_of
            logged[step, :active] = bank.by_concept(policy.logged(offer, skip))

            cumulative = offer.cumsum(axis=1)
            first = _draw(cumulative, self.rng.random(active))
            turned_down = self.rng.random(active) < skip[student, first]
            second = _draw_other(offer, cumulative, first, self.rng.random(active))
            question = np.where(turned_down, second, first)
            correct = self.rng.random(active) < success[student, question]

            concept = bank.concept[question]
            time = step + skips[:active]
            skipped.append((order[:active][turned_down], time[turned_down], first[turned_down]))
            answers.append((order[:active], time + turned_down, question, correct.astype(np.int8)))
            skips[:active] += turned_down
            right[student, concept] += correct
            wrong[student, concept] += ~correct
            before = mastery[student, concept]
            mastery[student, concept] = before + correct * self.population.learning_rate * (1 - before)
        probability[order, : len(at_work)] = chances.transpose(1, 0, 2)
        propensity[order, : len(at_work)] = logged.transpose(1, 0, 2)
        nothing = {"correct": pl.lit(None, pl.Int8), "skipped": pl.lit(True)}
        return _frame(answers), _frame(skipped).with_columns(**nothing)


def _draw(cumulative: Floats, u: Floats) -> NDArray[np.int64]:
    """One question a student: where a uniform draw falls among the cumulative probabilities."""
    return np.minimum((cumulative <= u[:, None]).sum(axis=1), cumulative.shape[1] - 1)


def _draw_other(offer: Floats, cumulative: Floats, taken: NDArray[np.int64], u: Floats) -> NDArray[np.int64]:
    """One question a student, other than `taken`: the draw jumps over the stretch that `taken` holds."""
    student = np.arange(len(taken)) if len(offer) > 1 else np.zeros(len(taken), np.int64)
    size = offer[student, taken]
    below = cumulative[student, taken] - size
    u = u * (1 - size)
    return _draw(cumulative, np.where(u < below, u, u + size))


def _frame(parts: Sequence[tuple[NDArray[Any], ...]]) -> pl.DataFrame:
    """One table from the columns of every step."""
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    return pl.DataFrame(dict(zip(("student", "time", "question", "correct"), columns, strict=False)))


def _as_log(parts: list[pl.DataFrame], truth: Truth) -> Log:
    """Put the names in place of the numbers."""
    rows = pl.concat(parts)
    student, question = pl.Series(truth.student), pl.Series(truth.bank.question)
    concept = pl.Series(truth.concept[truth.bank.concept])
    return Log(
        rows.with_columns(
            student=student.gather(rows["student"]),
            question=question.gather(rows["question"]),
            concept=concept.gather(rows["question"]),
        )
    )
