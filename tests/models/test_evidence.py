"""What stands behind a mastery, by plain counts of a log."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from served import VOCABULARY, random_log, random_model
from tsdr import InputError, Log, fit, load
from tsdr.models.model import Model
from tsdr.training.options import TrainingOptions


@pytest.mark.parametrize("window", [8, "all"])
def test_evidence_of_a_log_is_that_of_sessions_and_of_a_plain_count(window: int | str) -> None:
    learned_from = tuple(range(15, 26))
    bundle = replace(random_model("dkt", window).bundle, training_answers=learned_from)  # type: ignore[arg-type]
    model, log = Model(bundle), random_log()
    found = model.mastery_log(log)
    for student in log.students:
        session, answers = model.session(), []
        for row in log.frame.filter(pl.col("student") == student).iter_rows(named=True):
            session.observe(row["question"], row["concept"], row["correct"])
            answers.append(row["concept"])
        counted = Counter(answers[len(answers) - session.in_view :])
        assert {concept: behind.answers for concept, behind in session.evidence().items()} == {
            concept: counted[concept] for concept in model.concepts
        }
        own = found.filter(pl.col("student") == student)
        assert own["answers"].to_list() == [counted[concept] for concept in own["concept"]]
        little = [
            counted[concept] == 0 or learned < 20 for concept, learned in zip(model.concepts, learned_from, strict=True)
        ]
        assert own["little_evidence"].to_list() == little
        assert [behind.little for behind in session.evidence_of_all()] == little


def test_skips_that_are_read_are_counted_apart() -> None:
    model = random_model("counts", "all", skips=True)
    session = model.session()
    session.skip("q01", "c03")
    session.observe("q01", "c03", 1)
    behind = session.evidence()["c03"]
    assert (behind.answers, behind.skips, behind.training_answers, behind.little) == (1, 1, None, False)


def test_a_bundle_keeps_how_many_answers_it_learned_from(tmp_path: Path) -> None:
    """Every answer of the log is accounted for: learned from, to stop by, short, or earlier than the window."""
    rows = [(f"s{s}", f"c{i % 4}", i % 2, s % 3 == 0 and i % 5 == 4) for s in range(40) for i in range(3 + s)]
    table = pl.DataFrame(rows, schema=["student", "concept", "correct", "skipped"], orient="row")
    log = Log(table.with_columns(correct=pl.when(~pl.col("skipped")).then("correct")))
    training = TrainingOptions(max_epochs=1, device="cpu")
    model = fit(log, backbone="dkt", method="naive", window=10, training=training)
    account = model.training["account"]
    assert account["answers"] == log.answered.height
    parts = ("learned_from", "stopped_by", "earlier", "of_short_students", "to_unknown_concepts")
    assert sum(account[part] for part in parts) == account["answers"]
    assert account["of_short_students"] == 3 + 4
    assert account["earlier"] > 0
    assert 0 < account["skips_read"] < account["skips"] == log.skipped_offers
    assert model.training_answers is not None
    assert sum(model.training_answers) == account["learned_from"]
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").training_answers == model.training_answers


def test_a_bundle_with_counts_of_other_concepts_is_refused(tmp_path: Path) -> None:
    replace(random_model().bundle, training_answers=(1,) * (len(VOCABULARY.concepts) - 1)).write(tmp_path / "model")
    with pytest.raises(InputError, match="10 concepts"):
        load(tmp_path / "model")
