"""The main job on a built-in simulated log, from nothing to a table and two pictures."""

from pathlib import Path

from rich.console import Console
from rich.progress import track

from tsdr.comparison import compare
from tsdr.evaluation.crossval import RANDOM_EXPOSURE, Experiment
from tsdr.evaluation.records import RecordFolder
from tsdr.inspection import inspect_log
from tsdr.report.plots import plot_comparison, plot_selection
from tsdr.report.terminal import show_inspection
from tsdr.sequences import Folds, Sequences
from tsdr.simulator import simulate
from tsdr.training.trainer import TrainingOptions

GAMMAS = (0.0, 0.2, 0.4, 0.6, 0.8, 0.999)
SHOWN = 0.8
FOLDS, SEED = 2, 42
BACKBONE = "dkt"
METHODS = ("naive", "ipw", "tsdr", RANDOM_EXPOSURE)


def run_demo(out: Path, console: Console, students: int) -> None:
    """Simulate selected logs, train on one of them in four ways, and show how far each is from the truth."""
    simulations = [
        simulate(gamma, students)
        for gamma in track(GAMMAS, f"Simulating {students:,} students at six strengths of selection", console=console)
    ]
    shown = simulations[GAMMAS.index(SHOWN)]
    shown.write(out / "log")
    console.print(f"\nA log in which students skip what is too hard or too dull (gamma {SHOWN}):")
    show_inspection(inspect_log(shown.offers()), console)
    plot_selection(simulations, out / "selection.png")
    console.print(f"\nTraining {BACKBONE} on it in four ways:")
    sequences = Sequences.from_log(shown.log)
    folds = Folds.by_student(sequences.student, FOLDS, seed=SEED)
    name = f"simulated-gamma{SHOWN:g}"
    records = compare(
        Experiment(name, sequences, folds, RecordFolder(out / "records"), shown.truth),
        backbone=BACKBONE,
        methods=METHODS,
        options={},
        training=TrainingOptions(seed=SEED),
        console=console,
    )
    plot_comparison(records, out / "comparison.png")
    console.print(
        "naive learns from the log as it is, ipw weights it, tsdr is the method of this project; random-exposure "
        "learns from answers that a log does not have, and says how much there is to gain.\n"
        f"\nThe log and its truth: {out / 'log'}\n"
        f"How the log departs from the truth: {out / 'selection.png'}\n"
        f"How far each method is from the truth: {out / 'comparison.png'}\n"
        f"The records: {out / 'records'}",
        soft_wrap=True,
    )
