"""A model as one ONNX file, to run where there is no torch.

Inputs, for B students: `concept`, `question`, `correct` (int64 [B, W], the latest W answers, the oldest first, and 0
behind the last one), `answers` (int64 [B], how many of them are real, up to W), `target_concept` and `target_question`
(int64 [B]; question -1 is one of average difficulty). Outputs: `mastery` (float [B, concepts]) and `success` of the
target (float [B]). The names behind the integers are in the metadata, as JSON under `tsdr`.
"""

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from tsdr.errors import extra_missing
from tsdr.files import replacing
from tsdr.models.model import Model
from tsdr.sequences import Batch

INPUTS = ("concept", "question", "correct", "answers", "target_concept", "target_question")
OUTPUTS = ("mastery", "success")
OPSET = 18


class _Answering(nn.Module):
    """A pass over histories, with every concept and one target asked after them."""

    every: Tensor

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.backbone = model.backbone
        self.register_buffer("every", torch.tensor(model.every).T.contiguous(), persistent=False)

    def forward(
        self,
        concept: Tensor,
        question: Tensor,
        correct: Tensor,
        answers: Tensor,
        target_concept: Tensor,
        target_question: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Mastery [B, concepts] and success [B]."""
        mask = torch.arange(concept.shape[1]) < answers[:, None]
        history = self.backbone.encode(Batch.of_answers(concept, question, correct, mask))
        every = self.every[:, None, None].expand(-1, answers.shape[0], 1, -1)
        asked = target_concept[:, None, None], target_question[:, None, None]
        mastery = self.backbone.answer_rows(history, every[0], every[1], answers[:, None])
        success = self.backbone.answer_rows(history, *asked, answers[:, None])
        return mastery[:, 0].sigmoid(), success[:, 0, 0].sigmoid()


def export_onnx(model: Model, path: str | Path) -> None:
    """Write a model as ONNX; onnxruntime gives what a session gives."""
    try:
        import onnx  # noqa: F401  # torch asks for both only when it is under way
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise extra_missing(f"{error.name} is missing", "onnx") from error
    rows, one = torch.zeros(2, model.window, dtype=torch.long), torch.zeros(2, dtype=torch.long)
    # Every input is a tensor of its own: the exporter takes one that is given twice for the same input.
    example = (rows, rows.clone(), rows.clone(), one, one.clone(), one.clone())
    students = torch.export.Dim("students", min=1)
    with _quietly(), torch.no_grad():
        program = torch.onnx.export(
            _Answering(model).eval(),
            example,
            dynamo=True,
            input_names=INPUTS,
            output_names=OUTPUTS,
            dynamic_shapes=({0: students},) * len(INPUTS),
            opset_version=OPSET,
            verbose=False,
        )
    assert program is not None
    about = {
        "backbone": model.bundle.backbone,
        "window": model.window,
        "concepts": model.concepts,
        "questions": model.bundle.vocabulary.questions,
    }
    program.model.metadata_props["tsdr"] = json.dumps(about)
    with replacing(Path(path)) as temporary:
        program.save(temporary)


@contextmanager
def _quietly() -> Iterator[None]:
    """Without what the exporter has to say of itself and of packages that are not here."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
