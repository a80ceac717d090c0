"""One fold of a cross-validation by student: trained from its seed, tested on students that it has not seen."""

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from tsdr.backbones.contract import backbone_class
from tsdr.backbones.predicting import predict
from tsdr.debias.answers import AnswerLearner
from tsdr.debias.building import new_model, new_objective
from tsdr.debias.exposure import RandomExposureObjective, expose
from tsdr.debias.objective import JointObjective
from tsdr.devices import on_threads
from tsdr.diagnosis.offpolicy import LoggedErrors
from tsdr.judging.baselines import LIMITS, MEANS, best_possible
from tsdr.judging.bound import bound_terms
from tsdr.judging.experiment import Experiment, FoldRun, Trial
from tsdr.judging.imputed import mean_errors
from tsdr.judging.risk import TrueRisk, risk_of, true_risk
from tsdr.metrics import Predictions, calibration, of_each_student, per_student, pooled
from tsdr.models.bundle import versions
from tsdr.processes import peak_memory_mib
from tsdr.records.run import Record, Run
from tsdr.sequences import Sequences
from tsdr.simulator import Truth
from tsdr.training.epoch import Epoch
from tsdr.training.learner import Learner
from tsdr.training.trainer import fit
from tsdr.truth import KnownSuccess, with_known_exposure

OnEpoch = Callable[[Run, Epoch], None]


def run_fold(experiment: Experiment, planned: FoldRun, on_epoch: OnEpoch = lambda run, epoch: None) -> Record:
    """Train by every trial, and test the one that is best on the validation students; goes on from its checkpoints."""
    baseline = planned.run.method.is_baseline
    with on_threads(parallel=not baseline and backbone_class(planned.run.backbone).parallel):
        return _run_baseline(experiment, planned.run) if baseline else _run_trials(experiment, planned, on_epoch)


def _run_trials(experiment: Experiment, planned: FoldRun, on_epoch: OnEpoch) -> Record:
    run, split = planned.run, experiment.folds[planned.run.fold]
    train = experiment.lessons.select(split.train)
    validation, test = (experiment.sequences.select(part) for part in (split.validation, split.test))
    parts = {"train": train, "validation": validation, "test": test}
    students = {name: len(part.students()) for name, part in parts.items()}
    best: tuple[Trial, AnswerLearner, list[Epoch]] | None = None
    checkpoints = []
    seconds = 0.0
    for number, trial in enumerate(planned.trials):
        begin = time.perf_counter()
        objective, learned, stopped_by = objective_of(trial, train, validation, experiment)
        seconds += time.perf_counter() - begin  # a model may be fitted as it is prepared
        checkpoints.append(experiment.records.checkpoints / f"{run.file_name()}-{number}.pt")
        epochs = fit(
            objective,
            learned,
            stopped_by,
            trial.training,
            checkpoint=checkpoints[-1],
            resume=True,
            watch=_watch(objective, validation, experiment.truth) if planned.watch_bound else dict,
            on_epoch=partial(on_epoch, run),
        )
        seconds += sum(epoch.seconds for epoch in epochs)
        if best is None or epochs[-1].best_score > best[2][-1].best_score:
            best = trial, objective, epochs
    assert best is not None
    trial, learner, epochs = best
    model = learner.model
    risk = None if experiment.truth is None else true_risk(model, test, experiment.truth)
    if risk is not None and isinstance(learner, JointObjective) and learner.imputation is not None:
        assert experiment.truth is not None
        risk.metrics.update(mean_errors(learner, test, experiment.truth))
    logged = experiment.estimator(run.fold).logged_errors(model, test) if planned.estimate_risk else None
    record = _record(run, experiment, predict(model, test), students, seconds, epochs, risk, trial.chosen, logged)
    for checkpoint in checkpoints:
        checkpoint.unlink(missing_ok=True)
    return record


def _run_baseline(experiment: Experiment, run: Run) -> Record:
    split = experiment.folds[run.fold]
    begin = time.perf_counter()
    train, test = experiment.lessons.select(split.train), experiment.sequences.select(split.test)
    if run.backbone in LIMITS:
        assert experiment.simulation is not None
        said = best_possible(run.backbone, experiment.simulation, test)
    else:
        said = MEANS[run.backbone](train, test)
    risk = None if experiment.truth is None else risk_of(said.everywhere, test, experiment.truth)
    students = {"train": len(train.students()), "test": len(test.students())}
    return _record(run, experiment, said.observed, students, time.perf_counter() - begin, risk=risk)


def objective_of(
    trial: Trial, train: Sequences, validation: Sequences, experiment: Experiment
) -> tuple[AnswerLearner, Sequences, Sequences]:
    """What a trial learns by, and the sequences that it learns from."""
    truth = experiment.truth
    if trial.debias is not None:
        if trial.debias.propensities != "estimated" and experiment.simulation is not None:
            wrong = trial.debias.propensities == "wrong"
            train, validation = (
                with_known_exposure(part, experiment.simulation, upside_down=wrong) for part in (train, validation)
            )
        how = trial.backbone, train, trial.options, trial.training, trial.debias
        return new_objective(*how, validation), train, validation
    assert truth is not None
    model = new_model(trial.backbone, train, trial.options, trial.training)
    model.prepare(train)
    seed = trial.training.seed
    return RandomExposureObjective(model, trial.training), expose(train, truth, seed), expose(validation, truth, seed)


def _watch(objective: Learner, validation: Sequences, truth: KnownSuccess | None) -> Callable[[], dict[str, float]]:
    assert isinstance(objective, JointObjective)
    assert isinstance(truth, Truth)
    return partial(bound_terms, objective, validation, truth)


def _record(
    run: Run,
    experiment: Experiment,
    predictions: Predictions,
    students: Mapping[str, int],
    seconds: float,
    epochs: list[Epoch] | None = None,
    risk: TrueRisk | None = None,
    chosen: Mapping[str, Any] | None = None,
    logged: LoggedErrors | None = None,
) -> Record:
    sequences, test = experiment.sequences, set(experiment.folds[run.fold].test)
    numbers = zip(sequences.student, sequences.student_numbers().tolist(), strict=True)
    tested = sorted({number for name, number in numbers if name in test})
    who: dict[str, list[float | None]] = {"student": [float(number) for number in tested]}
    estimated = {}
    if logged is not None:
        estimates = logged.risk()
        estimated = {"estimated_snips": estimates.snips.value, "estimated_dr": estimates.dr.value}
    return Record(
        **run.model_dump(),
        metrics=pooled(predictions) | (risk.metrics if risk else {}) | estimated,
        per_student=per_student(predictions),
        bias=risk.bias if risk else None,
        by_student=who
        | of_each_student(predictions)
        | (risk.by_student if risk else {})
        | (logged.influence() if logged else {}),
        calibration=calibration(predictions),
        students=students,
        scored=len(predictions.correct),
        epochs=len(epochs or []),
        best_epoch=epochs[-1].best_epoch if epochs else 0,
        chosen=chosen or None,
        watched=[epoch.watched for epoch in epochs] if epochs and epochs[0].watched else None,
        seconds=seconds,
        threads=torch.get_num_threads(),
        peak_memory_mib=peak_memory_mib(),
        versions=versions(),
    )
