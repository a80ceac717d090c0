"""Logistic regression with many shrunk effects, fitted to its optimum: effects of indices beside those of columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit
from threadpoolctl import ThreadpoolController

Floats = NDArray[np.float64]
STRENGTHS = (0.1, 1000.0)  # the weakest and the strongest shrinkage that answers may ask for
ROUNDS = 4
ROUGHLY, CLOSELY, EXACTLY = 2e-6, 2e-7, 1e-11  # the slope, a row, at which a search ends
APART, PRICE = 0.05, 0.2  # how far, as a logit, rows in order are to lie apart, and what it costs where they do not


@dataclass(frozen=True)
class Term:
    """Effects that are added up to the logit of each row.

    Effects of `columns` [rows, F] if there is no `index`; one effect for each of `size` indices if there are no
    columns; with both, effects [size, F] of the columns that differ by index. An effect costs `ridge` / 2 times its
    square; where the ridge is `adaptive`, it is only where the search for the right strength begins.
    """

    name: str
    ridge: float
    columns: Floats | None = None
    index: NDArray[np.int64] | None = None
    size: int = 1
    adaptive: bool = False

    @property
    def effects(self) -> int:
        """How many there are."""
        return self.size * (1 if self.columns is None else self.columns.shape[1])

    def logit(self, effects: Floats) -> Floats:
        """What they add to each row."""
        if self.index is None:
            assert self.columns is not None
            return self.columns @ effects
        if self.columns is None:
            return effects[self.index]
        return np.einsum("rf,rf->r", effects.reshape(self.size, -1)[self.index], self.columns)

    def sums(self, values: Floats) -> Floats:
        """For each effect, the sum over rows of values times what it is multiplied with there."""
        if self.index is None:
            assert self.columns is not None
            return values @ self.columns
        if self.columns is None:
            return _by_index(self.index, values, self.size)
        return np.stack([_by_index(self.index, values * column, self.size) for column in self.columns.T], 1).ravel()

    def curvature(self, values: Floats) -> Floats:
        """The same with squares: how sharply the loss bends along each effect, values being those of success."""
        squared = self if self.columns is None else replace(self, columns=self.columns**2)
        return squared.sums(values)


@dataclass(frozen=True)
class Order:
    """Pairs of rows, none of which is an answer, of which one is to have `less` than the other has, `more`.

    They are rows of `terms`, which are those of the answers with other columns and indices. What a pair lacks to lie
    apart is squared; the mean over pairs, times half the price, is added to the mean cross-entropy of answers.
    """

    terms: Sequence[Term]
    less: NDArray[np.int64]
    more: NDArray[np.int64]

    def price(self, effects: Sequence[Floats]) -> tuple[float, Floats]:
        """What effects, by term, cost an answer, and how that changes with each of them."""
        logit = np.asarray(sum(term.logit(part) for term, part in zip(self.terms, effects, strict=True)))
        lacking = np.maximum(0.0, logit[self.less] - logit[self.more] + APART)
        slope = PRICE * lacking / len(lacking)
        moved = _by_index(self.less, slope, len(logit)) - _by_index(self.more, slope, len(logit))
        return 0.5 * float(slope @ lacking), np.concatenate([term.sums(moved) for term in self.terms])


def fit_logistic(
    terms: Sequence[Term],
    correct: NDArray[np.int64],
    weight: Floats | None = None,
    *,
    order: Order | None = None,
    tolerance: float = CLOSELY,
) -> tuple[dict[str, Floats], dict[str, float]]:
    """The effects that minimise summed cross-entropy and shrinkage, and the strength of each term's shrinkage.

    Rows count as much as their `weight`, once each unless it is given. Adaptive strengths are those under which the
    effects are as large as they were found to be: 1 / strength is the mean of their squares and of what is not known of
    them (the evidence approximation of a model with random effects). The solution is approached roughly from that of
    the strengths before, four times, and then to the tolerance: then only does it have its price to break the `order`.
    """
    rows = np.ones(len(correct)) if weight is None else weight
    strength = {term.name: term.ridge for term in terms}
    effects = {term.name: np.zeros(term.effects) for term in terms}
    adaptive = [term for term in terms if term.adaptive]
    for _ in range(ROUNDS if adaptive else 0):
        effects = _minimised(terms, correct, rows, strength, effects, ROUGHLY)
        success = expit(sum(term.logit(effects[term.name]) for term in terms))
        for term in adaptive:
            bend = term.curvature(rows * success * (1 - success))
            known = bend > 0
            if known.any():
                told = bend[known] / (bend[known] + strength[term.name])
                squares = max(float((effects[term.name][known] ** 2).sum()), np.finfo(float).tiny)
                strength[term.name] = float(np.clip(told.sum() / squares, *STRENGTHS))
    if not adaptive or tolerance < ROUGHLY:
        effects = _minimised(terms, correct, rows, strength, effects, tolerance, order)
    return effects, strength


@cache
def _blas() -> ThreadpoolController:
    """What sets the threads of BLAS: it takes a while to find out which of them is loaded."""
    return ThreadpoolController()


def _by_index(index: NDArray[np.int64], values: Floats, size: int) -> Floats:
    return np.bincount(index, values, size).astype(np.float64)


def _minimised(
    terms: Sequence[Term],
    correct: NDArray[np.int64],
    weight: Floats,
    strength: Mapping[str, float],
    start: Mapping[str, Floats],
    tolerance: float,
    order: Order | None = None,
) -> dict[str, Floats]:
    """By L-BFGS, effects scaled by how sharply the loss bends along each.

    Those of an index with ten rows and of one with ten thousand are then as far from their optimum, and some dozens of
    steps suffice.
    """
    cuts = np.cumsum([term.effects for term in terms])[:-1]
    ridge = np.concatenate([np.full(term.effects, strength[term.name]) for term in terms])
    rows = max(1, len(correct))
    bend = np.concatenate([term.curvature(0.2 * weight) for term in terms])
    scale = 1 / np.sqrt(bend + ridge + 1e-6)

    def loss(scaled: Floats) -> tuple[float, Floats]:
        effects = scaled * scale
        parts = np.split(effects, cuts)
        logit = sum(term.logit(part) for term, part in zip(terms, parts, strict=True))
        value = weight @ (np.logaddexp(0, logit) - correct * logit) + 0.5 * ridge @ effects**2
        too_much = weight * (expit(logit) - correct)
        slope = np.concatenate([term.sums(too_much) for term in terms])
        price, moved = (0.0, 0.0) if order is None else order.price(parts)
        return value / rows + price, ((slope + ridge * effects) / rows + moved) * scale

    # Products this thin gain nothing from a second thread of BLAS, and lose much to it where cores are shared.
    with _blas().limit(limits=1, user_api="blas"):
        found = minimize(
            loss,
            np.concatenate([start[term.name] for term in terms]) / scale,
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": 1000, "maxcor": 20, "ftol": min(1e-12, tolerance**1.5), "gtol": tolerance},
        )
    return {term.name: part for term, part in zip(terms, np.split(found.x * scale, cuts), strict=True)}
