"""Learning to foretell answers: what every learner of a backbone has in common."""

import warnings
from collections.abc import Mapping

from torch.optim import Optimizer

from tsdr.backbones.contract import AnyBackbone
from tsdr.backbones.predicting import predict
from tsdr.errors import InputError
from tsdr.lessons import Lessons
from tsdr.metrics import auc, log_loss
from tsdr.sequences import Sequences
from tsdr.training.learner import Learner
from tsdr.training.options import StopBy

FEW = 20  # students: by the AUC of 8, on a log of 120, random exposure was kept at its first epoch now and then


class AnswerLearner(Learner):
    """Trains a backbone, and stops by its AUC on the answers of the validation students, or by its loss on them."""

    model: AnyBackbone

    def __init__(self, model: AnyBackbone, optimisers: Mapping[str, Optimizer], stop_by: StopBy) -> None:
        super().__init__(model, optimisers)
        self.stop_by = stop_by

    @property
    def score_name(self) -> str:
        """Of the two, the one to stop by; a score is the better the larger it is."""
        return "AUC" if self.stop_by == "auc" else "negative loss"

    def validate(self, validation: Sequences) -> float:
        """The score on the labels of the validation students."""
        found = predict(self.model, validation, self.team)
        if self.stop_by == "auc":
            return auc(found.success, found.correct)
        return -log_loss(found.success, found.correct) - self.loss_beyond_answers(validation)

    def loss_beyond_answers(self, validation: Sequences) -> float:
        """What is minimised beside the log loss of logged answers."""
        return 0.0

    def settle(self, validation: Sequences) -> None:
        """What the backbone takes from students whom it did not learn from."""
        self.model.settle(validation)

    def check(self, train: Lessons, validation: Sequences) -> None:
        """There must be an AUC to stop by, and one of few students is warned of."""
        super().check(train, validation)
        answers = validation.events.correct[validation.scored]
        if not len(answers) or answers.min() == answers.max():
            raise InputError(
                f"the {len(validation)} validation sequences do not have both right and wrong answers to score, so "
                "there is no AUC to stop by; use more students or a larger validation share"
            )
        students = len(validation.students())
        if self.stop_by == "auc" and students < FEW:
            warnings.warn(
                f"{students} validation students are few to stop training by their AUC: nearly untrained weights may "
                "order so few answers well, by chance, and are kept then; stop by the loss (--stop-by loss), or bring "
                "more students",
                stacklevel=3,
            )
