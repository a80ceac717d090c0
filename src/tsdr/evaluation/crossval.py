"""Cross-validation by student: every fold trains from its seed and is tested on students that it has not seen."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any

from tsdr.backbones.contract import AnyBackbone
from tsdr.debias.exposure import RandomExposureObjective, expose
from tsdr.debias.objective import METHODS, NAIVE, DebiasOptions, JointObjective, new_model, new_objective
from tsdr.errors import InputError
from tsdr.evaluation.baselines import BASELINES
from tsdr.evaluation.bound import bound_terms
from tsdr.evaluation.metrics import Predictions, calibration, of_each_student, per_student, pooled, predict
from tsdr.evaluation.offpolicy import LoggedErrors, RiskEstimator
from tsdr.evaluation.records import Record, RecordFolder, Run, peak_memory_mib
from tsdr.evaluation.truth import KnownSuccess, TrueRisk, true_risk
from tsdr.sequences import Folds, Sequences
from tsdr.simulator import Truth
from tsdr.training.bundle import versions
from tsdr.training.trainer import Epoch, Objective, TrainingOptions, fit

RANDOM_EXPOSURE = "random-exposure"
REGULARISED = "naive-regularised"
ALL_METHODS = ("naive", REGULARISED, *(method for method in METHODS if method != "naive"), RANDOM_EXPOSURE)
# What naive-regularised chooses from, in every fold, by the AUC on its validation students.
DROPOUTS, WEIGHT_DECAYS = (0.05, 0.3, 0.5), (0.0, 1e-4)


@dataclass(frozen=True)
class Experiment:
    """A log, its folds and, for a simulated one, its truth: what methods are compared on."""

    dataset: str
    sequences: Sequences
    folds: Folds
    records: RecordFolder
    truth: KnownSuccess | None = None
    _estimators: dict[int, RiskEstimator] = field(default_factory=dict, init=False, repr=False, compare=False)

    def setup(self) -> dict[str, int | str]:
        """What a record must say of it: a log of the same name and other content is another run."""
        return {
            "window": self.sequences.window,
            "minimum": self.sequences.minimum,
            "folds": len(self.folds),
            "data": self.sequences.digest(),
        }

    def estimator(self, fold: int) -> RiskEstimator:
        """What estimates the risk of any model on a fold's test students: learned from its training students, once."""
        if fold not in self._estimators:
            split = self.folds[fold]
            train, validation = self.sequences.select(split.train), self.sequences.select(split.validation)
            self._estimators[fold] = RiskEstimator.fit(train, validation, seed=self.folds.seed)
        return self._estimators[fold]


@dataclass(frozen=True)
class Trial:
    """One way to train a model: its options, how it is trained and, unless by random exposure, the objective's.

    `chosen` is what tells it from the other ways that a tuned method tries.
    """

    backbone: str
    options: Mapping[str, Any]
    training: TrainingOptions
    debias: DebiasOptions | None
    chosen: Mapping[str, Any] = field(default_factory=dict)

    def settings(self, experiment: Experiment) -> dict[str, Any]:
        """What a record says of it, every default spelt out."""
        model = new_model(self.backbone, experiment.sequences, self.options, self.training)
        debias = {} if self.debias in (None, NAIVE) else {"debias": self.debias.model_dump(mode="json")}
        return {
            "backbone": model.options,
            "training": self.training.model_dump(exclude={"seed", "device"}),
            **debias,
        }


@dataclass(frozen=True)
class FoldRun:
    """A fold that is to be trained and tested: what its record will be, and the ways to train that it chooses from."""

    run: Run
    trials: tuple[Trial, ...]
    watch_bound: bool
    estimate_risk: bool


def plan_folds(
    experiment: Experiment,
    *,
    backbone: str,
    options: Mapping[str, Any],
    training: TrainingOptions,
    method: str = "naive",
    watch_bound: bool = False,
    estimate_risk: bool = False,
) -> list[FoldRun]:
    """What there is to run to cross-validate a method.

    A method's options can be changed behind its name, as in `tsdr:smoothness=0`; of several values, as in
    `tsdr:smoothness=0.5|2`, each fold takes the one that is best on its validation students. `random-exposure` needs an
    experiment with its truth, and so does `watch_bound`, which keeps both terms of the bound epoch by epoch, on the
    validation students. `estimate_risk` adds estimates of the risk over all concepts, which rest on models.
    """
    check_method(method, experiment, watch_bound)
    trials = _trials(method, Trial(backbone, options, training, None))
    settings = trials[0].settings(experiment) | experiment.setup()
    if len(trials) > 1:
        settings["tuned"] = {name: tuple(dict.fromkeys(t.chosen[name] for t in trials)) for name in trials[0].chosen}
    if watch_bound:
        settings["watched"] = "bound"
    if estimate_risk:
        settings["estimated"] = "risk"
    if experiment.folds.seed != training.seed:
        settings["fold_seed"] = experiment.folds.seed
    runs = (
        Run(
            dataset=experiment.dataset,
            backbone=backbone,
            method=method,
            options=settings,
            fold=fold,
            seed=training.seed,
        )
        for fold in range(len(experiment.folds))
    )
    return [FoldRun(run, tuple(trials), watch_bound, estimate_risk) for run in runs]


def cross_validate(
    experiment: Experiment,
    *,
    on_epoch: Callable[[int, Epoch], None] = lambda fold, epoch: None,
    **planned: Any,
) -> Iterator[Record]:
    """Train and test a backbone by a method on every fold, as `plan_folds` has it; folds with a record are not run."""
    for fold_run in plan_folds(experiment, **planned):
        record = experiment.records.find(fold_run.run)
        if record is None:
            record = run_fold(experiment, fold_run, on_epoch)
            experiment.records.write(record)
        yield record


def check_method(method: str, experiment: Experiment, watch_bound: bool = False) -> None:
    """Refuse a method that does not exist, or that cannot be run on this experiment."""
    if method.split(":")[0] not in ALL_METHODS:
        raise InputError(f"there is no method {method!r}; choose from {', '.join(ALL_METHODS)}")
    if method == RANDOM_EXPOSURE and experiment.truth is None:
        raise InputError("random exposure needs the truth, so it takes a simulated log")
    if watch_bound and not isinstance(experiment.truth, Truth):
        raise InputError("the bound needs the truth, so it takes a simulated log")
    if watch_bound and method == RANDOM_EXPOSURE:
        raise InputError("the bound is one of learning from a selected log; random exposure has none")
    if method.split(":")[0] in METHODS:
        _alternatives(method)


def _trials(method: str, base: Trial) -> list[Trial]:
    """The ways to train that a method chooses from: one, unless it is tuned."""
    if method == RANDOM_EXPOSURE:
        return [base]
    if method != REGULARISED:
        return [replace(base, debias=debias, chosen=chosen) for debias, chosen in _alternatives(method)]
    return [
        replace(
            base,
            options={**base.options, "dropout": dropout},
            training=base.training.model_copy(update={"weight_decay": decay}),
            debias=NAIVE,
            chosen={"dropout": dropout, "weight_decay": decay},
        )
        for dropout in DROPOUTS
        for decay in WEIGHT_DECAYS
    ]


def _alternatives(method: str) -> list[tuple[DebiasOptions, dict[str, Any]]]:
    """The options that a method chooses from, and for each what sets it apart."""
    name, *changes = method.split(":")
    written = [(option, values.split("|")) for option, _, values in (change.partition("=") for change in changes)]
    found = []
    for values in product(*(values for _, values in written)):
        pairs = list(zip((option for option, _ in written), values, strict=True))
        debias = DebiasOptions.of_method(":".join([name, *(f"{option}={value}" for option, value in pairs)]))
        chosen = {option: getattr(debias, option) for option, several in written if len(several) > 1}
        found.append((debias, chosen))
    return found


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
                predictions = baseline(train, test)
                students = {"train": len(train), "test": len(test)}
                record = _record(run, experiment, predictions, students, time.perf_counter() - begin)
                experiment.records.write(record)
            yield record


def run_fold(
    experiment: Experiment,
    planned: FoldRun,
    on_epoch: Callable[[int, Epoch], None] = lambda fold, epoch: None,
) -> Record:
    """Train by every trial, and test the one that is best on the validation students; goes on from its checkpoints."""
    run, split = planned.run, experiment.folds[planned.run.fold]
    train, validation, test = (
        experiment.sequences.select(part) for part in (split.train, split.validation, split.test)
    )
    students = {"train": len(train), "validation": len(validation), "test": len(test)}
    best: tuple[Trial, AnyBackbone, list[Epoch]] | None = None
    checkpoints = []
    seconds = 0.0
    for number, trial in enumerate(planned.trials):
        objective, learned, stopped_by = _objective(trial, train, validation, experiment.truth)
        checkpoints.append(experiment.records.checkpoints / f"{run.file_name()}-{number}.pt")
        epochs = fit(
            objective,
            learned,
            stopped_by,
            trial.training,
            checkpoint=checkpoints[-1],
            resume=True,
            watch=_watch(objective, validation, experiment.truth) if planned.watch_bound else dict,
            on_epoch=lambda epoch: on_epoch(run.fold, epoch),
        )
        seconds += sum(epoch.seconds for epoch in epochs)
        if best is None or epochs[-1].best_auc > best[2][-1].best_auc:
            best = trial, objective.model, epochs
    assert best is not None
    trial, model, epochs = best
    risk = None if experiment.truth is None else true_risk(model, test, experiment.truth)
    logged = experiment.estimator(run.fold).logged_errors(model, test) if planned.estimate_risk else None
    record = _record(run, experiment, predict(model, test), students, seconds, epochs, risk, trial.chosen, logged)
    for checkpoint in checkpoints:
        checkpoint.unlink(missing_ok=True)
    return record


def _objective(
    trial: Trial, train: Sequences, validation: Sequences, truth: KnownSuccess | None
) -> tuple[JointObjective | RandomExposureObjective, Sequences, Sequences]:
    """What a trial learns by, and the sequences that it learns from."""
    if trial.debias is not None:
        return new_objective(trial.backbone, train, trial.options, trial.training, trial.debias), train, validation
    assert truth is not None
    model = new_model(trial.backbone, train, trial.options, trial.training)
    model.prepare(train)
    seed = trial.training.seed
    return RandomExposureObjective(model, trial.training), expose(train, truth, seed), expose(validation, truth, seed)


def _watch(objective: Objective, validation: Sequences, truth: KnownSuccess | None) -> Callable[[], dict[str, float]]:
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
        peak_memory_mib=peak_memory_mib(),
        versions=versions(),
    )
