"""How a log was selected: exposure, propensities, overlap, weights, placebos, and a verdict.

All that concerns propensities is measured on held-out students, whom the selection model has not seen.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from tsdr.backbones.contract import AnyBackbone
from tsdr.debias.building import new_objective
from tsdr.defaults import MINIMUM, SEED, WINDOW, Extent
from tsdr.devices import on_threads
from tsdr.diagnosis.findings import (
    UNSEEN,
    Band,
    Bands,
    CalibrationBin,
    ClipPoint,
    ConceptExposure,
    Diagnosis,
    Exposure,
    Placebos,
    Propensities,
    Selection,
    Subject,
    WeightsFound,
)
from tsdr.diagnosis.offpolicy import CLIP, IMPUTATION_TRAINING, LoggedErrors, RiskEstimator
from tsdr.diagnosis.questions import CHANCE_DRAWS, misplaced, question_exposure
from tsdr.diagnosis.selection import (
    SELECTION_WINDOW,
    CalibrationCount,
    SelectionModel,
    at_observed,
    fit_selection,
    marginal_log_loss,
    over_batches,
)
from tsdr.diagnosis.skips import skips_of
from tsdr.diagnosis.verdict import SLIGHT, judge
from tsdr.errors import InputError
from tsdr.folds import Folds
from tsdr.log import Log
from tsdr.methods import NAIVE_OPTIONS
from tsdr.models.model import Model
from tsdr.resampling import Array, Estimate, bootstrap
from tsdr.sampling import sampled
from tsdr.sequences import Events, Sequences
from tsdr.training.trainer import fit

FEWEST_STUDENTS = 40
HELD_OUT, VALIDATION = 4, 0.15  # one student in four is held out, and 15 % of the others stop the training
THRESHOLDS = (0.5, 0.1, 0.01)
CLIPS = (1.0, 1.5, 2.0, 4.0, 10.0, 30.0, 100.0, 1000.0)
LARGEST, LEAST_LOGGED = 5, 10
BANDS = ("lowest quarter", "second quarter", "third quarter", "highest quarter")
GROUPS = ("hardest", "hard", "middling", "easy", "easiest")
SMOOTHING = 5.0

Stage = Callable[[str], None]


@dataclass(frozen=True)
class _Parts:
    """The students to learn from, to stop by, and to measure on."""

    train: Sequences
    validation: Sequences
    held_out: Sequences

    @classmethod
    def of(cls, sequences: Sequences, seed: int) -> "_Parts":
        split = Folds.by_student(sequences.student, HELD_OUT, validation=VALIDATION, seed=seed)[0]
        return cls(*(sequences.select(part) for part in (split.train, split.validation, split.test)))


@on_threads(parallel=False)
def diagnose(
    log: Log,
    model: Model | None = None,
    *,
    window: Extent | None = None,
    minimum: int = MINIMUM,
    students: Extent | None = None,
    seed: int = SEED,
    on_stage: Stage = lambda stage: None,
) -> Diagnosis:
    """Diagnose how a log was selected; risks are those of the model or, without one, of a quickly trained dkt.

    The window is the model's, or 50, unless another is given. With a model its vocabulary is used, and answers to
    concepts that it does not know are left out and counted. Of a log of more than a million answers, students who have
    about a million are drawn by the seed: or so many `students`, or all.
    """
    told, log = log, sampled(log, students, seed)
    in_view = window or (model.window if model else WINDOW)
    sequences = Sequences.from_log(
        log,
        model.vocabulary if model else None,
        window=in_view,
        scored=SELECTION_WINDOW - 1 if in_view == "all" else None,
        minimum=minimum,
        unknown="skip",
        skips=log.skipped_offers > 0 if model is None else model.reads_skips,
    )
    _check(sequences)
    parts = _Parts.of(sequences, seed)
    shown = _Parts.of(sequences.within(SELECTION_WINDOW), seed)
    selection = fit_selection(shown.train, shown.validation, seed=seed, on_stage=on_stage)
    asked = model.backbone if model else _quick_model(parts, seed, on_stage)
    estimator = RiskEstimator.fit(parts.train, parts.validation, seed=seed, selection=selection, on_stage=on_stage)
    on_stage("weighing the answers of held-out students")
    logged = estimator.logged_errors(asked, parts.held_out, seed)
    whole = Sequences.from_log(log, sequences.vocabulary, window="all", minimum=1, unknown="skip").answers
    exposure, propensities, weights = (
        _exposure(whole, sequences.vocabulary.concepts, seed),
        _propensities(selection, shown.held_out),
        _weights(logged),
    )
    found, skips = _selection(selection, shown), skips_of(log)
    questions = question_exposure(whole, seed)
    placebos = _placebos(sequences.within(SELECTION_WINDOW), logged, seed, on_stage)
    verdict = judge(
        distance=exposure.distance,
        distance_by_chance=exposure.by_chance,
        questions=questions,
        gain=found.gain,
        placebo=placebos.permuted_gain,
        effective_share=weights.effective_share,
        unseen_share=propensities.below[f"{UNSEEN:g}"],
        skips=skips,
        placebo_passed=placebos.permuted_passed and placebos.constant_passed,
    )
    return Diagnosis(
        verdict=verdict,
        subject=_subject(log, len(whole), sequences, parts, model, len(told.students) if told is not log else None),
        exposure=exposure,
        questions=questions,
        selection=found,
        skips=skips,
        propensities=propensities,
        weights=weights,
        risk=logged.risk(),
        bands=_bands(sequences),
        placebos=placebos,
    )


def _check(sequences: Sequences) -> None:
    students = len(set(sequences.student))
    if students < FEWEST_STUDENTS:
        raise InputError(
            f"{students} students have {sequences.minimum} answers or more, and a diagnosis needs {FEWEST_STUDENTS}: "
            "some to learn from and some to hold out; bring more students or lower the minimum"
        )
    if len(sequences.vocabulary.concepts) < 2:
        raise InputError("the log has one concept only, so nothing is selected among concepts")


def _quick_model(parts: _Parts, seed: int, on_stage: Stage) -> AnyBackbone:
    training = IMPUTATION_TRAINING.model_copy(update={"seed": seed})
    objective = new_objective("dkt", parts.train, {}, training, NAIVE_OPTIONS)
    fit(
        objective,
        parts.train,
        parts.validation,
        training,
        on_epoch=lambda epoch: on_stage(f"training a dkt to measure, epoch {epoch.number}"),
    )
    return objective.model


def _subject(
    log: Log, answers: int, sequences: Sequences, parts: _Parts, model: Model | None, drawn_from: int | None
) -> Subject:
    return Subject(
        students=len(sequences.students()),
        held_out_students=len(parts.held_out.students()),
        concepts=len(sequences.vocabulary.concepts),
        answers=answers,
        in_view=len(sequences.answers),
        window=sequences.window,
        short_students=sequences.dropped.short_students,
        earlier_answers=sequences.dropped.earlier_interactions,
        unknown_concept_answers=sequences.dropped.unknown_concepts,
        skipped_offers=log.skipped_offers,
        model=model.bundle.backbone if model else "dkt",
        own_model=model is not None,
        drawn_from=drawn_from,
    )


def _exposure(answers: Events, names: Sequence[str], seed: int) -> Exposure:
    """Of all answers of the log, not only of those in view."""
    counts = _counts(answers.concept.numpy(), len(names))
    order = np.argsort(-counts, kind="stable")
    share = counts[order] / counts.sum()
    some = share[share > 0]
    drawn = np.random.default_rng(seed).multinomial(counts.sum(), np.full(len(names), 1 / len(names)), CHANCE_DRAWS)
    return Exposure(
        busiest_tenth_share=float(share[: -(-len(share) // 10)].sum()),
        entropy=float(-(some * np.log(some)).sum() / np.log(len(share))),
        distance=_distance(counts),
        by_chance=float(misplaced(drawn).mean() / counts.sum()),
        relative=[float(f"{value:.4g}") for value in share * len(share)],
        least=[
            ConceptExposure(
                concept=names[i], answers=int(counts[i]), relative=float(counts[i] * len(names) / counts.sum())
            )
            for i in order[::-1][:LEAST_LOGGED]
        ],
    )


def _counts(concept: Array, n_concepts: int) -> Array:
    return np.bincount(concept, minlength=n_concepts)


def _distance(counts: Array) -> float:
    """Total variation distance from uniform."""
    return float(misplaced(counts) / counts.sum())


def _selection(model: SelectionModel, parts: _Parts) -> Selection:
    marginal = marginal_log_loss(model, parts.held_out).double().numpy()
    own = -at_observed(model, parts.held_out).double().numpy()
    return Selection(
        log_loss=float(own.mean()),
        marginal_log_loss=float(marginal.mean()),
        gain=_mean_by_student(marginal - own, parts.held_out),
    )


def _mean_by_student(values: Array, sequences: Sequences) -> Estimate:
    """The mean of values at scored steps, its interval by drawing students anew."""
    student = sequences.student_of_scored().numpy()
    return bootstrap(
        np.stack([np.bincount(student), np.bincount(student, values)], axis=1), lambda s: s[..., 1] / s[..., 0]
    )


def _propensities(model: SelectionModel, held_out: Sequences) -> Propensities:
    count = CalibrationCount(model.n_concepts)
    below = np.zeros(len(THRESHOLDS))
    for batch, every in over_batches(model, held_out):
        propensity = every.exp()
        count.add(propensity, batch.concept[batch.scored])
        below += [float((model.n_concepts * propensity < threshold).sum()) for threshold in THRESHOLDS]
    found = count.result()
    bins = zip(found.cells, found.predicted, found.logged, strict=True)
    return Propensities(
        calibration=[CalibrationBin(cells=int(c), predicted=float(p), logged=float(o)) for c, p, o in bins],
        error=found.error,
        below={f"{t:g}": float(cells / found.cells.sum()) for t, cells in zip(THRESHOLDS, below, strict=True)},
    )


def _weights(logged: LoggedErrors) -> WeightsFound:
    curve = []
    for clip in CLIPS:
        risk = logged.risk((1 / clip, clip))
        curve.append(
            ClipPoint(
                clip=clip,
                snips=risk.snips,
                effective_share=risk.effective_share,
                clipped_share=risk.clipped_share,
            )
        )
    usual = logged.weights(CLIP)
    return WeightsFound(
        answers=len(logged.error),
        effective_share=usual.effective_share,
        clipped_share=usual.clipped_share,
        clip=CLIP,
        largest=usual.raw.sort(descending=True).values[:LARGEST].tolist(),
        curve=curve,
    )


def _bands(sequences: Sequences) -> Bands:
    """Ability is from the first half of a sequence, exposure from the second: neither is read off the other."""
    n_concepts = len(sequences.vocabulary.concepts)
    concept, correct = sequences.answers.concept.numpy(), sequences.answers.correct.numpy()
    student = sequences.student_numbers()[sequences.row_of_events()][sequences.events.answered].numpy()
    total = np.bincount(student)
    first = np.unique(student, return_index=True)[1]
    early = np.arange(len(student)) - first[student] < (total[student] + 1) // 2
    ability = np.bincount(student, correct * early) / np.bincount(student, early)
    answers = _counts(concept, n_concepts)
    right = np.bincount(concept, correct, minlength=n_concepts)
    shown = (right + SMOOTHING * right.sum() / answers.sum()) / (answers + SMOOTHING)
    group = np.empty(n_concepts, dtype=int)
    groups = min(len(GROUPS), n_concepts)
    group[np.argsort(shown, kind="stable")] = np.arange(n_concepts) * groups // n_concepts
    of_group = np.bincount(group, minlength=groups) / n_concepts
    bands = []
    for name, rows in zip(BANDS, np.array_split(np.argsort(ability, kind="stable"), len(BANDS)), strict=True):
        met = concept[~early & np.isin(student, rows)]
        if not len(met):
            continue
        counts = _counts(met, n_concepts)
        bands.append(
            Band(
                name=name,
                students=len(rows),
                share_right=float(ability[rows].mean()),
                answers=len(met),
                distance=_distance(counts),
                relative=(np.bincount(group[met], minlength=groups) / len(met) / of_group).tolist(),
            )
        )
    names = GROUPS if groups == len(GROUPS) else tuple(f"group {i + 1}" for i in range(groups))
    return Bands(groups=list(names), bands=bands)


def _placebos(sequences: Sequences, logged: LoggedErrors, seed: int, on_stage: Stage) -> Placebos:
    parts = _Parts.of(permuted_concepts(sequences, seed), seed)
    model = fit_selection(
        parts.train,
        parts.validation,
        seed=seed,
        on_stage=lambda stage: on_stage(f"placebo, shuffled concepts: {stage}"),
    )
    gain = _selection(model, parts).gain
    constant = replace(logged, exposure=np.ones_like(logged.exposure)).risk()
    difference = constant.snips.value - constant.naive.value
    return Placebos(
        permuted_gain=gain,
        permuted_passed=gain.low <= SLIGHT,
        constant_difference=difference,
        constant_effective_share=constant.effective_share,
        constant_passed=abs(difference) < 1e-9 and abs(constant.effective_share - 1) < 1e-9,
    )


def permuted_concepts(sequences: Sequences, seed: int) -> Sequences:
    """The same sequences with the concepts of all steps shuffled among all students: selection is gone."""
    order = torch.randperm(len(sequences.events), generator=torch.Generator().manual_seed(seed))
    return replace(sequences, events=replace(sequences.events, concept=sequences.events.concept[order]))
