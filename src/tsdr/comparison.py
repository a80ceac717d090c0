"""Comparing methods on the same folds: progress while they train, tables when they are done."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from tsdr.evaluation.crossval import Experiment, check_method, cross_validate
from tsdr.evaluation.records import Record
from tsdr.report.progress import TrainingProgress, resumable
from tsdr.report.terminal import show_records, show_truth
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
                on_epoch=progress.fold_epoch,
            )
    show_records(records, console)
    if experiment.truth is not None:
        show_truth(records, console)
    return records
