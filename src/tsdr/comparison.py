"""Comparing methods on the same folds, and grids of such comparisons: progress while they train, tables at the end."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.console import Console

from tsdr.evaluation.crossval import Experiment, check_method, cross_validate
from tsdr.evaluation.offpolicy import ESTIMATED
from tsdr.evaluation.records import Record, RecordFolder, Run
from tsdr.experiments.engines import Engine, Failure, Job
from tsdr.experiments.grid import run_grid
from tsdr.report.progress import GridProgress, TrainingProgress, complain, resumable
from tsdr.report.terminal import show_changes, show_estimates, show_records, show_truth
from tsdr.training.trainer import TrainingOptions


def compare(
    experiment: Experiment,
    *,
    backbone: str,
    methods: Sequence[str],
    options: Mapping[str, Any],
    training: TrainingOptions,
    console: Console,
    watch_bound: bool = False,
    estimate_risk: bool = False,
) -> list[Record]:
    """Cross-validate every method, and show what they reach: on logged answers and, if it is known, on the truth."""
    for method in methods:
        check_method(method, experiment, watch_bound)
    records: list[Record] = []
    for method in methods:
        folds = len(experiment.folds)
        with TrainingProgress(training, console, folds, method) as progress, resumable("The same command"):
            records += cross_validate(
                experiment,
                backbone=backbone,
                options=options,
                training=training,
                method=method,
                watch_bound=watch_bound,
                estimate_risk=estimate_risk,
                on_epoch=progress.fold_epoch,
            )
    show_quality(records, console)
    return records


def show_grid(
    jobs: Sequence[Job],
    records: RecordFolder,
    engine: Engine,
    console: Console,
    show: Callable[[Sequence[Record], Console], None],
) -> bool:
    """Compute a grid, show what it came to, and whether all of it succeeded."""
    done = [record for job in jobs if (record := records.find(job.fold_run.run)) is not None]
    finished = {record.file_name() for record in done}
    missing = [job.fold_run.run for job in jobs if job.name not in finished]
    console.print(f"{len(jobs)} runs, {len(done)} of them done; records in {records.folder}", soft_wrap=True)
    with GridProgress(missing, done, engine.workers, console) as progress, resumable("The same command"):

        def ended(came: Record | Failure) -> None:
            if isinstance(came, Failure):
                progress.ended(came.job.fold_run.run, None)
            else:
                progress.ended(Run(**came.model_dump(include=set(Run.model_fields))), came)

        found, failures = run_grid(jobs, records, engine, ended)
    show(found, console)
    for failure in failures:
        complain("failed:", f"{failure.job.name}: {failure.reason}")
    return not failures


def show_quality(records: Sequence[Record], console: Console) -> None:
    """What was reached on logged answers, against the truth where it is known, and what differs from naive training."""
    show_records(records, console)
    known = [record for record in records if "true_bce" in record.metrics]
    if known:
        show_truth(known, console)
    estimated = [record for record in records if ESTIMATED[0] in record.metrics]
    if estimated:
        show_estimates(estimated, console)
    show_changes(records, console)
