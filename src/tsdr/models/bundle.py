"""A trained model on disk: a folder with weights (safetensors) and a description (JSON); nothing in it is executed."""

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save

from tsdr.backbones.contract import AnyBackbone, backbone_names, build_backbone
from tsdr.backbones.plugins import origin_of
from tsdr.defaults import Extent
from tsdr.errors import InputError, in_a_sentence
from tsdr.files import replacing
from tsdr.log import Vocabulary

FORMAT = 1
WEIGHTS, DESCRIPTION = "weights.safetensors", "bundle.json"
DIAGNOSIS = "diagnosis.json"  # of the log that it was trained on, where there is one


class _Description(BaseModel):
    model_config = ConfigDict(extra="forbid")

    format: int
    backbone: str
    options: dict[str, Any]
    concepts: Annotated[list[str], Field(min_length=1)]
    questions: Annotated[list[str], Field(min_length=1)]
    window: Annotated[int, Field(ge=2)] | Literal["all"]
    training: dict[str, Any]
    training_answers: list[NonNegativeInt] | None = None
    versions: dict[str, str]
    plugin: dict[str, str] | None = None  # the file or the package that has the backbone, where that is not ours


@dataclass(frozen=True)
class Bundle:
    """A model with its vocabulary and how it came about; `diagnosis` is that of its log, as plain data.

    `training_answers` says of each concept how many answers it learned from, where that was kept.
    """

    model: AnyBackbone
    backbone: str
    options: Mapping[str, Any]
    vocabulary: Vocabulary
    window: Extent
    training: Mapping[str, Any]
    diagnosis: Mapping[str, Any] | None = None
    training_answers: tuple[int, ...] | None = None

    def write(self, folder: str | Path) -> None:
        """Write the bundle; the description comes last, so that a bundle with one is whole."""
        folder = Path(folder)
        check_target(folder)
        for stale in (DESCRIPTION, DIAGNOSIS):
            (folder / stale).unlink(missing_ok=True)
        if self.diagnosis is not None:
            self.write_diagnosis(folder)
        weights = {name: tensor.detach().cpu().contiguous() for name, tensor in self.model.state_dict().items()}
        with replacing(folder / WEIGHTS) as temporary:
            temporary.write_bytes(save(weights))  # as any file, where save_file hides it from other accounts
        description = _Description(
            format=FORMAT,
            backbone=self.backbone,
            options=dict(self.options),
            concepts=list(self.vocabulary.concepts),
            questions=list(self.vocabulary.questions),
            window=self.window,
            training=dict(self.training),
            training_answers=None if self.training_answers is None else list(self.training_answers),
            versions=versions(),
            plugin=origin_of(self.backbone),
        )
        with replacing(folder / DESCRIPTION) as temporary:
            temporary.write_text(description.model_dump_json(indent=1), encoding="utf-8")

    def write_diagnosis(self, folder: Path) -> None:
        """Write what is known of the selection of the model's log, and leave the rest of a bundle as it is."""
        with replacing(folder / DIAGNOSIS) as temporary:
            temporary.write_text(json.dumps(self.diagnosis, indent=1), encoding="utf-8")


def check_target(folder: Path) -> None:
    """Refuse to write a bundle over something that is none."""
    if folder.is_file():
        raise InputError(f"{folder}: is a file; name a folder for the model")
    if folder.exists() and any(folder.iterdir()) and not (folder / DESCRIPTION).exists():
        raise InputError(f"{folder}: is a folder with other things in it; choose another one")


def read_bundle(folder: str | Path) -> Bundle:
    """Read a bundle, or refuse it with the reason."""
    folder = Path(folder)
    for name in (DESCRIPTION, WEIGHTS):
        if not (folder / name).is_file():
            raise InputError(f"{folder}: is not a bundle: {name} is missing")
    try:
        raw = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
        form = raw.get("format", FORMAT) if isinstance(raw, dict) else FORMAT
        description = _Description.model_validate(raw) if form == FORMAT else None
        weights = load_file(folder / WEIGHTS)
        found = json.loads((folder / DIAGNOSIS).read_text(encoding="utf-8")) if (folder / DIAGNOSIS).exists() else None
    except (ValueError, OSError, ValidationError, SafetensorError) as error:
        raise InputError(f"{folder}: is not a bundle that can be read ({in_a_sentence(error)})") from error
    if description is None:
        raise InputError(f"{folder}: is a bundle of format {form!r}; this version reads format {FORMAT}")
    for names in (description.concepts, description.questions):
        if len(set(names)) < len(names):
            raise InputError(f"{folder}: its vocabulary has a name twice")
    answers = description.training_answers
    if answers is not None and len(answers) != len(description.concepts):
        raise InputError(
            f"{folder}: says of {len(answers)} concepts what it learned from, and has another number of them"
        )
    if {"name", "n_concepts", "n_questions"} & set(description.options):
        raise InputError(f"{folder}: its options are not those of a backbone")
    _check_plugin(folder, description)
    model = build_backbone(
        description.backbone,
        n_concepts=len(description.concepts),
        n_questions=len(description.questions),
        **description.options,
    )
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise InputError(f"{folder}: its weights do not fit its description ({in_a_sentence(error)})") from error
    return Bundle(
        model.eval(),
        description.backbone,
        description.options,
        Vocabulary(tuple(description.concepts), tuple(description.questions)),
        description.window,
        description.training,
        found,
        None if answers is None else tuple(answers),
    )


def _check_plugin(folder: Path, description: _Description) -> None:
    """Say what to load or to install for a backbone that is not known; what a bundle says of it is not run."""
    name, needed = description.backbone, description.plugin
    if needed is None:
        return
    if name not in backbone_names():
        what = (
            f"the plugin {needed.get('file')!r}: if you trust it, name it with --plugin (in Python: tsdr.load_plugin)"
            if "file" in needed
            else f"the package {needed.get('package')!r} {needed.get('version')}: if you trust it, install it"
        )
        raise InputError(f"{folder}: its backbone {name!r} comes from {what}")
    if needed != origin_of(name):
        warnings.warn(
            f"{folder}: its backbone {name!r} is not what it was when the model was trained; audit it", stacklevel=3
        )


def versions() -> dict[str, str]:
    """The versions that a result depends on."""
    return {name: version(name) for name in ("tsdr", "torch", "numpy")}
