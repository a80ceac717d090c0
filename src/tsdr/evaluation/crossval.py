"""Cross-validation by student: every fold trains from its seed and is tested on students that it has not seen."""

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tsdr.debias.objective import NAIVE, new_objective
from tsdr.evaluation.baselines import BASELINES
from tsdr.evaluation.metrics import Predictions, per_student, pooled, predict
from tsdr.evaluation.records import Record, RecordFolder, Run, peak_memory_mib
from tsdr.sequences import Folds, Sequences
from tsdr.training.bundle import versions
from tsdr.training.trainer import Epoch, TrainingOptions, fit


def cross_validate(
    sequences: Sequences,
    folds: Folds,
    *,
    dataset: str,
    backbone: str,
    options: Mapping[str, Any],
    training: TrainingOptions,
    records: RecordFolder,
    on_epoch: Callable[[int, Epoch], None] = lambda fold, epoch: None,
) -> Iterator[Record]:
    """Train and test a backbone on every fold; folds that have a record are not run again."""
    settings = {
        "backbone": dict(options),
        "training": training.model_dump(exclude={"seed", "device"}),
        **_setup(sequences, folds),
    }
    for fold in range(len(folds)):
        run = Run(dataset=dataset, backbone=backbone, method="naive", options=settings, fold=fold, seed=training.seed)
        record = records.find(run)
        if record is None:
            record = _run_fold(run, sequences, folds, options, training, records.folder, on_epoch)
            records.write(record)
        yield record


def cross_validate_baselines(
    sequences: Sequences, folds: Folds, *, dataset: str, records: RecordFolder
) -> Iterator[Record]:
    """The baselines on the same folds."""
    for name, baseline in BASELINES.items():
        for fold, split in enumerate(folds.splits):
            run = Run(
                dataset=dataset,
                backbone=name,
                method="baseline",
                options=_setup(sequences, folds),
                fold=fold,
                seed=folds.seed,
            )
            record = records.find(run)
            if record is None:
                begin = time.perf_counter()
                train, test = sequences.select(split.train), sequences.select(split.test)
                record = _record(run, baseline(train, test), {"train": len(train), "test": len(test)}, begin)
                records.write(record)
            yield record


def _setup(sequences: Sequences, folds: Folds) -> dict[str, int]:
    return {"window": sequences.window, "minimum": sequences.minimum, "folds": len(folds)}


def _run_fold(
    run: Run,
    sequences: Sequences,
    folds: Folds,
    options: Mapping[str, Any],
    training: TrainingOptions,
    folder: Path,
    on_epoch: Callable[[int, Epoch], None],
) -> Record:
    begin = time.perf_counter()
    split = folds[run.fold]
    train, validation, test = (sequences.select(part) for part in (split.train, split.validation, split.test))
    objective = new_objective(run.backbone, train, options, training, NAIVE)
    checkpoint = folder / ".checkpoints" / f"{run.file_name()}.pt"
    epochs = fit(
        objective,
        train,
        validation,
        training,
        checkpoint=checkpoint,
        resume=True,
        on_epoch=lambda epoch: on_epoch(run.fold, epoch),
    )
    students = {"train": len(train), "validation": len(validation), "test": len(test)}
    record = _record(run, predict(objective.model, test), students, begin, epochs)
    checkpoint.unlink(missing_ok=True)
    return record


def _record(
    run: Run,
    predictions: Predictions,
    students: Mapping[str, int],
    begin: float,
    epochs: list[Epoch] | None = None,
) -> Record:
    return Record(
        **run.model_dump(),
        metrics=pooled(predictions),
        per_student=per_student(predictions),
        students=students,
        scored=len(predictions.correct),
        epochs=len(epochs or []),
        best_epoch=epochs[-1].best_epoch if epochs else 0,
        seconds=sum(epoch.seconds for epoch in epochs) if epochs else time.perf_counter() - begin,
        peak_memory_mib=peak_memory_mib(),
        versions=versions(),
    )
