"""Whether mastery moves the right way, for every backbone, plainly trained and by tsdr, on one log.

    python -m benchmarks.direction LOG.parquet [NAME ...] [--students 150] [--window 50|all]

Prints a row of the table of docs/choosing.md for each model as it is done. Models are those of `tsdr fit` with so many
answers in view, attention models in their light size, on the first students of the log.
"""

import argparse
from pathlib import Path

import polars as pl
from rich.console import Console

from tsdr import Log, fit, read_log
from tsdr.backbones import backbone_names
from tsdr.cli.shared import extent
from tsdr.methods import NAIVE, TSDR
from tsdr.models.direction import KINDS, Direction, direction_of
from tsdr.training.options import TrainingOptions

ATTENTION = ("akt", "simplekt", "folibikt", "sparsekt", "diskt")
COLUMNS = ("model", "method", "concepts with 20 answers", "right answers lower", "wrong answers raise")


def main() -> None:
    """Train, ask, print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("log", type=Path)
    parser.add_argument("names", nargs="*", default=backbone_names())
    parser.add_argument("--students", type=int, default=150)
    parser.add_argument("--window", type=extent, default=50)
    chosen = parser.parse_args()
    whole = read_log(chosen.log)
    log = Log(whole.frame.filter(pl.col("student").is_in(whole.students[: chosen.students])))
    console = Console(width=200, highlight=False)
    console.print(f"{log!r}, {chosen.window} answers in view")
    for line in (COLUMNS, ["---"] * len(COLUMNS)):
        console.print(f"| {' | '.join(line)} |")
    for name in chosen.names:
        for method in (NAIVE, TSDR):
            options = {"size": "light"} if name in ATTENTION else {}
            training = TrainingOptions(device="cpu")
            model = fit(log, backbone=name, method=method, options=options, window=chosen.window, training=training)
            console.print(f"| `{name}` | {method} | {' | '.join(cells(direction_of(model)))} |")


def cells(found: Direction) -> list[str]:
    """How many concepts there are, and how many of them go astray, weighted by answers in brackets, and how far."""
    told = []
    for answered in KINDS:
        astray = found.astray(answered, found.often)
        told.append(f"{astray.share:.1%} ({astray.logged_share:.1%}), by {astray.by:.3f}")
    return [f"{found.often.sum()}", *told]


if __name__ == "__main__":
    main()
