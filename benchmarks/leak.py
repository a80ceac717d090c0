"""What the leak in public code is worth: sparseKT and DisKT with one masked softmax, and with a second, unmasked one.

    python -m benchmarks.leak LOG [LOG ...] [--column OURS=THEIRS ...] [--folds 5] [--out results/leaks]

The public implementations take the softmax of probabilities whose masked entries are 0: positions that may not be seen
get the weight of exp(0). Here the same is done to our models, and both are trained and tested as usual, on the same
folds. The AUC of the leaky ones is no measure of anything but the leak.
"""

import argparse
from pathlib import Path
from unittest.mock import patch

from rich.console import Console
from rich.table import Table
from torch import Tensor

from tsdr.backbones import attention, diskt
from tsdr.backbones.attention import View, attend
from tsdr.experiments.engines import InProcess, Job
from tsdr.experiments.grid import run_grid
from tsdr.experiments.logs import LogFile
from tsdr.judging.experiment import plan_folds
from tsdr.methods import NAIVE
from tsdr.records.folder import RecordFolder
from tsdr.records.run import Record
from tsdr.records.significance import interval, paired_difference
from tsdr.training.options import TrainingOptions

MODELS = ("sparsekt", "diskt")
SEED = 42


def leaky_attend(scores: Tensor, view: View) -> Tensor:
    """A second softmax, over all positions."""
    return attend(scores, view).softmax(-1)


def run(model: str, source: LogFile, records: RecordFolder, folds: int) -> list[Record]:
    """Cross-validate the backbone as it stands."""
    tested = source.experiment(records, folds, SEED)
    planned = plan_folds(tested, backbone=model, training=TrainingOptions(seed=SEED, stop_by="auc"), method=NAIVE)
    return run_grid([Job(tested, fold) for fold in planned], records, InProcess())[0]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="+", type=Path)
    parser.add_argument("--column", action="append", default=[])
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("results/leaks"))
    arguments = parser.parse_args()
    columns = dict(pair.split("=", 1) for pair in arguments.column)
    table = Table(
        "log",
        "model",
        "one softmax",
        "two",
        "the leak is worth",
        title=f"AUC on logged answers of held-out students, {arguments.folds} folds, 95 % intervals over students",
    )
    for path in arguments.logs:
        source = LogFile(path.name.split(".")[0], path, columns)
        for model in MODELS:
            honest = run(model, source, RecordFolder(arguments.out / "one softmax"), arguments.folds)
            with patch.object(attention, "attend", leaky_attend), patch.object(diskt, "attend", leaky_attend):
                leaky = run(model, source, RecordFolder(arguments.out / "two softmaxes"), arguments.folds)
            worth = paired_difference(honest, leaky, "auc")
            table.add_row(
                source.name,
                model,
                *(f"{interval(runs, 'auc').value:.4f}" for runs in (honest, leaky)),
                f"{worth.value:+.4f} ({worth.low:+.4f} to {worth.high:+.4f})",
            )
    Console(width=130).print(table)


if __name__ == "__main__":
    main()
