"""What the documentation shows is run."""

import re
from pathlib import Path
from typing import Any

import pytest

import tsdr
from tsdr.debias.objective import NAIVE, DebiasOptions, JointObjective, new_model
from tsdr.evaluation.metrics import auc, predict
from tsdr.training.fitting import fit_bundle
from tsdr.training.trainer import TrainingOptions, fit

ROOT = Path(__file__).parents[1]


def run_example(document: str, **given: Any) -> dict[str, Any]:
    """Run the first Python block of a document, with what it takes for given, and return its names."""
    example = re.search(r"```python\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)
    assert example is not None
    names: dict[str, Any] = {"__name__": "example", **given}
    exec(example.group(1), names)
    return names


def test_the_readmes_example_runs_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [f"u{s},{i % 3};{i % 2},{(s + i) % 2}" for s in range(20) for i in range(60)]
    (tmp_path / "answers.csv").write_text("user_id,skills,score\n" + "\n".join(rows))
    monkeypatch.chdir(tmp_path)
    batch = run_example("README.md")["batch"]
    assert isinstance(batch, tsdr.Batch)
    assert batch.mask.shape == (14, 50)  # 20 students less 4 for the test and 2 for validation


def test_a_users_own_backbone_is_audited_trained_and_evaluated() -> None:
    run_example("docs/backbones.md")
    audit = tsdr.check_backbone("moving-average")
    assert audit.passed, audit
    sequences = tsdr.Sequences.from_log(tsdr.simulate(students=150, questions=40, concepts=6).log, window=15)
    train, test = sequences.select(sequences.student[:100]), sequences.select(sequences.student[100:])
    options = TrainingOptions(max_epochs=5, learning_rate=0.05, device="cpu")
    model = new_model("moving-average", sequences, {}, options)
    fit(JointObjective(model, NAIVE, options), train, test, options)
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
    sequences = tsdr.Sequences.from_log(tsdr.Log(frame), window=10)
    training = TrainingOptions(max_epochs=1, device="cpu")
    bundle = fit_bundle(sequences, backbone="dkt", options={"d": 8}, training=training, debias=NAIVE)
    bundle.write(tmp_path / "models" / "dkt")
    monkeypatch.chdir(tmp_path)
    names = run_example("docs/serving.md", log=tsdr.Log(frame))
    assert names["session"].answers == 1
