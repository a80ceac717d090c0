"""The best possible predictor of a simulated log: what can be known of every student at every step, and no more.

A student's mastery of a concept is one number that starts from a known distribution and moves by a known rule, so that
what is known of it is a posterior over where it started: exact, concept by concept, on the nodes of a quadrature. A
model that sees the same history cannot be closer to the truth on average, whatever it is.

What is taken for evidence are answers and, if asked for, skipped offers and offers that were not skipped, whose chances
are known, too. Which question was logged is taken to tell nothing by itself. A window starts from the population's
mastery where windows begin: how much came before it is not known, and is guessed from what is seen in it.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import polars as pl
from scipy.special import logsumexp, roots_sh_jacobi, softmax

from tsdr.defaults import Extent
from tsdr.errors import InputError
from tsdr.resampling import Array
from tsdr.sequences import SKIPPED, Sequences
from tsdr.simulator import Simulation, skip_probability, success_probability

NODES = 32
STAGES, FEWEST_AT_A_STAGE = 8, 50


@dataclass(frozen=True)
class Limit:
    """The best possible success of every concept [scored answers, concepts], and of the questions that were asked."""

    success: Array
    at_question: Array


def limit(simulation: Simulation, sequences: Sequences, *, whole: bool = False, skips: bool = False) -> Limit:
    """What is best said of every concept at the steps of sequences, from the window before it or the whole history.

    With `skips`, offers that were turned down and offers that were taken count as evidence. There is no limit where a
    recommender goes by the truth: what it offers tells of mastery in a way that cannot be followed concept by concept.
    """
    recommender = simulation.options["recommender"]
    if recommender is not None and recommender["estimate"] == "truth":
        raise InputError("there is no limit for a log whose recommender knows the truth: its offers would tell of it")
    return _Filter(simulation, sequences, whole, skips).run()


@dataclass(frozen=True)
class _Events:
    """What happened to each student, event by event, [students, events]: -1 in `kind` where nothing did any more.

    `position` is how many answers came before, and `taken` is true for an answer to the first offer of its step: one
    that could have been skipped.
    """

    question: Array
    kind: Array
    position: Array
    taken: Array

    @classmethod
    def of(cls, simulation: Simulation, students: Array) -> "_Events":
        names = pl.DataFrame({"student": students, "row": np.arange(len(students))})
        code = {name: number for number, name in enumerate(simulation.truth.bank.question.tolist())}
        answered = ~pl.col("skipped")
        frame = (
            simulation.offers()
            .frame.with_columns(
                question=pl.col("question").replace_strict(code, return_dtype=pl.Int64),
                kind=pl.col("correct").cast(pl.Int64).fill_null(SKIPPED),
                position=(answered.cum_sum() - answered).over("student"),
                taken=answered & ~pl.col("skipped").shift(1).over("student").fill_null(False),
                event=pl.int_range(pl.len()).over("student"),
            )
            .join(names, on="student")
        )
        shape = len(students), int(frame["event"].max()) + 1  # type: ignore[arg-type]
        row, event = frame["row"].to_numpy(), frame["event"].to_numpy()
        found = []
        for name, nothing in (("question", 0), ("kind", -1), ("position", 0), ("taken", False)):
            values = np.full(shape, nothing)
            values[row, event] = frame[name].to_numpy()
            found.append(values)
        return cls(*found)


class _Filter:
    """The posteriors [sequences, concepts, stages, nodes] of where masteries started, brought up event by event.

    A stage is how far a student had come where the window begins, and each has the mastery of the population's students
    at that stage: given the stage, concepts tell nothing of each other, and all of them together tell the stage.
    """

    def __init__(self, simulation: Simulation, sequences: Sequences, whole: bool, skips: bool) -> None:
        truth = simulation.truth
        self.bank, self.population = truth.bank, truth.population
        self.skip_rule = tuple(simulation.options[name] for name in ("gamma", "too_hard", "too_easy"))
        self.skips = skips
        answers, context = (number.numpy() for number in sequences.answers_in_rows())
        self.begin = sequences.position[sequences.rows.begin].numpy()
        self.noted, self.end = self.begin + context, self.begin + answers
        self.place = np.concatenate([[0], (answers - context).cumsum()])
        self.first = np.zeros_like(self.begin) if whole else self.begin
        self.events = _Events.of(simulation, np.array(sequences.student))
        place = {str(name): number for number, name in enumerate(truth.concept)}
        self.columns = [place[name] for name in sequences.vocabulary.concepts]
        concepts = len(truth.concept)
        self.difficulties = [self.bank.difficulty[self.bank.concept == concept] for concept in range(concepts)]
        share, self.nodes, weight = _stages(simulation, "all" if whole else sequences.window)
        log_weight = np.log(np.maximum(weight, np.finfo(float).tiny))
        self.log_weight = np.tile(log_weight, (len(self.begin), concepts, 1, 1))
        self.log_stage = np.tile(np.log(share), (len(self.begin), 1))  # and all that was seen, were it the stage
        self.right = np.zeros((len(self.begin), concepts), int)
        every = np.arange(len(self.begin))
        self.now = np.stack([self._success(every, np.full(len(every), concept)) for concept in range(concepts)], 1)

    def run(self) -> Limit:
        """Go through the events, and note what is known before each answer of the sequences."""
        success = np.zeros((self.place[-1], len(self.columns)))
        at_question = np.zeros(self.place[-1])
        events = self.events
        for event in range(events.kind.shape[1]):
            position = events.position[:, event]
            seen = np.flatnonzero((events.kind[:, event] >= 0) & (position >= self.first) & (position < self.end))
            question, kind = events.question[seen, event], events.kind[seen, event]
            noted = (kind != SKIPPED) & (position[seen] >= self.noted[seen])
            rows, asked = seen[noted], question[noted]
            place = self.place[rows] + position[rows] - self.noted[rows]
            stage = softmax(self.log_stage[rows], axis=1)
            success[place] = (self.now[rows] * stage[:, None]).sum(-1)[:, self.columns]
            mastery, weight = self._posterior(rows, self.bank.concept[asked])
            at_question[place] = ((weight * self._of_question(mastery, asked)).sum(-1) * stage).sum(1)
            self._learn(seen, question, kind, events.taken[seen, event])
        return Limit(success, at_question)

    def _learn(self, rows: Array, question: Array, kind: Array, taken: Array) -> None:
        """Take an event into account: an answer, a skip, or that an offer was not skipped."""
        if not self.skips:
            told = kind != SKIPPED
            rows, question, kind, taken = rows[told], question[told], kind[told], taken[told]
        concept = self.bank.concept[question]
        success = self._of_question(self._posterior(rows, concept)[0], question)
        kinds, takens = kind[:, None, None], taken[:, None, None]
        likelihood = np.where(kinds == 1, success, 1 - success)
        if self.skips:
            skip = skip_probability(success, *self.skip_rule)
            likelihood = np.where(kinds == SKIPPED, skip, likelihood * np.where(takens, 1 - skip, 1.0))
        before = self.log_weight[rows, concept]
        after = before + np.log(np.maximum(likelihood, np.finfo(float).tiny))
        self.log_stage[rows] += logsumexp(after, axis=-1) - logsumexp(before, axis=-1)
        self.log_weight[rows, concept] = after
        self.right[rows, concept] += kind == 1
        self.now[rows, concept] = self._success(rows, concept)

    def _posterior(self, rows: Array, concept: Array) -> tuple[Array, Array]:
        """Mastery by now, were it to have started at each node, and how likely that is: [rows, stages, nodes] each."""
        kept = (1 - self.population.learning_rate) ** self.right[rows, concept]
        mastery = 1 - (1 - self.nodes[concept]) * kept[:, None, None]
        return mastery, softmax(self.log_weight[rows, concept], axis=-1)

    def _success(self, rows: Array, concept: Array) -> Array:
        """The mean success over a concept's questions at each stage [rows, stages], for rows with a concept each."""
        mastery, weight = self._posterior(rows, concept)
        found = np.empty(mastery.shape[:2])
        for one in np.unique(concept):
            of_one = concept == one
            each = success_probability(mastery[of_one][..., None], self.difficulties[one], self.population)
            found[of_one] = (weight[of_one] * each.mean(-1)).sum(-1)
        return found

    def _of_question(self, mastery: Array, question: Array) -> Array:
        return success_probability(mastery, self.bank.difficulty[question][:, None, None], self.population)


def _stages(simulation: Simulation, window: Extent) -> tuple[Array, Array, Array]:
    """How likely each stage is, and the mastery there: nodes [concepts, stages, nodes] and weights [stages, nodes].

    The first stage is the very beginning; the others are of students whose window is cut, by how much was cut off.
    """
    truth = simulation.truth
    nodes, weight = _beta_quadrature(*truth.population.initial_mastery)
    beginning = np.tile(nodes, (len(truth.concept), 1))
    cut = np.flatnonzero(truth.length > window) if window != "all" else np.array([], int)
    if window == "all" or not len(cut):
        return np.ones(1), beginning[:, None], weight[None]
    mastery = _mastery_where_cut(simulation, window)
    in_order = cut[np.argsort(truth.length[cut], kind="stable")]
    groups = np.array_split(in_order, max(1, min(STAGES, len(cut) // FEWEST_AT_A_STAGE)))
    share = np.array([len(truth.length) - len(cut), *(len(group) for group in groups)]) / len(truth.length)
    nodes = np.stack([beginning, *(_quantiles(mastery[group]).T for group in groups)], 1)
    weights = np.stack([weight, *[np.full(NODES, 1 / NODES)] * len(groups)])
    there = share > 0
    return share[there], nodes[:, there], weights[there]


def _beta_quadrature(right: float, wrong: float) -> tuple[Array, Array]:
    """Nodes and weights that are exact for polynomials under a Beta distribution."""
    nodes, weight = roots_sh_jacobi(NODES, right + wrong - 1, right)
    return nodes, weight / weight.sum()


def _mastery_where_cut(simulation: Simulation, window: int) -> Array:
    """The mastery [students, concepts] before the latest window of answers."""
    truth = simulation.truth
    left = pl.int_range(pl.len(), 0, -1).over("student")
    before = simulation.log.frame.filter(left > window).group_by("student", "concept").agg(pl.col("correct").sum())
    rows, columns = (
        before[name].replace_strict({str(n): i for i, n in enumerate(names)}, return_dtype=pl.Int64).to_numpy()
        for name, names in (("student", truth.student), ("concept", truth.concept))
    )
    rights = np.zeros(truth.initial_mastery.shape)
    rights[rows, columns] = before["correct"].to_numpy()
    return 1 - (1 - truth.initial_mastery) * (1 - truth.population.learning_rate) ** rights


def _quantiles(values: Array) -> Array:
    """As many values [nodes, ...] as there are nodes, each the mean of as many in order; of few, some repeat."""
    places = np.linspace(0, len(values), NODES + 1)
    in_order = np.sort(values, axis=0)
    return np.stack([in_order[int(low) : max(int(high), int(low) + 1)].mean(0) for low, high in pairwise(places)])
