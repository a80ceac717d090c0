import numpy as np
import polars as pl
import pytest

import tsdr
from tsdr import Log
from tsdr.models.effects import effects_of


def test_hard_questions_and_telling_concepts_are_found() -> None:
    """Two questions of 0.9 and 0.3 in each concept; in `learned` every right answer makes the next one likelier."""
    rng = np.random.default_rng(0)
    rows = []
    for student in range(600):
        right = 0
        for _ in range(10):
            for concept in ("learned", "stuck"):
                easy = rng.random() < 0.5
                chance = (
                    (0.9 if easy else 0.3) if concept == "stuck" else min(0.95, (0.5 if easy else 0.15) + 0.15 * right)
                )
                correct = int(rng.random() < chance)
                right += correct * (concept == "learned")
                rows.append((f"s{student}", f"{concept} {'easy' if easy else 'hard'}", concept, correct))
    log = Log(pl.DataFrame(rows, ["student", "question", "concept", "correct"], orient="row"))
    effects = effects_of(tsdr.fit(log, backbone="counts", method="naive"))
    assert effects is not None
    assert [found.question.split()[1] for found in effects.questions] == ["hard", "hard", "easy", "easy"]
    assert effects.questions[0].success < 0.35
    assert effects.questions[-1].success > 0.65
    assert effects.concepts[0].concept == "learned"
    assert effects.concepts[0].after["one right"] > 0.5 + 0.04
    assert effects.concepts[0].after["one right"] > effects.concepts[1].after["one right"] + 0.04


def test_a_network_has_nothing_to_read() -> None:
    log = tsdr.simulate(students=60, questions=20, concepts=4).log
    training = tsdr.TrainingOptions(max_epochs=1, device="cpu")
    assert effects_of(tsdr.fit(log, backbone="dkt", options={"d": 8}, training=training)) is None


@pytest.mark.parametrize("method", ["naive", "tsdr"])
def test_a_saved_model_is_read_alike(method: str, tmp_path: object) -> None:
    log = tsdr.simulate(students=80, questions=20, concepts=4).log
    training = tsdr.TrainingOptions(max_epochs=1, device="cpu")
    model = tsdr.fit(log, backbone="counts", method=method, training=training)
    model.save(f"{tmp_path}/model")
    assert effects_of(tsdr.load(f"{tmp_path}/model")) == effects_of(model)
