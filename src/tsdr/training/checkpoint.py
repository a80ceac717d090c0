"""A training that is under way, on disk: it is gone on from as it was written, or not at all."""

import hashlib
import io
from pathlib import Path
from typing import Any

import torch

from tsdr.errors import InputError, in_a_sentence
from tsdr.files import replacing


def write_checkpoint(path: Path, run: str, state: dict[str, Any]) -> None:
    """Keep the state of a run, in the place of an earlier one; a digest goes before it."""
    content = io.BytesIO()
    torch.save({"run": run, "state": state}, content)
    keep_checkpoint(path, hashlib.sha256(content.getbuffer()).digest(), content.getbuffer())


def keep_checkpoint(path: Path, *parts: bytes | memoryview) -> None:
    """Keep one as it was written, here or by somebody else, in the place of an earlier one."""
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.writelines(parts)


def read_checkpoint(path: Path, run: str) -> dict[str, Any]:
    """The state of this run, or why it cannot be gone on from."""
    with path.open("rb") as file:
        digest, content = file.read(hashlib.sha256().digest_size), io.BytesIO(file.read())
    if hashlib.sha256(content.getbuffer()).digest() != digest:
        raise InputError(
            f"{path}: is not a checkpoint as it was written: altered, damaged, or of another version; remove it and "
            "start anew"
        )
    try:
        saved = torch.load(content, weights_only=True, map_location="cpu")
        state: dict[str, Any] = saved["state"]
        other = saved["run"] != run
    except Exception as error:
        raise InputError(
            f"{path}: is not a checkpoint that can be read ({in_a_sentence(error)}); remove it and start anew"
        ) from error
    if other:
        raise InputError(f"{path}: belongs to a run with other data or options; remove it, or resume with those")
    return state
