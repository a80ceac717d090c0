"""The paper's lemma and bounds as functions, so that they can be checked and watched during training.

With p the true and p̂ the estimated propensity of a cell, e its error and ê its imputed error, Δ = 1 - p / p̂ and
δ = e - ê. The proofs draw each cell's o on its own. With one logged concept a step the o of a step exclude each other:
expectations are the same, but the bound can be violated slightly more often than it says.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import integrate

Array = NDArray[np.floating[Any]]


def dr_bias(propensity: Array, estimated: Array, error: Array, imputed: Array) -> float:
    """E[R_DR] - R_true = -mean(Δ δ): nought when p̂ = p, or when ê = e.

    >>> p, e = np.array([0.5, 0.2]), np.array([1.0, 2.0])
    >>> dr_bias(p, p, e, np.zeros(2)), dr_bias(p, np.array([0.9, 0.9]), e, e)
    (-0.0, -0.0)
    """
    return -float(np.mean((1 - propensity / estimated) * (error - imputed)))


def bias_term(propensity: Array, estimated: Array, error: Array, imputed: Array) -> float:
    """The bound's first term, mean |Δ δ|."""
    return float(np.mean(np.abs((1 - propensity / estimated) * (error - imputed))))


def variance_term(estimated: Array, error: Array, imputed: Array, hypotheses: float = 1.0, eta: float = 0.05) -> float:
    """The bound's second term, sqrt(ln(2 |H| / η) / (2 N²) Σ (δ / p̂)²), N the number of cells."""
    spread = float(np.sum(((error - imputed) / estimated) ** 2))
    return math.sqrt(math.log(2 * hypotheses / eta) / (2 * error.size**2) * spread)


def path_length(states: Array) -> float:
    """ℓ(H) = Σ ‖h_t - h_{t-1}‖ of the states [steps, d] of a sequence."""
    return float(np.linalg.norm(np.diff(states, axis=0), axis=1).sum())


def path_length_bound(states: Array) -> float:
    """sqrt(T L_smooth), L_smooth = Σ ‖h_t - h_{t-1}‖² and T its number of steps: never below ℓ(H)."""
    steps = np.diff(states, axis=0)
    return math.sqrt(len(steps) * float((steps**2).sum()))


def covering_term(smoothness: float, steps: int, epsilon: float, lipschitz: float = 1.0) -> float:
    """How many balls of radius ε cover what a Lipschitz function makes of a path: L_g sqrt(T L_smooth) / ε + 1."""
    return lipschitz * math.sqrt(steps * smoothness) / epsilon + 1


def complexity_bound(
    smoothness: float, steps: int, *, diameter: float = 1.0, bound: float = 1.0, lipschitz: float = 1.0
) -> float:
    """Dudley's integral of the paper's theorem, which bounds the imputation model's Rademacher complexity.

    12 / sqrt(T) times the integral from 0 to D of sqrt(C_smooth(ε) ln(2M / ε + 1)): it grows with L_smooth.
    """

    def entropy(epsilon: float) -> float:
        covering = covering_term(smoothness, steps, epsilon, lipschitz)
        return math.sqrt(covering * math.log(2 * bound / epsilon + 1))

    return 12 / math.sqrt(steps) * float(integrate.quad(entropy, 0, diameter)[0])
