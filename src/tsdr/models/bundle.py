"""A trained model on disk: a folder with weights (safetensors) and a description (JSON); nothing in it is executed."""

import json
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, ValidationError

from tsdr.backbones.contract import AnyBackbone, backbone_names, build_backbone, check_window
from tsdr.backbones.plugins import origin_of
from tsdr.defaults import WIDEST_WINDOW, Extent
from tsdr.errors import InputError, in_a_sentence
from tsdr.files import alone, replacing, sweep
from tsdr.log import Vocabulary
from tsdr.models.weights import digest_of, put_in, read_weights, room_for, written_weights

FORMAT = 2
WITHOUT_DIGEST = 1  # the format before that
DESCRIPTION = "bundle.json"
LOCK = ".writing"
LARGEST_TEXT = 2**28  # bytes of a description, or of a diagnosis: a million names fit in


class _Description(BaseModel):
    model_config = ConfigDict(extra="forbid")

    format: int
    backbone: str
    options: dict[str, Any]
    concepts: Annotated[list[str], Field(min_length=1)]
    questions: Annotated[list[str], Field(min_length=1)]
    window: Annotated[int, Field(ge=2, le=WIDEST_WINDOW)] | Literal["all"]
    training: dict[str, Any]
    training_answers: tuple[NonNegativeInt, ...] | None = None
    weights: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    versions: dict[str, str]
    plugin: dict[str, str] | None = None  # the file or the package that has the backbone, where that is not ours

    def file(self, what: str) -> str:
        """The name of the weights, or of the diagnosis, that belong to this description and to no other."""
        mark = f"-{self.weights[:12]}" if self.weights else ""
        return {"weights": f"weights{mark}.safetensors", "diagnosis": f"diagnosis{mark}.json"}[what]


@dataclass(frozen=True)
class Bundle:
    """A model with its vocabulary and how it came about; `diagnosis` is that of its log, as plain data.

    `training_answers` says of each concept how many answers it learned from, where that was kept; `digest` is
    that of the weights in the file that it was read from, if there is one.
    """

    model: AnyBackbone
    backbone: str
    options: Mapping[str, Any]
    vocabulary: Vocabulary
    window: Extent
    training: Mapping[str, Any]
    diagnosis: Mapping[str, Any] | None = None
    training_answers: tuple[int, ...] | None = None
    digest: str | None = None

    def write(self, folder: str | Path) -> None:
        """Write the bundle beside one that is there, whose place it takes at once when it is whole.

        That is when its description takes the other's place: it names the weights that it describes.
        """
        folder = Path(folder)
        check_target(folder)
        weights = written_weights(self.model)
        description = self._description(digest_of(weights))
        with alone(folder / LOCK, f"{folder}: another process writes a bundle there; let it end"):
            sweep(folder)
            with replacing(folder / description.file("weights")) as temporary:
                temporary.write_bytes(weights)  # as any file: other accounts may read it
            if self.diagnosis is not None:
                self._write_diagnosis(folder / description.file("diagnosis"))
            with replacing(folder / DESCRIPTION) as temporary:
                temporary.write_text(description.model_dump_json(indent=1), encoding="utf-8")
            current = {description.file("weights")} | ({description.file("diagnosis")} if self.diagnosis else set())
            for path in folder.iterdir():
                if _holds_a_model(path) and path.name not in current:
                    path.unlink()

    def write_diagnosis(self, folder: Path) -> None:
        """Write what is known of the selection of the model's log, and leave the rest of its bundle as it is."""
        described = _described(folder)
        if described.weights != self.digest:
            raise InputError(f"{folder}: has another model by now than the one that was diagnosed; diagnose that one")
        self._write_diagnosis(folder / described.file("diagnosis"))

    def _write_diagnosis(self, path: Path) -> None:
        with replacing(path) as temporary:
            temporary.write_text(json.dumps(self.diagnosis, indent=1), encoding="utf-8")

    def _description(self, digest: str) -> _Description:
        return _Description(
            format=FORMAT,
            backbone=self.backbone,
            options=dict(self.options),
            concepts=list(self.vocabulary.concepts),
            questions=list(self.vocabulary.questions),
            window=self.window,
            training=dict(self.training),
            training_answers=self.training_answers,
            weights=digest,
            versions=versions(),
            plugin=origin_of(self.backbone),
        )


def is_bundle(folder: Path) -> bool:
    """Whether there is a bundle in a folder, by its description."""
    return (folder / DESCRIPTION).exists()


def check_target(folder: Path) -> None:
    """Refuse to write a bundle over something that is none."""
    if folder.is_file():
        raise InputError(f"{folder}: is a file; name a folder for the model")
    if not folder.exists() or (folder / DESCRIPTION).exists():
        return
    if any(not path.name.startswith(".") and not _holds_a_model(path) for path in folder.iterdir()):
        raise InputError(f"{folder}: is a folder with other things in it; choose another one")


def read_bundle(folder: str | Path) -> Bundle:
    """Read a bundle, or refuse it with the reason."""
    folder = Path(folder)
    description = _described(folder)
    weights_file, diagnosis_file = (folder / description.file(what) for what in ("weights", "diagnosis"))
    if not weights_file.is_file():
        if _described(folder) != description:  # another one took its place since
            return read_bundle(folder)
        raise InputError(f"{folder}: is not a bundle: {weights_file.name} is missing")
    if description.weights is None:
        warnings.warn(
            f"{folder}: was written before bundles had a digest of their weights, so that damage to them cannot be "
            f"told; tsdr.load({str(folder)!r}).save({str(folder)!r}) adds one",
            stacklevel=3,
        )
    weights = read_weights(weights_file, description.weights)
    try:
        with room_for(weights):
            model = build_backbone(
                description.backbone,
                n_concepts=len(description.concepts),
                n_questions=len(description.questions),
                **description.options,
            )
        put_in(model, weights)
    except InputError as error:
        raise InputError(f"{folder}: {error}") from error
    return Bundle(
        model.eval(),
        description.backbone,
        description.options,
        Vocabulary(tuple(description.concepts), tuple(description.questions)),
        description.window,
        description.training,
        _diagnosis(diagnosis_file) if diagnosis_file.exists() else None,
        description.training_answers,
        description.weights,
    )


def _described(folder: Path) -> _Description:
    """What a bundle says of itself, or why it cannot be one."""
    path = folder / DESCRIPTION
    if not path.is_file():
        raise InputError(f"{folder}: is not a bundle: {DESCRIPTION} is missing")
    raw = _read_json(path)
    form = raw.get("format", FORMAT) if isinstance(raw, dict) else FORMAT
    if form not in (WITHOUT_DIGEST, FORMAT):
        raise InputError(
            f"{folder}: is a bundle of format {form!r}; this version reads formats {WITHOUT_DIGEST} and {FORMAT}"
        )
    try:
        described = _Description.model_validate(raw)
    except ValidationError as error:
        raise InputError(f"{folder}: is not a bundle that can be read ({in_a_sentence(error)})") from error
    if (described.weights is None) != (form == WITHOUT_DIGEST):
        raise InputError(f"{folder}: is not a bundle that can be read: it does not say which weights are its own")
    for names in (described.concepts, described.questions):
        if len(set(names)) < len(names):
            raise InputError(f"{folder}: its vocabulary has a name twice")
    answers = described.training_answers
    if answers is not None and len(answers) != len(described.concepts):
        raise InputError(f"{folder}: says of {len(answers)} concepts what it learned from, and has another number")
    if {"name", "n_concepts", "n_questions"} & set(described.options):
        raise InputError(f"{folder}: its options are not those of a backbone")
    _check_plugin(folder, described)
    check_window(described.backbone, described.window)
    return described


def _diagnosis(path: Path) -> Mapping[str, Any]:
    found = _read_json(path)
    if not isinstance(found, dict):
        raise InputError(f"{path}: is not a diagnosis; remove it, or diagnose the model anew")
    return found


def _read_json(path: Path) -> Any:
    """What a file says, all of its numbers finite."""
    if path.stat().st_size > LARGEST_TEXT:
        raise InputError(f"{path}: is too large to be read as what it is to be ({path.stat().st_size:,} bytes)")
    try:
        return json.loads(path.read_text(encoding="utf-8"), parse_float=_finite, parse_constant=_finite)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: cannot be read ({in_a_sentence(error)})") from error


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not a finite number")
    return number


def _holds_a_model(path: Path) -> bool:
    """Whether a file is one that a bundle consists of, beside its description."""
    return path.match("weights*.safetensors") or path.match("diagnosis*.json")


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
