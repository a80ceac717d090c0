"""Tuning α and weights on validation students, with Optuna; every trial is kept, and a search that stopped goes on."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tsdr.backbones.contract import backbone_class
from tsdr.debias.building import new_objective
from tsdr.defaults import VALIDATION
from tsdr.devices import on_threads
from tsdr.errors import InputError, extra_missing, in_a_sentence
from tsdr.folds import Split
from tsdr.methods import DebiasOptions, Method
from tsdr.sequences import Sequences
from tsdr.training.options import TrainingOptions
from tsdr.training.trainer import fit

if TYPE_CHECKING:
    from optuna import Study, Trial

ALPHA, LARGEST_WEIGHT = (1.0, 30.0), (1.0, 10.0)


@dataclass(frozen=True)
class Tuned:
    """The best trial: its method, to be given to `--method`, its validation AUC, and that of the defaults."""

    method: Method
    validation_auc: float
    default_auc: float
    trials: int
    students: int


def tune(
    sequences: Sequences,
    *,
    backbone: str,
    options: Mapping[str, Any],
    training: TrainingOptions,
    trials: int,
    storage: str,
    validation: float = VALIDATION,
    on_trial: Callable[[int, Method, float], None] = lambda number, method, value: None,
) -> Tuned:
    """Search α and the clip of the weights for the best AUC on one validation share of the students.

    The defaults are the first trial. The trials that the storage has already count, if they are of the same log, model
    and training. What is best on logged answers need not be closest to the truth.
    """
    training = training.model_copy(update={"stop_by": "auc"})  # what is searched for is what training stops by
    split = Split.hold_out(sequences.student, validation, seed=training.seed)
    train, held_out = sequences.select(split.train), sequences.select(split.validation)
    about = f"{backbone} {dict(options)} {training.model_dump_json(exclude={'device'})} {train.digest()}"
    study = _open(storage, training.seed, f"tsdr {backbone}", about)

    def measure(trial: "Trial") -> float:
        debias = _method(_suggest(trial)).options()
        with on_threads(parallel=backbone_class(backbone).parallel):
            objective = new_objective(backbone, train, options, training, debias, held_out)
            value = fit(objective, train, held_out, training)[-1].best_score
        on_trial(trial.number, _method(trial.params), value)
        return value

    study.optimize(measure, n_trials=max(0, trials - len(_done(study))))
    done = _done(study)
    best = max(done, key=lambda trial: trial.value)
    default = next(trial.value for trial in done if _method(trial.params) == _method(_defaults()))
    return Tuned(_method(best.params), best.value, default, len(done), len(held_out))


def _open(storage: str, seed: int, name: str, about: str) -> "Study":
    """The search of this name in a storage; a new one begins with the defaults."""
    try:
        import optuna
        from sqlalchemy.exc import SQLAlchemyError
    except ImportError as error:
        raise extra_missing("tuning needs Optuna", "tune") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        study = optuna.create_study(
            storage=storage,
            study_name=name,
            direction="maximize",
            load_if_exists=True,
        )
    except (SQLAlchemyError, ValueError) as error:
        raise InputError(f"--storage {storage}: cannot be opened ({in_a_sentence(error)})") from error
    # A sampler of the same seed would try again what has been tried.
    study.sampler = optuna.samplers.TPESampler(seed=seed + len(study.trials))
    if study.user_attrs.setdefault("about", about) != about:
        raise InputError(f"--storage {storage}: its trials are of another log or training; choose another storage")
    study.set_user_attr("about", about)
    if not any(_method(trial.params) == _method(_defaults()) for trial in _done(study)):
        study.enqueue_trial(_defaults())
    return study


def _defaults() -> dict[str, float]:
    options = DebiasOptions()
    return {"alpha": options.alpha, "largest_weight": options.clip[1]}


def _suggest(trial: "Trial") -> dict[str, float]:
    return {
        "alpha": trial.suggest_float("alpha", *ALPHA, log=True),
        "largest_weight": trial.suggest_float("largest_weight", *LARGEST_WEIGHT, log=True),
    }


def _method(found: Mapping[str, float]) -> Method:
    """The method with these options, to three digits: what is trained is what is printed."""
    largest = found["largest_weight"]
    return Method("tsdr", (("alpha", (f"{found['alpha']:.3g}",)), ("clip", (f"{1 / largest:.3g}/{largest:.3g}",))))


def _done(study: "Study") -> list[Any]:
    """The trials that came to an end; one that was stopped counts for nothing."""
    return [trial for trial in study.trials if trial.state.is_finished() and trial.value is not None]
