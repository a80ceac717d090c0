"""What onnxruntime answers, without torch, is what a session answers."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from served import BACKBONES, VOCABULARY, random_bundle
from tsdr.models.model import Model
from tsdr.models.onnx import export_onnx

# Runs the file in a process in which torch cannot be imported.
_ALONE = """
import json, sys
sys.modules["torch"] = None
import numpy as np, onnxruntime
asked = {name: np.array(values, dtype=np.int64) for name, values in json.load(sys.stdin).items()}
session = onnxruntime.InferenceSession(sys.argv[1])
mastery, success = session.run(["mastery", "success"], asked)
about = json.loads(session.get_modelmeta().custom_metadata_map["tsdr"])
print(json.dumps({"mastery": mastery.tolist(), "success": success.tolist(), "about": about}))
"""


@pytest.mark.parametrize("name", BACKBONES)
def test_onnxruntime_answers_as_a_session_does(name: str, tmp_path: Path) -> None:
    # The exporter takes seconds for every block.
    depth: dict[str, Any] = {} if name in ("dkt", "counts") else {"blocks": 1}
    model = Model(random_bundle(name, **depth))
    export_onnx(model, tmp_path / "model.onnx")
    drawn = np.random.default_rng(2)
    session = model.session()
    asked: dict[str, list[object]] = {
        key: [] for key in ("concept", "question", "correct", "answers", "target_concept", "target_question")
    }
    mastery, success = [], []
    for _ in range(2 * model.window):  # from no answer at all to twice a window of them
        behind = [(10, 12, 1)] * (model.window - len(session.latest))  # what lies behind the last answer is not read
        for key, row in zip(asked, np.array([*session.latest, *behind]).T.tolist(), strict=False):
            asked[key].append(row)
        concept, question, correct = int(drawn.integers(11)), int(drawn.integers(-1, 13)), int(drawn.integers(2))
        asked["answers"].append(len(session.latest))
        asked["target_concept"].append(concept)
        asked["target_question"].append(question)
        names = VOCABULARY.questions[question] if question >= 0 else "not known", VOCABULARY.concepts[concept]
        mastery.append(session.mastery_of_all().tolist())
        success.append(session.predict(*names))
        session.observe(*names, correct)
    process = subprocess.run(
        [sys.executable, "-c", _ALONE, tmp_path / "model.onnx"],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(process.stdout)
    assert np.abs(np.array(found["mastery"]) - np.array(mastery)).max() < 1e-4
    assert np.abs(np.array(found["success"]) - np.array(success)).max() < 1e-4
    assert found["about"] == {
        "backbone": name,
        "window": model.window,
        "concepts": list(VOCABULARY.concepts),
        "questions": list(VOCABULARY.questions),
    }
