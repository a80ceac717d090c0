"""A model as one ONNX file, to run where there is no torch.

Inputs, for B students: `concept`, `question`, `correct` (int64 [B, W], the latest W answers, the oldest first, and 0
behind the last one), `answers` (int64 [B], how many of them are real, up to W), `target_concept` and `target_question`
(int64 [B]; question -1 is one of average difficulty). Outputs: `mastery` (float [B, concepts]) and `success` of the
target (float [B]). The names behind the integers are in the metadata, as JSON under `tsdr`.

A model that reads whole histories takes one answer at a time instead: `concept`, `question`, `correct` (int64 [B]) and
`answered` (int64 [B], 0 where there is no answer and all stays as it was), the same targets, and what it knows of the
student, tensors that are noughts before the first answer (their shapes are in the metadata, as `state`). What it knows
after the answer comes out by the same names with `new_` before them.
"""

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tsdr.errors import extra_missing
from tsdr.files import replacing
from tsdr.models.model import Model
from tsdr.sequences import Batch

INPUTS = ("concept", "question", "correct", "answers", "target_concept", "target_question")
STEP_INPUTS = ("concept", "question", "correct", "answered", "target_concept", "target_question")
OUTPUTS = ("mastery", "success")
NEW = "new_{}"  # what comes out of what went in by a name
OPSET = 18


class _Answering(nn.Module):
    """A pass over histories, with every concept and one target asked after them."""

    every: Tensor

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.backbone = model.backbone
        self.register_buffer("every", model.every.T.contiguous(), persistent=False)

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
        if self.backbone.linear:
            history, answers = self.backbone.ended(history), torch.zeros_like(answers)
        return self.answer(history, answers, target_concept, target_question)

    def answer(
        self, history: Any, steps: Tensor, target_concept: Tensor, target_question: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Mastery and success at steps [B] of a history."""
        every = self.every[:, None, None].expand(-1, steps.shape[0], 1, -1)
        asked = target_concept[:, None, None], target_question[:, None, None]
        mastery = self.backbone.answer_rows(history, every[0], every[1], steps[:, None])
        success = self.backbone.answer_rows(history, *asked, steps[:, None])
        return mastery[:, 0].sigmoid(), success[:, 0, 0].sigmoid()


class _Stepping(_Answering):
    """One answer more, with every concept and one target asked after it."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.names = list(model.state())

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:  # type: ignore[override]
        """Mastery [B, concepts], success [B], and what is known then."""
        concept, question, correct, answered, target_concept, target_question, *known = inputs
        before = dict(zip(self.names, known, strict=True))
        now = self.backbone.append(self.backbone.from_state(before), concept, question, correct)
        grown = self.backbone.state_of(now)
        after = {
            name: torch.where(answered.view(-1, *[1] * (old.dim() - 1)) > 0, grown[name], old)
            for name, old in before.items()
        }
        said = self.answer(self.backbone.from_state(after), torch.zeros_like(answered), target_concept, target_question)
        return *said, *after.values()


def export_onnx(model: Model, path: str | Path) -> None:
    """Write a model as ONNX; onnxruntime gives what a session gives."""
    try:
        import onnx  # noqa: F401  # torch asks for both only when it is under way
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise extra_missing(f"{error.name} is missing", "onnx") from error
    students = torch.export.Dim("students", min=1)
    # Every input is a tensor of its own: the exporter takes one that is given twice for the same input.
    one = [torch.zeros(2, dtype=torch.long) for _ in INPUTS]
    state = model.state() if model.window == "all" else {}
    module: _Answering
    if model.window == "all":
        module, inputs, outputs = _Stepping(model), (*STEP_INPUTS, *state), (*OUTPUTS, *map(NEW.format, state))
        example = [*one, *(tensor.new_zeros(2, *tensor.shape[1:]) for tensor in state.values())]
        dynamic: Any = (tuple({0: students} for _ in inputs),)  # of arguments that come as one
    else:
        module, inputs, outputs = _Answering(model), INPUTS, OUTPUTS
        example = [*(torch.zeros(2, model.window, dtype=torch.long) for _ in one[:3]), *one[3:]]
        dynamic = tuple({0: students} for _ in inputs)
    with _quietly(), torch.no_grad():
        program = torch.onnx.export(
            module.eval(),
            tuple(example),
            dynamo=True,
            input_names=inputs,
            output_names=outputs,
            dynamic_shapes=dynamic,
            opset_version=OPSET,
            verbose=False,
        )
    assert program is not None
    about: dict[str, Any] = {
        "backbone": model.bundle.backbone,
        "window": model.window,
        "concepts": model.concepts,
        "questions": model.bundle.vocabulary.questions,
    }
    if state:
        about["state"] = {name: list(tensor.shape[1:]) for name, tensor in state.items()}
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
