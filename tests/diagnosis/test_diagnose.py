from collections.abc import Callable

import numpy as np
import polars as pl
import pytest
import torch

import tsdr
from tsdr import InputError, Log, Population, Recommender, Sequences, build_backbone
from tsdr.diagnosis.diagnose import diagnose, permuted_concepts
from tsdr.diagnosis.findings import Diagnosis
from tsdr.diagnosis.questions import question_exposure
from tsdr.diagnosis.skips import skips_of
from tsdr.diagnosis.verdict import judge
from tsdr.models.bundle import Bundle
from tsdr.models.model import Model
from tsdr.resampling import Estimate


def simulated(gamma: float, zipf: float, recommender: Recommender | None = None) -> Log:
    population = Population(zipf=zipf, answers=(12, 15))
    return tsdr.simulate(gamma, 160, 36, 6, population=population, recommender=recommender, seed=2).offers()


@pytest.fixture(scope="module")
def fair() -> Diagnosis:
    return diagnose(simulated(0.0, 0.0), window=15)


@pytest.fixture(scope="module")
def recommended() -> Diagnosis:
    return diagnose(simulated(0.0, 0.8, Recommender()), window=15)


def test_a_log_without_selection_is_fair(fair: Diagnosis) -> None:
    assert fair.verdict.level == "fair"
    assert fair.verdict.overlap == "enough"
    assert fair.skips is None
    # 2,000 answers to 6 concepts: chance alone moves 2 % of them, give or take 1 %.
    assert fair.exposure.distance == pytest.approx(fair.exposure.by_chance, abs=0.03)
    assert fair.exposure.entropy > 0.99
    assert fair.propensities.below == {"0.5": 0.0, "0.1": 0.0, "0.01": 0.0}
    assert fair.weights.effective_share > 0.8


def test_skipping_students_and_a_recommender_are_found(recommended: Diagnosis) -> None:
    skipped = simulated(0.8, 0.8)
    found = skips_of(skipped)
    assert found is not None
    assert found.related
    assert found.share == skipped.skipped_offers / len(skipped)
    assert recommended.verdict.level == "selected"
    assert recommended.selection.gain.low > 0.05
    assert recommended.exposure.distance > 0.05


def test_the_verdict_of_skips_differs_from_that_of_a_fair_log(fair: Diagnosis) -> None:
    selected = diagnose(simulated(0.8, 0.8), window=15)
    assert selected.verdict.level == "selected"
    assert selected.verdict.headline != fair.verdict.headline
    assert selected.subject.skipped_offers > 0
    unrecorded = Log(simulated(0.8, 0.8).answered.drop("skipped"))
    assert diagnose(unrecorded, window=15).verdict.level in ("uneven", "selected")


def test_questions_within_concepts_are_counted_apart_from_the_concepts(fair: Diagnosis) -> None:
    rows = [("a", "x"), ("a", "x"), ("a", "x"), ("a", "y"), ("b", "z"), ("b", "z")]
    frame = pl.DataFrame(rows, schema=["concept", "question"], orient="row").with_columns(
        student=pl.lit("s"), correct=pl.Series([0, 1, 0, 1, 0, 1]), time=pl.int_range(6)
    )
    found = question_exposure(Sequences.from_log(Log(frame)).answers, seed=1)
    assert found is not None
    assert found.questions == 3
    assert found.distance == pytest.approx(1 / 6)  # one answer of x would go to y
    # Of four answers drawn to x and y, 0.75 are misplaced on average, with a standard error of 0.066 over 100 draws.
    assert found.by_chance == pytest.approx(0.75 / 6, abs=4 * 0.066 / 6)
    assert question_exposure(Sequences.from_log(Log(frame.drop("question"))).answers, seed=1) is None
    assert fair.questions is not None
    assert fair.questions.distance == pytest.approx(fair.questions.by_chance, rel=0.3)
    popular = question_exposure(Sequences.from_log(simulated(0.0, 0.8)).answers, seed=1)
    assert popular is not None
    assert popular.distance > 2 * popular.by_chance


def test_placebos_come_out_as_placebos(fair: Diagnosis, recommended: Diagnosis) -> None:
    for found in (fair, recommended):
        assert found.placebos.permuted_passed
        assert found.placebos.permuted_gain.low <= 0
        assert found.placebos.constant_passed
        assert found.placebos.constant_difference == pytest.approx(0, abs=1e-12)
        assert found.placebos.constant_effective_share == pytest.approx(1)
    assert recommended.placebos.permuted_gain.high < recommended.selection.gain.low


def test_shuffling_keeps_how_often_concepts_are_logged() -> None:
    sequences = Sequences.from_log(simulated(0.0, 0.8), window=15)
    shuffled = permuted_concepts(sequences, seed=0)
    assert torch.equal(shuffled.answers.concept.sort().values, sequences.answers.concept.sort().values)
    assert not torch.equal(shuffled.answers.concept, sequences.answers.concept)
    assert torch.equal(shuffled.answers.correct, sequences.answers.correct)


def test_a_wider_clip_keeps_less_of_the_sample_and_no_clip_at_all_is_naive(recommended: Diagnosis) -> None:
    curve = recommended.weights.curve
    assert curve[0].clip == 1
    assert curve[0].snips.value == pytest.approx(recommended.risk.naive.value)
    shares = [point.effective_share for point in curve]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == pytest.approx(1)
    assert curve[-1].clipped_share == 0


def test_bands_are_by_the_first_half_and_exposure_by_the_second() -> None:
    """Able students are logged with `hard` in their second half, others with `easy`; at first all with both."""
    rows = []
    for student in range(60):
        able = student % 2
        for step in range(12):
            concept = ("easy", "hard")[step % 2 if step < 6 else able]
            rows.append((f"s{student:02}", concept, able if step < 6 else int(concept == "easy"), step))
    log = Log(pl.DataFrame(rows, schema=["student", "concept", "correct", "time"], orient="row"))
    bands = diagnose(log).bands
    np.testing.assert_allclose(bands.bands[0].relative, [0, 2])
    np.testing.assert_allclose(bands.bands[-1].relative, [2, 0])
    assert [band.share_right for band in bands.bands] == [0, 0, 1, 1]


def test_a_models_own_vocabulary_is_used() -> None:
    log = simulated(0.0, 0.0)
    known = tsdr.Vocabulary(tuple(sorted(log.frame["concept"].unique()))[:4], ("q",))
    torch.manual_seed(0)
    model = build_backbone("dkt", n_concepts=4, n_questions=1)
    found = diagnose(log, Model(Bundle(model, "dkt", {}, known, 9, {})))
    assert found.subject.own_model
    assert found.subject.window == 9
    assert found.subject.unknown_concept_answers == log.frame.filter(~pl.col("concept").is_in(known.concepts)).height
    assert len(found.exposure.relative) == 4
    assert found.subject.in_view is not None
    assert found.subject.in_view < found.subject.answers == log.answered.height - found.subject.unknown_concept_answers
    counted = log.answered.filter(pl.col("concept").is_in(known.concepts)).group_by("concept").len()
    logged = {concept.concept: concept.answers for concept in found.exposure.least}
    assert logged == dict(counted.iter_rows()), "answers of the log, not of the window"


def test_too_few_students_or_concepts_are_refused_with_the_reason() -> None:
    with pytest.raises(InputError, match="30 students have 5 answers or more, and a diagnosis needs 40"):
        diagnose(tsdr.simulate(0.8, 30, 20, 4).log)
    with pytest.raises(InputError, match="one concept only"):
        diagnose(tsdr.simulate(0.8, 50, 20, 1).log)


def test_numbers_survive_json(fair: Diagnosis) -> None:
    assert Diagnosis.model_validate_json(fair.model_dump_json()) == fair


@pytest.mark.parametrize(
    ("distance", "gain", "effective", "unseen", "level", "overlap"),
    [
        (0.01, (-0.1, 0.1), 0.9, 0.0, "fair", "enough"),
        (0.30, (-0.1, 0.1), 0.9, 0.0, "uneven", "enough"),
        (0.01, (0.1, 0.2), 0.2, 0.2, "selected", "thin"),
        (0.30, (0.1, 0.2), 0.9, 0.6, "selected", "too thin"),
        (0.30, (0.01, 0.2), 0.05, 0.0, "uneven", "too thin"),  # the placebo's gain reaches to 0.02
    ],
)
def test_the_verdict_follows_from_the_numbers(
    distance: float, gain: tuple[float, float], effective: float, unseen: float, level: str, overlap: str
) -> None:
    verdict = judge(
        distance=distance,
        distance_by_chance=0.01,
        questions=None,
        gain=Estimate(sum(gain) / 2, *gain),
        placebo=Estimate(0.0, -0.02, 0.02),
        effective_share=effective,
        unseen_share=unseen,
        skips=None,
        placebo_passed=True,
    )
    assert (verdict.level, verdict.overlap) == (level, overlap)
    assert any("at random" in step for step in verdict.next) == (overlap != "enough")
    said = " ".join(verdict.next)
    assert ("tsdr compare LOG --methods naive,tsdr" in said) == (level == "selected")
    assert ("--estimate-risk" in said) == (level == "selected" and overlap != "too thin"), (
        "no weights that cannot repair"
    )


def offers_skipped_where(rule: Callable[[int, float], float], students: int = 120, answers: int = 40) -> Log:
    """Offers of two concepts, skipped with a chance that depends on the concept and the student's share right in it."""
    rng = np.random.default_rng(3)
    rows = []
    for student in range(students):
        right, given = [0, 0], [0, 0]
        for time in range(answers):
            concept = int(rng.integers(2))
            record = right[concept] / given[concept] if given[concept] else 0.5
            skipped = bool(rng.random() < rule(concept, record))
            correct = None if skipped else int(rng.random() < (0.3 + 0.4 * (student % 2)))
            if correct is not None:
                right[concept] += correct
                given[concept] += 1
            rows.append((f"s{student}", f"q{concept}", f"c{concept}", correct, time, skipped))
    columns = ["student", "question", "concept", "correct", "time", "skipped"]
    return Log(pl.DataFrame(rows, schema=columns, orient="row"))


def test_skips_at_both_ends_are_found_and_skips_of_a_concept_are_not() -> None:
    both_ends = skips_of(offers_skipped_where(lambda concept, record: 0.6 if abs(record - 0.5) > 0.3 else 0.1))
    assert both_ends is not None
    assert set(both_ends.related) == {"mostly right", "mostly wrong"}
    assert all(found.value > 0.1 for found in both_ends.differences.values())
    by_concept = skips_of(offers_skipped_where(lambda concept, record: 0.6 if concept else 0.1))
    assert by_concept is not None
    assert not by_concept.related
