"""What the documentation shows is run."""

import random
import re
from pathlib import Path
from typing import Any

import pytest

import tsdr
from tsdr.backbones.predicting import predict
from tsdr.debias.building import new_model
from tsdr.debias.objective import JointObjective
from tsdr.methods import NAIVE_OPTIONS, DebiasOptions
from tsdr.metrics import auc
from tsdr.training.options import TrainingOptions
from tsdr.training.trainer import fit

ROOT = Path(__file__).parents[1]


def run_example(document: str, **given: Any) -> dict[str, Any]:
    """Run the first Python block of a document, with what it takes for given, and return its names."""
    example = re.search(r"```python\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)
    assert example is not None
    names: dict[str, Any] = {"__name__": "example", **given}
    exec(example.group(1), names)
    return names


def test_the_readmes_example_runs_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    skills = ("fractions", "decimals;sums", "sums")
    drawn = random.Random(1)
    rows = [f"u{s},{drawn.choice(skills)},{int(drawn.random() < 0.6)}" for s in range(40) for _ in range(8)]
    (tmp_path / "answers.csv").write_text("user_id,skills,score\n" + "\n".join(rows))
    monkeypatch.chdir(tmp_path)
    names = run_example("README.md")
    assert set(names["session"].mastery()) == {"fractions", "decimals;sums", "sums"}
    assert len(list((tmp_path / "runs" / "compare").glob("*-hybrid-*.json"))) == 10
    shown = capsys.readouterr().out
    assert "naive" in shown
    assert "This log" in shown


def test_a_users_own_backbone_is_audited_trained_and_evaluated() -> None:
    run_example("docs/backbones.md")
    audit = tsdr.check_backbone("moving-average")
    assert audit.passed, audit
    sequences = tsdr.Sequences.from_log(tsdr.simulate(students=150, questions=40, concepts=6).log, window=15)
    train, test = sequences.select(sequences.student[:100]), sequences.select(sequences.student[100:])
    options = TrainingOptions(max_epochs=5, learning_rate=0.05, device="cpu")
    model = new_model("moving-average", sequences, {}, options)
    fit(JointObjective(model, NAIVE_OPTIONS, options), train, test, options)
    found = predict(model, test)
    assert auc(found.success, found.correct) > 0.55


def test_every_option_of_the_method_is_documented_with_its_default() -> None:
    rows = [line.split(" | ") for line in (ROOT / "docs" / "method.md").read_text().splitlines()]
    documented = {row[0].removeprefix("| ").strip("`"): row[1].strip("`") for row in rows if len(row) == 4}
    documented = {name: default for name, default in documented.items() if name not in ("option", "method")}
    options = DebiasOptions()
    expected = {name: str(getattr(options, name)) for name in DebiasOptions.model_fields}
    assert {name: documented.get(name) for name in expected} == expected


def test_the_example_of_serving_runs_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tsdr.simulate(students=60, questions=20, concepts=4).log
    first, second, *_ = log.frame["concept"].unique().sort()
    frame = log.frame.with_columns(concept=log.frame["concept"].replace({first: "fractions", second: "decimals"}))
    training = TrainingOptions(max_epochs=1, device="cpu")
    model = tsdr.fit(tsdr.Log(frame), backbone="dkt", options={"d": 8}, window=10, training=training)
    model.save(tmp_path / "models" / "mine")
    monkeypatch.chdir(tmp_path)
    names = run_example("docs/serving.md", log=tsdr.Log(frame))
    assert names["session"].answers == 1
