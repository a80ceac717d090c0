"""The main job on a built-in simulated log, from nothing to a table, two pictures and a model that can be served."""

import sys
from pathlib import Path

import polars as pl
from rich.console import Console
from rich.progress import track

from tsdr.comparison import compare
from tsdr.debias.objective import DebiasOptions
from tsdr.evaluation.crossval import RANDOM_EXPOSURE, Experiment
from tsdr.evaluation.diagnostics import diagnose
from tsdr.evaluation.records import RecordFolder
from tsdr.inspection import inspect_log
from tsdr.log import Log
from tsdr.report.plots import plot_comparison, plot_selection
from tsdr.report.progress import TrainingProgress
from tsdr.report.terminal import show_inspection
from tsdr.sequences import Folds, Sequences
from tsdr.serving.transfer import enroll
from tsdr.simulator import Simulation, simulate
from tsdr.training.bundle import keep_diagnosis
from tsdr.training.fitting import fit_bundle
from tsdr.training.trainer import TrainingOptions

GAMMAS = (0.0, 0.2, 0.4, 0.6, 0.8, 0.999)
SHOWN = 0.8
FOLDS, SEED = 2, 42
BACKBONE = "dkt"
METHODS = ("naive", "ipw", "tsdr", RANDOM_EXPOSURE)
STUDENTS, ENROLLED = "students.db", 100


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
    _prepare_service(shown, sequences, out, console)
    console.print(
        "naive learns from the log as it is, ipw weights it, tsdr is the method of this project; random-exposure "
        "learns from answers that a log does not have, and says how much there is to gain.\n"
        f"\nThe log and its truth: {out / 'log'}\n"
        f"How the log departs from the truth: {out / 'selection.png'}\n"
        f"How far each method is from the truth: {out / 'comparison.png'}\n"
        f"The records: {out / 'records'}\n"
        f"\nSee what the students master, live: {_tsdr()} serve {out / 'model'} --store sqlite:///{out / STUDENTS}\n"
        "then open http://127.0.0.1:8000/ (Ctrl-C stops it)",
        soft_wrap=True,
    )


def _prepare_service(simulation: Simulation, sequences: Sequences, out: Path, console: Console) -> None:
    """Train a model to serve, find out how its log was selected, and make some of its students known."""
    training = TrainingOptions(seed=SEED)
    with TrainingProgress(training, console) as progress:
        bundle = fit_bundle(
            sequences,
            backbone=BACKBONE,
            options={},
            training=training,
            debias=DebiasOptions.of_method("tsdr"),
            on_epoch=progress.epoch,
        )
    bundle.write(out / "model")
    with console.status("Diagnosing the log") as status:
        found = diagnose(simulation.offers(), bundle, on_stage=status.update)
    keep_diagnosis(out / "model", found.model_dump_json(indent=1))
    some = simulation.log.frame.filter(pl.col("student").is_in(list(simulation.log.students[:ENROLLED])))
    (out / STUDENTS).unlink(missing_ok=True)
    for _ in enroll(Log(some), f"sqlite:///{out / STUDENTS}"):
        pass


def _tsdr() -> str:
    """How this very command is called from where the user is."""
    called = Path(sys.argv[0])
    return str(called) if called.name == "tsdr" else "tsdr"
