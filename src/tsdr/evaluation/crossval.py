"""Cross-validation by student: every fold trains from its seed and is tested on students that it has not seen."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tsdr.debias.exposure import RandomExposureObjective, expose
from tsdr.debias.objective import METHODS, DebiasOptions, new_model, new_objective
from tsdr.errors import InputError
from tsdr.evaluation.baselines import BASELINES
from tsdr.evaluation.metrics import Predictions, per_student, pooled, predict
from tsdr.evaluation.records import Record, RecordFolder, Run, peak_memory_mib
from tsdr.evaluation.truth import TrueRisk, true_risk
from tsdr.sequences import Folds, Sequences, Split
from tsdr.simulator import Truth
from tsdr.training.bundle import versions
from tsdr.training.trainer import Epoch, Objective, TrainingOptions, fit

RANDOM_EXPOSURE = "random-exposure"


@dataclass(frozen=True)
class Experiment:
    """A log, its folds and, for a simulated one, its truth: what methods are compared on."""

    dataset: str
    sequences: Sequences
    folds: Folds
    records: RecordFolder
    truth: Truth | None = None

    def setup(self) -> dict[str, int | str]:
        """What a record must say of it: a log of the same name and other content is another run."""
        return {
            "window": self.sequences.window,
            "minimum": self.sequences.minimum,
            "folds": len(self.folds),
            "data": self.sequences.digest(),
        }


def cross_validate(
    experiment: Experiment,
    *,
    backbone: str,
    options: Mapping[str, Any],
    training: TrainingOptions,
    method: str = "naive",
    changes: Mapping[str, Any] | None = None,
    on_epoch: Callable[[int, Epoch], None] = lambda fold, epoch: None,
) -> Iterator[Record]:
    """Train and test a backbone by a method on every fold; folds that have a record are not run again.

    `changes` are changes to the method's own options. `random-exposure` needs an experiment with its truth.
    """
    if method == RANDOM_EXPOSURE and experiment.truth is None:
        raise InputError("random exposure needs the truth, so it can only be trained on a simulated log")
    if method not in (RANDOM_EXPOSURE, *METHODS):
        raise InputError(f"there is no method {method!r}; choose from {', '.join((*METHODS, RANDOM_EXPOSURE))}")
    settings = {
        "backbone": new_model(backbone, experiment.sequences, options, training).options,
        "training": training.model_dump(exclude={"seed", "device"}),
        **experiment.setup(),
    }
    debias = None if method == RANDOM_EXPOSURE else DebiasOptions.of_method(method, **changes or {})
    if debias is not None and method != "naive":
        settings["debias"] = debias.model_dump(mode="json")
    for fold, split in enumerate(experiment.folds.splits):
        run = Run(
            dataset=experiment.dataset,
            backbone=backbone,
            method=method,
            options=settings,
            fold=fold,
            seed=training.seed,
        )
        record = experiment.records.find(run)
        if record is None:
            record = _run_fold(run, experiment, split, options, training, debias, on_epoch)
            experiment.records.write(record)
        yield record


def cross_validate_baselines(experiment: Experiment) -> Iterator[Record]:
    """The baselines on the same folds."""
    for name, baseline in BASELINES.items():
        for fold, split in enumerate(experiment.folds.splits):
            run = Run(
                dataset=experiment.dataset,
                backbone=name,
                method="baseline",
                options=experiment.setup(),
                fold=fold,
                seed=experiment.folds.seed,
            )
            record = experiment.records.find(run)
            if record is None:
                begin = time.perf_counter()
                train, test = experiment.sequences.select(split.train), experiment.sequences.select(split.test)
                record = _record(run, baseline(train, test), {"train": len(train), "test": len(test)}, begin)
                experiment.records.write(record)
            yield record


def _run_fold(
    run: Run,
    experiment: Experiment,
    split: Split,
    options: Mapping[str, Any],
    training: TrainingOptions,
    debias: DebiasOptions | None,
    on_epoch: Callable[[int, Epoch], None],
) -> Record:
    begin = time.perf_counter()
    train, validation, test = (
        experiment.sequences.select(part) for part in (split.train, split.validation, split.test)
    )
    students = {"train": len(train), "validation": len(validation), "test": len(test)}
    objective: Objective
    if debias is None:
        assert experiment.truth is not None
        train, validation = (expose(part, experiment.truth, training.seed) for part in (train, validation))
        model = new_model(run.backbone, train, options, training)
        model.prepare(train)
        objective = RandomExposureObjective(model, training)
    else:
        objective = new_objective(run.backbone, train, options, training, debias)
    checkpoint = experiment.records.folder / ".checkpoints" / f"{run.file_name()}.pt"
    epochs = fit(
        objective,
        train,
        validation,
        training,
        checkpoint=checkpoint,
        resume=True,
        on_epoch=lambda epoch: on_epoch(run.fold, epoch),
    )
    risk = None if experiment.truth is None else true_risk(objective.model, test, experiment.truth)
    record = _record(run, predict(objective.model, test), students, begin, epochs, risk)
    checkpoint.unlink(missing_ok=True)
    return record


def _record(
    run: Run,
    predictions: Predictions,
    students: Mapping[str, int],
    begin: float,
    epochs: list[Epoch] | None = None,
    risk: TrueRisk | None = None,
) -> Record:
    return Record(
        **run.model_dump(),
        metrics=pooled(predictions) | (risk.metrics if risk else {}),
        per_student=per_student(predictions),
        bias=risk.bias if risk else None,
        by_student=risk.by_student if risk else None,
        students=students,
        scored=len(predictions.correct),
        epochs=len(epochs or []),
        best_epoch=epochs[-1].best_epoch if epochs else 0,
        seconds=sum(epoch.seconds for epoch in epochs) if epochs else time.perf_counter() - begin,
        peak_memory_mib=peak_memory_mib(),
        versions=versions(),
    )
