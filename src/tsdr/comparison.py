"""Comparing methods on the same folds, and grids of such comparisons: progress while they train, tables at the end."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tsdr.backbones.contract import skips_are_read, usual_window
from tsdr.defaults import BACKBONE, COMPARED, FOLDS, MINIMUM, Extent, Skips
from tsdr.errors import InputError
from tsdr.experiments.engines import Engine, Failure, InProcess, Job, Processes
from tsdr.experiments.grid import each_once, run_grid
from tsdr.judging.experiment import Experiment, View, plan_baselines, plan_folds
from tsdr.judging.trained import Judged
from tsdr.log import Log
from tsdr.methods import Method, parse_all
from tsdr.metrics import METRICS
from tsdr.records.baselines import is_baseline
from tsdr.records.collection import collect
from tsdr.records.folder import RecordFolder
from tsdr.records.run import LogName, Record, Run
from tsdr.report.progress import GridProgress, TrainingProgress, complain, resumable
from tsdr.report.quality import show_quality
from tsdr.sampling import sampled
from tsdr.simulator import Simulation
from tsdr.training.options import TrainingOptions


@dataclass(frozen=True)
class Comparison:
    """What methods came to on the same folds, a record each."""

    records: list[Record]

    def show(self, console: Console | None = None) -> None:
        """Print it: on logged answers, against the truth where it is known, and what differs from naive training."""
        show_quality(self.records, console or Console())


def show_judged(names: Sequence[str], judged: Judged, console: Console) -> None:
    """Print what trained models come to on the same answers, side by side."""
    unread = f"; {judged.left_out:,} more are on concepts that one of them does not know" if judged.left_out else ""
    table = Table(box=None, pad_edge=False)
    table.add_column("model", overflow="fold")
    for metric in METRICS:
        table.add_column(metric, justify="right")
    for name, metrics in zip(names, judged.metrics, strict=True):
        table.add_row(name, *(f"{metrics[metric]:.4f}" for metric in METRICS))
    console.print(table)
    console.print(f"{judged.answers:,} answers of {judged.students:,} students{unread}", soft_wrap=True)
    for name, changes in zip(names[1:], judged.changes, strict=True):
        told = (
            f"{metric} {found.value:+.4f} (95 % interval over students {found.low:+.4f} to {found.high:+.4f})"
            for metric, found in changes.items()
        )
        console.print(f"{name} against {names[0]}: {', '.join(told)}", soft_wrap=True)
    console.print(
        "A model is flattered by answers that it learned from: judge by answers that came after, or of other students.",
        soft_wrap=True,
    )


def compare(
    log: Log | Simulation,
    *,
    backbone: str = BACKBONE,
    methods: Iterable[str | Method] = COMPARED,
    options: Mapping[str, Any] | None = None,
    folds: int = FOLDS,
    window: Extent | None = None,
    scored: Extent | None = None,
    learned: Extent | None = None,
    skips: Skips | None = None,
    minimum: int = MINIMUM,
    students: Extent | None = None,
    training: TrainingOptions | None = None,
    watch_bound: bool = False,
    estimate_risk: bool = False,
    out: str | Path = "runs/compare",
    name: str | None = None,
    workers: int = 1,
    console: Console | None = None,
) -> Comparison:
    """Cross-validate methods by student, on the same folds; a simulated log is held against its truth, too.

    A `window` of a student's answers is in view before each, as `fit` has it, unless it is said; the latest `scored` of
    a student are what is judged by, and the latest `learned` what is learned from: otherwise as many as one window has.
    Offers that were skipped are read, if the log has any and the backbone can; of a simulated log, if they are asked
    for. Of a log of more than a million answers, students who have about a million are drawn by the seed; or so many
    `students`, or all. Of a simulated one, all are taken. Every fold leaves a record in the folder `out`, and one that
    has a record is not run again. `name` is what records call the log. Beside the methods stand baselines: means, the
    logistic model `counts` and, for a simulated log, the best possible predictor. With a `console`, training shows how
    it comes along. Several `workers` are processes that train a fold each at a time, to the same numbers: a script that
    asks for them keeps what it does under `if __name__ == "__main__"`.
    """
    how = training or TrainingOptions()
    known = log if isinstance(log, Simulation) else None
    if known and students not in (None, "all"):
        raise InputError("students are drawn from a log without its truth: simulate fewer of them instead")
    every = log if isinstance(log, Log) else log.offers() if skips == "read" else log.log
    told = every if known else sampled(every, students, how.seed)
    read = skips_are_read(backbone, told.skipped_offers, skips)
    tested = Experiment.of_log(
        name or ("log" if known is None else str(LogName.simulated(known.options["gamma"]))),
        told,
        RecordFolder(Path(out)),
        simulation=known,
        folds=folds,
        seed=how.seed,
        view=View(window or usual_window(backbone), scored, learned, read),
        minimum=minimum,
        drawn_from=len(every.students) if told is not every else None,
    )
    planned = plan_baselines(tested, how)
    for method in parse_all(methods):
        planned += plan_folds(
            tested,
            backbone=backbone,
            options=options,
            training=how,
            method=method,
            watch_bound=watch_bound,
            estimate_risk=estimate_risk,
        )
    jobs = each_once(Job(tested, fold) for fold in planned)
    if workers > 1 and console is not None:
        found, failures = _run_in_sight(jobs, tested.records, Processes(workers), console)
    elif workers > 1:
        found, failures = run_grid(jobs, tested.records, Processes(workers))
    elif console is not None:
        with TrainingProgress(how, console) as progress, resumable("The same command"):
            found, failures = run_grid(jobs, tested.records, InProcess(progress.of_run))
    else:
        found, failures = run_grid(jobs, tested.records, InProcess())
    if failures:
        raise InputError("; ".join(f"{failure.job.name}: {failure.reason}" for failure in failures))
    return Comparison(found)


def _standing_beside(found: Sequence[Record], records: RecordFolder) -> list[Record]:
    """The baselines in the same folder that were run on the same logs."""
    if not found:
        return []
    logs, names = {record.log_in_view for record in found}, {record.file_name() for record in found}
    beside = (
        record for record in collect(records.folder).records if record.log_in_view in logs and is_baseline(record)
    )
    return [record for record in beside if record.file_name() not in names]


def show_grid(
    jobs: Sequence[Job],
    records: RecordFolder,
    engine: Engine,
    console: Console,
    show: Callable[[Sequence[Record], Console], None],
) -> bool:
    """Compute a grid, show what it came to, and whether all of it succeeded."""
    found, failures = _run_in_sight(jobs, records, engine, console)
    show([*found, *_standing_beside(found, records)], console)
    for failure in failures:
        complain("failed:", f"{failure.job.name}: {failure.reason}")
    return not failures


def _run_in_sight(
    jobs: Sequence[Job], records: RecordFolder, engine: Engine, console: Console
) -> tuple[list[Record], list[Failure]]:
    """Compute a grid, and tell of each run as it ends."""
    done = [record for job in jobs if (record := records.find(job.run)) is not None]
    finished = {record.file_name() for record in done}
    missing = [job.run for job in jobs if job.name not in finished]
    console.print(f"{len(jobs)} runs, {len(done)} of them done; records in {records.folder}", soft_wrap=True)
    with GridProgress(missing, done, engine.workers, console) as progress, resumable("The same command"):

        def ended(came: Record | Failure) -> None:
            if isinstance(came, Failure):
                progress.ended(came.job.run, None)
            else:
                progress.ended(Run(**came.model_dump(include=set(Run.model_fields))), came)

        return run_grid(jobs, records, engine, ended)
