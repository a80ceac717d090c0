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
    depth: dict[str, Any] = {} if name in ("dkt", "counts", "hybrid") else {"blocks": 1}
    model = Model(random_bundle(name, **depth))
    export_onnx(model, tmp_path / "model.onnx")
    drawn = np.random.default_rng(2)
    session, answers = model.session(), list[tuple[int, int, int]]()
    assert model.window != "all"
    asked: dict[str, list[object]] = {
        key: [] for key in ("concept", "question", "correct", "answers", "target_concept", "target_question")
    }
    mastery, success = [], []
    for _ in range(2 * model.window):  # from no answer at all to twice a window of them
        in_view = answers[model.view_begins(len(answers)) :]
        behind = [(10, 12, 1)] * (model.window - len(in_view))  # what lies behind the last answer is not read
        for key, row in zip(asked, np.array([*in_view, *behind]).T.tolist(), strict=False):
            asked[key].append(row)
        concept, question, correct = int(drawn.integers(11)), int(drawn.integers(-1, 13)), int(drawn.integers(2))
        asked["answers"].append(len(in_view))
        asked["target_concept"].append(concept)
        asked["target_question"].append(question)
        names = VOCABULARY.questions[question] if question >= 0 else "not known", VOCABULARY.concepts[concept]
        mastery.append(session.mastery_of_all().tolist())
        success.append(session.predict(*names))
        session.observe(*names, correct)
        answers.append((concept, question, correct))
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


# The same, one answer at a time, with what is known of the student handed on.
_STEP_BY_STEP = """
import json, sys
sys.modules["torch"] = None
import numpy as np, onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1])
about = json.loads(session.get_modelmeta().custom_metadata_map["tsdr"])
known = {name: np.zeros((1, *shape), dtype=np.float32) for name, shape in about["state"].items()}
found, sizes = [], []
for step in json.load(sys.stdin):
    given = {name: np.array([value], dtype=np.int64) for name, value in step.items()}
    mastery, success, *new = session.run(["mastery", "success", *("new_" + name for name in known)], {**given, **known})
    known = dict(zip(known, new))
    found.append([mastery[0].tolist(), float(success[0])])
    sizes.append(sum(values.size for values in new))
print(json.dumps({"found": found, "sizes": sorted(set(sizes)), "window": about["window"]}))
"""


@pytest.mark.parametrize("name", ["dkt", "counts", "hybrid"])
def test_step_by_step_it_answers_as_a_session_does_over_a_whole_history(name: str, tmp_path: Path) -> None:
    model = Model(random_bundle(name, "all"))
    export_onnx(model, tmp_path / "model.onnx")
    drawn, session = np.random.default_rng(4), model.session()
    steps, expected = [], []
    for step in range(1000):
        concept, question, correct = int(drawn.integers(11)), int(drawn.integers(-1, 13)), int(drawn.integers(2))
        target, asked = int(drawn.integers(11)), int(drawn.integers(13))
        answered = step % 10 != 0  # now and then, and at the very beginning, there is no answer: it only asks
        steps.append(
            {
                "concept": concept,
                "question": question,
                "correct": correct,
                "answered": int(answered),
                "target_concept": target,
                "target_question": asked,
            }
        )
        if answered:
            name_of = VOCABULARY.questions[question] if question >= 0 else None
            session.observe(name_of, VOCABULARY.concepts[concept], correct)
        if step % 7 == 0:  # a question a step is what takes long
            success = session.predict(VOCABULARY.questions[asked], VOCABULARY.concepts[target])
            expected.append((step, session.mastery_of_all().tolist(), success))
    process = subprocess.run(
        [sys.executable, "-c", _STEP_BY_STEP, tmp_path / "model.onnx"],
        input=json.dumps(steps),
        capture_output=True,
        text=True,
        check=True,
    )
    came = json.loads(process.stdout)
    for step, told, foretold in expected:
        mastery, success = came["found"][step]
        assert np.abs(np.array(mastery) - told).max() < 1e-4
        assert success == pytest.approx(foretold, abs=1e-4)
    assert len(came["sizes"]) == 1
    assert came["window"] == "all"
