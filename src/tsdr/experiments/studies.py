"""The paper's experiments as data: for each, its logs and its methods."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

from tsdr.datasets import SOURCES
from tsdr.defaults import WINDOW, Extent, Skips
from tsdr.methods import NAIVE, ORACLE, OWN, PAPER, TSDR, UNWEIGHTED, Method
from tsdr.paper import ABLATION, GAMMAS, with_lambda
from tsdr.records.run import LogName


@dataclass(frozen=True)
class Study:
    """An experiment: the logs and the methods that it takes if it is not told otherwise.

    `methods` gets the values of λ. Runs that are `timed` are a few epochs, computed one at a time, each in a process of
    its own, and are not held against the truth, which would take far longer than they do. Whatever the `windows` in
    view, it is the answers of the paper's window that models are judged by. Offers that were turned down are read or
    not, or both in turn.
    """

    what: str
    datasets: tuple[str, ...]
    methods: Callable[[Sequence[float]], Sequence[Method]]
    timed: bool = False
    windows: tuple[Extent, ...] = (WINDOW,)
    skips: tuple[Skips, ...] = ("ignore",)


_BESIDE_COUNTS = tuple(Method.parse(f"tsdr:imputation=both{more}") for more in (":smooth=off", ""))
# What is right, and what is wrong on purpose, in the study of robustness; weights are hardly clipped, as right ones are
# right as they are.
_CONDITIONS = [
    f"propensities={propensities}:crippled={crippled}:clip=0.01/100"
    for propensities, crippled in product(("true", "estimated", "wrong"), ("false", "true"))
]
# Of the paper's size, but with histories that are short enough for all of them to be in view.
_SHORT = f"1000x200x20x{WINDOW}"
STUDIES = {
    "table1": Study(
        "every backbone on real logs, with and without tsdr (Table 1)",
        tuple(name for name, source in SOURCES.items() if source.paper),
        lambda lambdas: (NAIVE, TSDR),
    ),
    "synthetic": Study(
        "the same on simulated logs at six strengths of selection (Figure 3 and its table), against the truth",
        tuple(str(LogName.simulated(gamma)) for gamma in GAMMAS),
        lambda lambdas: (NAIVE, UNWEIGHTED, TSDR, ORACLE),
    ),
    "sensitivity": Study(
        "tsdr-own at every λ (Figure 4)",
        ("simulated-gamma0.8",),
        lambda lambdas: (NAIVE, *(with_lambda(OWN, [value]) for value in (0.0, *lambdas))),
    ),
    "ablation": Study(
        "a network that imputes: frozen, joint, the backbone smooth, itself smooth (the ablation table), with counts "
        "beside it; and the paper's objective, λ chosen",
        ("simulated-gamma0.8",),
        lambda lambdas: (NAIVE, *ABLATION, OWN, *_BESIDE_COUNTS, TSDR, with_lambda(PAPER, lambdas)),
    ),
    "overhead": Study(
        "time and memory of an epoch (the overhead table), on a simulated log of the size of Prob",
        ("simulated-gamma0.8-512x1054x247",),
        lambda lambdas: (NAIVE, TSDR),
        timed=True,
    ),
    "robustness": Study(
        "propensities true, estimated and wrong, imputation good and crippled: what is left of a method, and of means",
        (
            "simulated-gamma0.8",
            "recommended-gamma0",
            f"simulated-gamma0.8-{_SHORT}",
            f"recommended-gamma0-{_SHORT}",
        ),
        lambda lambdas: (
            NAIVE,
            *(Method.parse(f"{name}:{with_}") for name, with_ in product(("tsdr-own", "tsdr"), _CONDITIONS)),
        ),
    ),
    "histories": Study(
        "more of a student's history in view, and the same answers scored; all of it, for models that can read that",
        ("simulated-gamma0.8", "assist17", "algebra05"),
        lambda lambdas: (NAIVE, TSDR),
        windows=(WINDOW, 100, 200, "all"),
    ),
    "skips": Study(
        "offers that were turned down: read, and ignored",
        tuple(str(LogName.simulated(gamma)) for gamma in (0.4, 0.8, 0.999)),
        lambda lambdas: (NAIVE, TSDR),
        windows=(WINDOW, "all"),
        skips=("ignore", "read"),
    ),
    "real-answers": Study(
        "complete real answers seen through a known skip policy: risk over all answers of held-out students",
        ("math1-gamma0.8", "math2-gamma0.8", "frcsub-gamma0.8"),
        lambda lambdas: (NAIVE, UNWEIGHTED, TSDR, ORACLE),
    ),
}
