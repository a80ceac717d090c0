"""From options to what learns: fresh models for the vocabulary of a training split, and the objective over them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tsdr.backbones.contract import AnyBackbone, Reader, build_backbone, check_window, only_if
from tsdr.backbones.scored import BATCH, of_scored
from tsdr.debias.answers import AnswerLearner
from tsdr.debias.crippled import CrippledImputation, shuffled
from tsdr.debias.fitted import FittedObjective
from tsdr.debias.imputation import Imputation, without_questions
from tsdr.debias.objective import JointObjective
from tsdr.debias.propensity import ConceptQuestions
from tsdr.debias.stack import FEWEST, Unseen
from tsdr.errors import InputError
from tsdr.folds import Folds
from tsdr.lessons import Lessons
from tsdr.methods import COUNTS, NAIVE_OPTIONS, DebiasOptions
from tsdr.sequences import Batch, Sequences
from tsdr.training.options import TrainingOptions

CROSS_FITS = 5


def new_model(backbone: str, sequences: Lessons, options: Mapping[str, Any], training: TrainingOptions) -> AnyBackbone:
    """A fresh model for the vocabulary of these sequences, the same for the same seed; one that can read them."""
    check_window(backbone, sequences.window)
    torch.manual_seed(training.seed)
    vocabulary = sequences.vocabulary
    sizes = {"n_concepts": len(vocabulary.concepts), "n_questions": len(vocabulary.questions)}
    model = build_backbone(backbone, **sizes, **options, **only_if(sequences.skips))
    return model.to(training.torch_device())


def new_imputation(
    backbone: str, model: AnyBackbone, train: Lessons, training: TrainingOptions, debias: DebiasOptions
) -> Imputation:
    """What imputes beside a backbone, as the options have it: fitted to the training split, or yet to learn."""
    learned = None
    if debias.imputation != "counts":
        learned = network_beside(backbone, model, debias).to(training.torch_device())
        sample = train.sample()
        learned.prepare(replace(sample, events=without_questions(sample.events)))
    fitted = [] if debias.imputation == "own" else [_fitted_counts(train.sample(), training, debias)]
    return CrippledImputation(fitted, learned) if debias.crippled else Imputation(fitted, learned)


@torch.no_grad()
def cross_fitted(train: Sequences, training: TrainingOptions, debias: DebiasOptions) -> Unseen:
    """The training students, with what `counts` says of their answers if it is fitted without them, fold by fold."""
    logits = torch.zeros(len(train.scored), 1)
    name, number = np.array(train.students()), train.student_of_scored().numpy()
    student = np.sort(name)[number]
    for split in Folds.by_student(train.student, CROSS_FITS, validation=0, seed=training.seed).splits:
        fitted = [_fitted_counts(train.select(split.train), training, debias)]
        imputation = CrippledImputation(fitted) if debias.crippled else Imputation(fitted)
        logits[np.isin(student, split.test)] = said_of_scored(imputation, train.select(split.test), training)
    return Unseen(train, logits)


def said_of_scored(imputation: Imputation, sequences: Sequences, training: TrainingOptions) -> Tensor:
    """The logits [scored answers, models] of imputation models for what was logged."""
    reader, device = Reader(imputation), training.torch_device()

    def say(part: Batch) -> Tensor:
        batch = part.to(device)
        return imputation.of_observed(reader.read(batch), batch)[batch.scored].cpu()

    return of_scored(sequences, BATCH, say)


def _fitted_counts(train: Sequences, training: TrainingOptions, debias: DebiasOptions) -> AnyBackbone:
    model = new_model(COUNTS, train, {}, training)
    if debias.crippled:
        train = replace(train, events=shuffled(train.events, train.events.answered))
    model.prepare(train)
    return model


def network_beside(backbone: str, model: AnyBackbone, debias: DebiasOptions) -> AnyBackbone:
    """A second network of a backbone's kind, fresh, which knows concepts only.

    In its light size, if it has one and that is asked for; or smaller still, where `counts` imputes along.
    """
    smaller = model.slim_options if debias.imputation == "both" else model.light_options
    options = {**model.options, **(smaller if debias.light_imputation else {})}
    return build_backbone(backbone, n_concepts=model.n_concepts, n_questions=1, **options)


def new_objective(
    backbone: str,
    train: Lessons,
    options: Mapping[str, Any],
    training: TrainingOptions,
    debias: DebiasOptions,
    held_out: Sequences | None = None,
) -> AnswerLearner:
    """A fresh model, prepared on the training split, and the objective to train it by.

    A targeted imputation goes by the answers of students that are `held_out` of training and, where it is by `counts`
    alone, of the training students, too, by fits without them; where these are too few, it is left as it is.
    """
    if debias.propensities != "estimated" and train.sample().events.exposure is None:
        raise InputError(f"propensities={debias.propensities} takes a simulated log: of no other are they known")
    model = new_model(backbone, train, options, training)
    model.prepare(train)
    if model.fits_itself and debias == NAIVE_OPTIONS:
        return FittedObjective(model, training)
    imputation, unseen = None, []
    if debias.imputing:
        imputation = new_imputation(backbone, model, train, training, debias)
        unseen = [] if held_out is None else [Unseen(held_out)]
        if debias.targeted and debias.imputation == "counts" and len(train.sample().students()) >= FEWEST:
            unseen.append(cross_fitted(train.sample(), training, debias))
    questions = ConceptQuestions(train.pairs(), model.n_concepts, model.n_questions)
    return JointObjective(model, debias, training, imputation, questions, unseen)
