"""From options to what learns: fresh models for the vocabulary of a training split, and the objective over them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from tsdr.backbones.contract import AnyBackbone, build_backbone
from tsdr.debias.answers import AnswerLearner
from tsdr.debias.fitted import FittedObjective
from tsdr.debias.imputation import without_questions
from tsdr.debias.objective import JointObjective
from tsdr.debias.propensity import QuestionFrequency
from tsdr.methods import NAIVE_OPTIONS, DebiasOptions
from tsdr.sequences import Sequences
from tsdr.training.options import TrainingOptions


def new_model(
    backbone: str, sequences: Sequences, options: Mapping[str, Any], training: TrainingOptions
) -> AnyBackbone:
    """A fresh model for the vocabulary of these sequences, the same for the same seed."""
    torch.manual_seed(training.seed)
    vocabulary = sequences.vocabulary
    model = build_backbone(
        backbone, n_concepts=len(vocabulary.concepts), n_questions=len(vocabulary.questions), **options
    )
    return model.to(training.torch_device())


def imputation_model(backbone: str, model: AnyBackbone, debias: DebiasOptions) -> AnyBackbone | None:
    """A fresh imputation model beside a backbone, if the options call for one."""
    if not debias.imputing:
        return None
    options = {**model.options, **(model.light_options if debias.light_imputation else {})}
    return build_backbone(backbone, n_concepts=model.n_concepts, n_questions=1, **options)


def new_objective(
    backbone: str,
    train: Sequences,
    options: Mapping[str, Any],
    training: TrainingOptions,
    debias: DebiasOptions,
) -> AnswerLearner:
    """A fresh model, prepared on the training split, and the objective to train it by."""
    model = new_model(backbone, train, options, training)
    model.prepare(train)
    if model.fits_itself and debias == NAIVE_OPTIONS:
        return FittedObjective(model, training)
    imputation = imputation_model(backbone, model, debias)
    if imputation is not None:
        imputation.to(training.torch_device()).prepare(replace(train, batch=without_questions(train.batch)))
    frequency = QuestionFrequency(train.batch, model.n_concepts, model.n_questions)
    return JointObjective(model, debias, training, imputation, frequency)
