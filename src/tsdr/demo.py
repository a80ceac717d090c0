"""The main job on a built-in simulated log, from nothing to a table, two pictures and a model that can be served."""

import sys
from pathlib import Path

import polars as pl
from rich.console import Console
from rich.progress import track

from tsdr.comparison import Comparison, compare
from tsdr.defaults import BACKBONE, WINDOW
from tsdr.diagnosis.diagnose import diagnose
from tsdr.errors import InputError
from tsdr.fitting import fit
from tsdr.inspection import inspect_log
from tsdr.log import Log
from tsdr.paper import GAMMAS
from tsdr.records.run import LIMIT
from tsdr.report.plots import plot_comparison, plot_selection
from tsdr.report.progress import TrainingProgress
from tsdr.report.terminal import show_inspection
from tsdr.serving.store import Store
from tsdr.serving.transfer import enroll
from tsdr.simulator import Simulation, simulate
from tsdr.training.options import TrainingOptions

SHOWN = 0.8
FOLDS = 2
# The paper's smallest model, whose training does not take longer than one likes to watch, and the one to use.
TRAINED = ("dkt", BACKBONE)
STUDENTS, ENROLLED = "students.db", 100


def run_demo(out: Path, console: Console, students: int) -> None:
    """Simulate selected logs, train on one of them in several ways, and show how far each is from the truth."""
    simulations = [
        simulate(gamma, students)
        for gamma in track(GAMMAS, f"Simulating {students:,} students at six strengths of selection", console=console)
    ]
    shown = simulations[GAMMAS.index(SHOWN)]
    enroll_some(shown, out / STUDENTS)
    shown.write(out / "log")
    console.print(f"\nA log in which students skip what is too hard or too dull (gamma {SHOWN}):")
    show_inspection(inspect_log(shown.offers()), console)
    plot_selection(simulations, out / "selection.png")
    console.print(f"\nTraining {' and '.join(TRAINED)} on it, the latest {WINDOW} answers of a student in view:")
    found = {
        record.file_name(): record
        for backbone in TRAINED
        for record in compare(
            shown,
            backbone=backbone,
            folds=FOLDS,
            window=WINDOW,
            out=out / "records",
            workers=FOLDS,
            console=console,
        ).records
    }
    records = list(found.values())
    Comparison(records).show(console)
    trained = [record for record in records if record.backbone in TRAINED]
    limit = [record for record in records if record.backbone == LIMIT]
    plot_comparison(trained, limit, out / "comparison.png")
    _prepare_service(shown, out, console)
    console.print(
        "naive learns from the log as it is, tsdr is the method of this project; limit is the best possible predictor "
        "from the same history, and counts a logistic model, fitted in seconds, that others have to beat: hybrid "
        "begins with it. The model to serve is a hybrid with whole histories in view.\n"
        f"\nThe log and its truth: {out / 'log'}\n"
        f"How the log departs from the truth: {out / 'selection.png'}\n"
        f"How far each method is from the truth: {out / 'comparison.png'}\n"
        f"The records: {out / 'records'}\n"
        f"\nSee what the students master, live: {_tsdr()} serve {out / 'model'} --store sqlite:///{out / STUDENTS}\n"
        "then open http://127.0.0.1:8000/ (Ctrl-C stops it)",
        soft_wrap=True,
    )


def _prepare_service(simulation: Simulation, out: Path, console: Console) -> None:
    """Train a model to serve, and find out how its log was selected."""
    with TrainingProgress(TrainingOptions(), console) as progress:
        model = fit(simulation.log, on_epoch=progress.epoch)
    with console.status("Diagnosing the log") as status:
        found = diagnose(simulation.offers(), model, on_stage=status.update)
    model.with_diagnosis(found.model_dump(mode="json")).save(out / "model")


def enroll_some(simulation: Simulation, path: Path) -> None:
    """Make some students known. A store that is there already is kept, and refused if it is not of this very demo."""
    some = simulation.log.frame.filter(pl.col("student").is_in(list(simulation.log.students[:ENROLLED])))
    path.parent.mkdir(parents=True, exist_ok=True)
    store = Store(f"sqlite:///{path}")
    known = store.log().frame
    store.close()
    said = ["student", "question", "concept", "correct"]
    if known.height and some.join(known, said, "anti").height:
        raise InputError(f"{path}: has other answers than those of this demo; name another folder by --out")
    for _ in enroll(Log(some), f"sqlite:///{path}"):
        pass


def _tsdr() -> str:
    """How this very command is called from where the user is."""
    called = Path(sys.argv[0])
    return str(called) if called.name == "tsdr" else "tsdr"
