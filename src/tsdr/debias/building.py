"""From options to what learns: fresh models for the vocabulary of a training split, and the objective over them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from tsdr.backbones.contract import AnyBackbone, build_backbone
from tsdr.debias.answers import AnswerLearner
from tsdr.debias.fitted import FittedObjective
from tsdr.debias.imputation import Imputation, without_questions
from tsdr.debias.objective import JointObjective
from tsdr.debias.propensity import ConceptQuestions
from tsdr.methods import COUNTS, NAIVE_OPTIONS, DebiasOptions
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


def new_imputation(
    backbone: str, model: AnyBackbone, train: Sequences, training: TrainingOptions, debias: DebiasOptions
) -> Imputation | None:
    """What imputes beside a backbone, if the options call for it: fitted to the training split, or yet to learn."""
    if not debias.imputing:
        return None
    device = training.torch_device()
    learned = None if debias.imputation == "counts" else network_like(backbone, model, light=debias.light_imputation)
    if learned is not None:
        learned.to(device).prepare(replace(train, batch=without_questions(train.batch)))
    fitted = []
    if debias.imputation != "own":
        fitted.append(build_backbone(COUNTS, n_concepts=model.n_concepts, n_questions=model.n_questions).to(device))
        fitted[0].prepare(train)
    return Imputation(fitted, learned)


def network_like(backbone: str, model: AnyBackbone, *, light: bool) -> AnyBackbone:
    """A second network of a backbone's kind, fresh, which knows concepts only: in its light size, if it has one."""
    options = {**model.options, **(model.light_options if light else {})}
    return build_backbone(backbone, n_concepts=model.n_concepts, n_questions=1, **options)


def new_objective(
    backbone: str,
    train: Sequences,
    options: Mapping[str, Any],
    training: TrainingOptions,
    debias: DebiasOptions,
    held_out: Sequences | None = None,
) -> AnswerLearner:
    """A fresh model, prepared on the training split, and the objective to train it by.

    A targeted imputation goes by the answers of students that are `held_out` of training.
    """
    model = new_model(backbone, train, options, training)
    model.prepare(train)
    if model.fits_itself and debias == NAIVE_OPTIONS:
        return FittedObjective(model, training)
    imputation = new_imputation(backbone, model, train, training, debias)
    questions = ConceptQuestions(train.batch, model.n_concepts, model.n_questions)
    return JointObjective(model, debias, training, imputation, questions, held_out)
