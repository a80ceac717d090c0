"""Estimators of the mean error over all cells, from the cells that were observed.

A cell is a potential answer (step, concept). With e its error, ê its imputed error, p̂ its estimated propensity and
o = 1 where it was observed (e is known there only), each estimator gives one term a cell, and its estimate is their
mean. Pure functions of arrays or tensors of one shape; `combine` says how the terms of sequences are put together.

| estimator | term | unbiased when |
|---|---|---|
| naive | o e, over the observed share | observed cells are a fair sample |
| ipw | o e / p̂ | p̂ is right |
| direct | ê | ê is right |
| eib | o e + (1 - o) ê | ê is right |
| dr | ê + o (e - ê) / p̂ | p̂ or ê is right |

Limits: ê = 0 makes dr ipw; ê = 0 and p̂ = the observed share makes it naive; 1/p̂ = 0 makes it direct; p̂ = 1 makes
it eib; ê = e makes it the true mean whatever p̂.
"""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Cells = TypeVar("Cells", NDArray[np.float64], Tensor)


def naive_terms(error: Cells, observed: Cells) -> Cells:
    """o e / (share observed): their mean over all cells is the mean error of the observed ones.

    >>> naive_terms(np.array([0.2, 0.6, 9.0]), np.array([1.0, 1.0, 0.0])).mean().round(6)
    np.float64(0.4)
    """
    return observed * error / observed.mean()


def ipw_terms(error: Cells, propensity: Cells, observed: Cells) -> Cells:
    """Inverse propensity weighting: o e / p̂ (Horvitz and Thompson, 1952)."""
    return observed * error / propensity


def snips_terms(error: Cells, propensity: Cells, observed: Cells) -> Cells:
    """Self-normalised: o e / p̂ over the mean of o / p̂; slightly biased, far less variable (Swaminathan 2015)."""
    weight = observed / propensity
    return weight * error / weight.mean()


def eib_terms(error: Cells, imputed: Cells, observed: Cells) -> Cells:
    """Error imputation: o e + (1 - o) ê (Steck, 2013)."""
    return observed * error + (1 - observed) * imputed


def dr_terms(error: Cells, imputed: Cells, propensity: Cells, observed: Cells) -> Cells:
    """Doubly robust: ê + o (e - ê) / p̂ (Robins et al., 1994)."""
    return imputed + observed * (error - imputed) / propensity
