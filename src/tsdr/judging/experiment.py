"""An experiment: a log, its folds and what is known of it; and the plan of what there is to run on it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tsdr.backbones.contract import backbone_class
from tsdr.backbones.plugins import origin_of
from tsdr.debias.building import new_model
from tsdr.defaults import BACKBONE, FOLDS, METHOD, MINIMUM, SEED, WINDOW, Extent
from tsdr.diagnosis.offpolicy import RiskEstimator
from tsdr.errors import InputError
from tsdr.folds import Folds
from tsdr.judging.baselines import LIMITS, MEANS
from tsdr.log import Log
from tsdr.methods import BASELINE, COUNTS, NAIVE, NAIVE_OPTIONS, RANDOM_EXPOSURE, REGULARISED, DebiasOptions, Method
from tsdr.records.folder import RecordFolder
from tsdr.records.run import Run
from tsdr.sequences import Sequences
from tsdr.simulator import Simulation, Truth
from tsdr.training.options import TrainingOptions
from tsdr.truth import KnownSuccess

# What naive-regularised chooses from, in every fold, by the AUC on its validation students.
DROPOUTS, WEIGHT_DECAYS = (0.05, 0.3, 0.5), (0.0, 1e-4)


@dataclass(frozen=True)
class View:
    """How much of histories there is to see: before each answer a `window` of the answers so far, or all of them.

    The latest `scored` answers of a student are what models are judged by, and the latest `learned` what they learn
    from; unless it is said, as many as one window has. With `skips`, offers that were turned down are seen, too.
    """

    window: Extent = WINDOW
    scored: Extent | None = None
    learned: Extent | None = None
    skips: bool = False


PAPER_VIEW = View()


@dataclass(frozen=True)
class Experiment:
    """A log, its folds and, where it is known, its truth: what methods are compared on; with how it was simulated.

    Models learn from the `lessons` of a fold's training students, and are judged by `sequences` of the others. If its
    students were drawn by chance, the log had so many that they are `drawn_from`.
    """

    dataset: str
    lessons: Sequences
    sequences: Sequences
    folds: Folds
    records: RecordFolder
    truth: KnownSuccess | None = None
    simulation: Simulation | None = None
    drawn_from: int | None = None
    _estimators: dict[int, RiskEstimator] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def of_log(
        cls,
        dataset: str,
        log: Log,
        records: RecordFolder,
        *,
        truth: KnownSuccess | None = None,
        simulation: Simulation | None = None,
        folds: int = FOLDS,
        seed: int = SEED,
        view: View = PAPER_VIEW,
        minimum: int = MINIMUM,
        drawn_from: int | None = None,
    ) -> "Experiment":
        """Cut a log into sequences and deal its students into folds."""
        lessons, sequences = (
            Sequences.from_log(log, window=view.window, scored=counted, minimum=minimum, skips=view.skips)
            for counted in (view.learned, view.scored)
        )
        assigned = Folds.by_student(sequences.student, folds, seed=seed)
        known = simulation.truth if simulation else truth
        return cls(dataset, lessons, sequences, assigned, records, known, simulation, drawn_from)

    @property
    def has_limit(self) -> bool:
        """Whether the best possible predictor is known: of a simulated log, unless its recommender knows the truth."""
        recommender = None if self.simulation is None else self.simulation.options["recommender"]
        return self.simulation is not None and (recommender is None or recommender["estimate"] != "truth")

    def setup(self) -> dict[str, int | str]:
        """What a record must say of it: a log of the same name and other content is another run.

        Which answers count goes without saying where they are those of one window.
        """
        window = self.sequences.window
        counted = {"scored": self.sequences.counted, "learned": self.lessons.counted}
        as_many = "all" if window == "all" else window - 1
        return {
            "window": window,
            **{name: extent for name, extent in counted.items() if extent != as_many},
            **({"skips": "read"} if self.sequences.skips else {}),
            "minimum": self.sequences.minimum,
            **({"drawn_from": self.drawn_from} if self.drawn_from else {}),
            "folds": len(self.folds),
            "data": self.sequences.digest(),
        }

    def estimator(self, fold: int) -> RiskEstimator:
        """What estimates the risk of any model on a fold's test students: learned from its training students, once."""
        if fold not in self._estimators:
            split = self.folds[fold]
            train, validation = self.lessons.select(split.train), self.sequences.select(split.validation)
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
        debias = {} if self.debias in (None, NAIVE_OPTIONS) else {"debias": self.debias.model_dump(mode="json")}
        origin = origin_of(self.backbone)
        return {
            "backbone": model.options,
            **({} if origin is None else {"plugin": origin}),
            "training": self.training.settings(),
            **debias,
        }


@dataclass(frozen=True)
class FoldRun:
    """A fold that is to be trained and tested: what its record will be, and the ways to train that it chooses from.

    A baseline has none.
    """

    run: Run
    trials: tuple[Trial, ...] = ()
    watch_bound: bool = False
    estimate_risk: bool = False


def plan_folds(
    experiment: Experiment,
    *,
    backbone: str = BACKBONE,
    options: Mapping[str, Any] | None = None,
    training: TrainingOptions,
    method: Method | str = METHOD,
    watch_bound: bool = False,
    estimate_risk: bool = False,
) -> list[FoldRun]:
    """What there is to run to cross-validate a method.

    Of several values of an option, each fold takes the one that is best on its validation students. `random-exposure`
    needs an experiment with its truth, and so does `watch_bound`, which keeps both terms of the bound epoch by epoch,
    on the validation students. `estimate_risk` adds estimates of the risk over all concepts, which rest on models.
    """
    method = Method.parse(method) if isinstance(method, str) else method
    _check(method, backbone, experiment, watch_bound)
    if backbone_class(backbone).fits_itself and method == NAIVE:
        training = training.model_copy(update={"stop_by": "auc"})  # nothing is to be stopped: one record by any rule
    trials = _trials(method, Trial(backbone, options or {}, training, None))
    settings = trials[0].settings(experiment) | experiment.setup()
    if len(trials) > 1:
        settings["tuned"] = {name: tuple(dict.fromkeys(t.chosen[name] for t in trials)) for name in trials[0].chosen}
    if watch_bound:
        settings["watched"] = "bound"
    if estimate_risk:
        settings["estimated"] = "risk"
    if experiment.folds.seed != training.seed:
        settings["fold_seed"] = experiment.folds.seed
    return [
        FoldRun(
            Run(
                dataset=experiment.dataset,
                backbone=backbone,
                method=method,
                options=settings,
                fold=fold,
                seed=training.seed,
            ),
            tuple(trials),
            watch_bound,
            estimate_risk,
        )
        for fold in range(len(experiment.folds))
    ]


def plan_baselines(experiment: Experiment, training: TrainingOptions) -> list[FoldRun]:
    """What stands beside every model on the same folds: means, the limit where it is known, and `counts`."""
    names = (*MEANS, *(LIMITS if experiment.has_limit else ()))
    plain = [
        FoldRun(
            Run(
                dataset=experiment.dataset,
                backbone=name,
                method=BASELINE,
                options=experiment.setup(),
                fold=fold,
                seed=experiment.folds.seed,
            )
        )
        for name in names
        for fold in range(len(experiment.folds))
    ]
    return [*plain, *plan_folds(experiment, backbone=COUNTS, training=training, method=NAIVE)]


def _check(method: Method, backbone: str, experiment: Experiment, watch_bound: bool) -> None:
    """Refuse a method that cannot be run on this experiment, or by this backbone."""
    if backbone_class(backbone).fits_itself and (method.name == REGULARISED or (watch_bound and method == NAIVE)):
        raise InputError(
            f"{backbone} is fitted at once: it has no dropout to tune, and no epochs to watch a bound over"
        )
    if method.name == RANDOM_EXPOSURE and experiment.truth is None:
        raise InputError("random exposure needs the truth, so it takes a simulated log")
    if watch_bound and not isinstance(experiment.truth, Truth):
        raise InputError("the bound needs the truth, so it takes a simulated log")
    if watch_bound and method.name == RANDOM_EXPOSURE:
        raise InputError("the bound is one of learning from a selected log; random exposure has none")


def _trials(method: Method, base: Trial) -> Sequence[Trial]:
    """The ways to train that a method chooses from: one, unless it is tuned."""
    if method.name == RANDOM_EXPOSURE:
        return [base]
    if method.name != REGULARISED:
        return [replace(base, debias=debias, chosen=chosen) for debias, chosen in method.alternatives()]
    return [
        replace(
            base,
            options={**base.options, "dropout": dropout},
            training=base.training.model_copy(update={"weight_decay": decay}),
            debias=NAIVE_OPTIONS,
            chosen={"dropout": dropout, "weight_decay": decay},
        )
        for dropout in DROPOUTS
        for decay in WEIGHT_DECAYS
    ]
