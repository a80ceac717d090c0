"""The paper's experiments as data: for each, its logs and its methods."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tsdr.datasets import SOURCES
from tsdr.methods import NAIVE, ORACLE, TSDR, UNWEIGHTED, Method
from tsdr.paper import ABLATION, GAMMAS, tsdr_with
from tsdr.records.run import LogName


@dataclass(frozen=True)
class Study:
    """An experiment: the logs and the methods that it takes if it is not told otherwise.

    `methods` gets the values of λ. Runs that are `timed` are a few epochs, computed one at a time, each in a process of
    its own, and are not held against the truth, which would take far longer than they do.
    """

    what: str
    datasets: tuple[str, ...]
    methods: Callable[[Sequence[float]], Sequence[Method]]
    timed: bool = False


STUDIES = {
    "table1": Study(
        "every backbone on real logs, with and without tsdr (Table 1)",
        tuple(name for name, source in SOURCES.items() if source.paper),
        lambda lambdas: (NAIVE, tsdr_with(lambdas)),
    ),
    "synthetic": Study(
        "the same on simulated logs at six strengths of selection (Figure 3 and its table), against the truth",
        tuple(str(LogName.simulated(gamma)) for gamma in GAMMAS),
        lambda lambdas: (NAIVE, tsdr_with(lambdas), ORACLE),
    ),
    "sensitivity": Study(
        "tsdr at every λ (Figure 4)",
        ("simulated-gamma0.8",),
        lambda lambdas: (NAIVE, *(tsdr_with([value]) for value in (0.0, *lambdas))),
    ),
    "ablation": Study(
        "doubly robust learning: frozen, joint, the backbone smooth, the imputation model smooth (the ablation table)",
        ("simulated-gamma0.8",),
        lambda lambdas: (NAIVE, *ABLATION, tsdr_with(lambdas)),
    ),
    "overhead": Study(
        "time and memory of an epoch (the overhead table), on a simulated log of the size of Prob",
        ("simulated-gamma0.8-512x1054x247",),
        lambda lambdas: (NAIVE, TSDR),
        timed=True,
    ),
    "real-answers": Study(
        "complete real answers seen through a known skip policy: risk over all answers of held-out students",
        ("math1-gamma0.8", "math2-gamma0.8", "frcsub-gamma0.8"),
        lambda lambdas: (NAIVE, UNWEIGHTED, tsdr_with(lambdas), ORACLE),
    ),
}
