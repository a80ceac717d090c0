"""Can every backbone, at full size, learn by heart, and does it find nothing where there is nothing?

    python -m benchmarks.sanity [NAME ...]

Overfitting: the training AUC on 64 simulated sequences must pass 0.95. Label shuffle: with all answers of a simulated
log permuted, test students included, the test AUC must be 0.5 within three student-clustered standard errors.
"""

import argparse

import numpy as np
import polars as pl
from rich.console import Console
from rich.progress import track
from rich.table import Table

from tsdr import Log, Sequences, simulate
from tsdr.backbones import backbone_names
from tsdr.backbones.predicting import predict
from tsdr.debias.building import new_model
from tsdr.debias.objective import JointObjective
from tsdr.methods import NAIVE_OPTIONS
from tsdr.metrics import auc, auc_error
from tsdr.training.options import TrainingOptions
from tsdr.training.trainer import fit

OVERFIT_STEPS, OVERFIT_AUC = 400, 0.95
OPTIONS = TrainingOptions(max_epochs=10, patience=5, device="cpu")
SIZE = {"size": "paper"}


def overfit(name: str, sequences: Sequences) -> tuple[float, int]:
    """The training AUC, and after how many steps."""
    model = new_model(name, sequences, SIZE, OPTIONS)
    model.prepare(sequences)
    objective = JointObjective(model, NAIVE_OPTIONS, OPTIONS)
    value = 0.0
    for step in range(1, OVERFIT_STEPS + 1):
        model.train()
        objective.step(sequences.batch)
        if step % 10 == 0:
            found = predict(model, sequences)
            value = auc(found.success, found.correct)
            if value > OVERFIT_AUC:
                break
    return value, step


def shuffled(name: str, sequences: Sequences) -> tuple[float, float]:
    """The test AUC, and its student-clustered standard error."""
    train, validation, test = (
        sequences.select(sequences.student[at]) for at in (slice(300), slice(300, 350), slice(350, None))
    )
    model = new_model(name, sequences, SIZE, OPTIONS)
    model.prepare(train)
    fit(JointObjective(model, NAIVE_OPTIONS, OPTIONS), train, validation, OPTIONS)
    found = predict(model, test)
    return auc(found.success, found.correct), auc_error(found)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=backbone_names())
    log = simulate(students=500, seed=1).log
    sequences = Sequences.from_log(log)
    few = sequences.select(sequences.student[:64])
    answers = np.random.default_rng(0).permutation(log.frame["correct"].to_numpy())
    nothing = Sequences.from_log(Log(log.frame.with_columns(correct=pl.Series(answers))))
    table = Table("backbone", "training AUC, 64 sequences", "steps", "AUC, answers shuffled", "standard errors off", "")
    for name in track(parser.parse_args().names, "Measuring"):
        learned, steps = overfit(name, few)
        found, error = shuffled(name, nothing)
        off = (found - 0.5) / error
        verdict = "pass" if learned > OVERFIT_AUC and abs(off) < 3 else "FAIL"
        table.add_row(name, f"{learned:.4f}", str(steps), f"{found:.4f} ± {error:.4f}", f"{off:+.1f}", verdict)
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
