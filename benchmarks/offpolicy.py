"""How much closer to the truth is the risk of a model when the log's selection is estimated and taken out?

    python -m benchmarks.offpolicy [--seeds 3] [--students 2000] [--out runs/offpolicy]

Logs of students who skip (gamma 0.8), of a recommender, and of both, with the truth. Half of the students train a naive
dkt, one by tsdr and, apart from both, the selection and imputation models; the other half is held out. The risk is the
cross-entropy over every concept at every step, known from the truth (true_bce); each estimate knows logged answers
only. Students have 20 to 60 answers and the window is 60: all that a platform goes by is in the history. In the rows
with a cut history they have 30 to 200 and the window is 50, as everywhere else in the project: what happened before the
window is not seen, and the propensities are worse for it. The second table is of what estimates are used for: not the
risk of one model but the difference between two. What a log came to is written as it ends, and not computed again.
"""

import argparse
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import torch
from pydantic import BaseModel
from rich.console import Console
from rich.progress import track
from rich.table import Table

from tsdr import Folds, Population, Recommender, Sequences, simulate
from tsdr.debias.building import new_objective
from tsdr.diagnosis.findings import RESTS_ON
from tsdr.diagnosis.offpolicy import CLIP, IMPUTATION_TRAINING, RiskEstimator
from tsdr.files import replacing
from tsdr.judging.risk import true_risk
from tsdr.methods import options_of
from tsdr.training.trainer import fit

ESTIMATES = ("naive", "snips", "dr")
CLIPS = {f"{low:g} to {high:g}": (low, high) for low, high in (CLIP, (0.01, 100.0))}


@dataclass(frozen=True)
class Case:
    """A way in which logs are selected, and how much of a history the models see."""

    name: str
    gamma: float
    recommender: Recommender | None
    answers: tuple[int, int] = (20, 60)
    window: int = 60


CUT = (30, 200), 50
CASES = (
    Case("skips, gamma 0.8", 0.8, None),
    Case("recommender", 0.0, Recommender()),
    Case("both", 0.8, Recommender()),
    Case("skips, cut history", 0.8, None, *CUT),
    Case("recommender, cut history", 0.0, Recommender(), *CUT),
)


class Run(BaseModel):
    """On one log: the true risk of each method's model, and, by the clip of the weights, each estimate of it."""

    true: dict[str, float]
    estimated: dict[str, dict[str, dict[str, float]]]

    def error(self, clip: str, estimate: str) -> float:
        """How far an estimate of naive's risk is off."""
        return abs(self.estimated[clip]["naive"][estimate] - self.true["naive"])

    def true_change(self) -> float:
        """What tsdr changes in the risk."""
        return self.true["tsdr"] - self.true["naive"]

    def change(self, clip: str, estimate: str) -> float:
        """The same as estimated."""
        return self.estimated[clip]["tsdr"][estimate] - self.estimated[clip]["naive"][estimate]


def run(case: Case, students: int, seed: int) -> Run:
    """Train both models, and estimate their risks with the same selection and imputation models."""
    population = Population(answers=case.answers)
    simulation = simulate(case.gamma, students, seed=seed, population=population, recommender=case.recommender)
    sequences = Sequences.from_log(simulation.log, window=case.window)
    split = Folds.by_student(sequences.student, 2, validation=0.1, seed=seed)[0]
    train, validation, test = (sequences.select(part) for part in (split.train, split.validation, split.test))
    training = IMPUTATION_TRAINING.model_copy(update={"seed": seed})
    estimator = RiskEstimator.fit(train, validation, seed=seed)
    true: dict[str, float] = {}
    estimated: dict[str, dict[str, dict[str, float]]] = {name: {} for name in CLIPS}
    for method in ("naive", "tsdr"):
        objective = new_objective("dkt", train, {}, training, options_of(method), validation)
        fit(objective, train, validation, training)
        true[method] = true_risk(objective.model, test, simulation.truth).metrics["true_bce"]
        logged = estimator.logged_errors(objective.model, test)
        for name, clip in CLIPS.items():
            risk = logged.risk(clip)
            estimated[name][method] = {estimate: getattr(risk, estimate).value for estimate in ESTIMATES}
    return Run(true=true, estimated=estimated)


def found_or_run(case: Case, students: int, seed: int, folder: Path) -> Run:
    """What the folder has of it, or else a run that is kept there."""
    path = folder / f"{case.name.replace(' ', '-')}-{students}-seed{seed}.json"
    if path.exists():
        return Run.model_validate_json(path.read_bytes())
    came = run(case, students, seed)
    with replacing(path) as temporary:
        temporary.write_text(came.model_dump_json(indent=1))
    return came


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--students", type=int, default=2000)
    parser.add_argument("--out", type=Path, default=Path("runs/offpolicy"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    console = Console(width=140)
    jobs = [(case, seed) for case in CASES for seed in range(1, arguments.seeds + 1)]
    arguments.out.mkdir(parents=True, exist_ok=True)
    found = {job: found_or_run(job[0], arguments.students, job[1], arguments.out) for job in track(jobs, "Logs")}
    risks = Table(
        "log",
        "clip of w",
        *(f"{name}, |error|" for name in ESTIMATES),
        "naive / snips",
        "naive / dr",
        title=f"Estimated against true risk of a naive dkt: mean |error| ± sd over {arguments.seeds} seeds",
        caption=f"snips and dr are {RESTS_ON}",
    )
    changes = Table(
        "log",
        "clip of w",
        "true",
        *ESTIMATES,
        title=f"What tsdr changes in the risk, true and estimated: mean ± sd over {arguments.seeds} seeds",
    )
    for case, clip in product(CASES, CLIPS):
        runs = [found[job] for job in jobs if job[0] == case]
        about = case.name, clip
        off = {name: np.array([one.error(clip, name) for one in runs]) for name in ESTIMATES}
        ratios = [off["naive"].mean() / off[name].mean() for name in ("snips", "dr")]
        each = [off["naive"] / off[name] for name in ("snips", "dr")]
        risks.add_row(
            *about,
            *(_spread(off[name]) for name in ESTIMATES),
            *(f"{r:.1f} ({e.min():.1f} to {e.max():.1f})" for r, e in zip(ratios, each, strict=True)),
        )
        true = np.array([one.true_change() for one in runs])
        told = [np.array([one.change(clip, name) for one in runs]) for name in ESTIMATES]
        changes.add_row(*about, _spread(true, "+"), *(_spread(values, "+") for values in told))
    clip = next(iter(CLIPS))
    off_by = (
        f"{name} {np.mean([abs(one.change(clip, name) - one.true_change()) for one in found.values()]):.4f}"
        for name in ESTIMATES
    )
    changes.caption = f"mean |estimated - true| over all {len(found)} logs, w from {clip}: {', '.join(off_by)}"
    console.print(risks, changes)


def _spread(values: np.ndarray, sign: str = "") -> str:
    return f"{values.mean():{sign}.4f} ± {values.std():.4f}"


if __name__ == "__main__":
    main()
