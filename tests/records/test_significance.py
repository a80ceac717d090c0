from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from tsdr import InputError
from tsdr.metrics import Predictions, auc, auc_influence, of_each_student, pooled
from tsdr.records.run import Record
from tsdr.records.significance import holm, interval, paired_difference, resampled

STUDENTS, ANSWERS = 100, 10


def record(metrics: dict[str, float], by_student: dict[str, list[float | None]] | None, **more: object) -> Record:
    about: dict[str, object] = {
        "dataset": "d",
        "backbone": "dkt",
        "method": "m",
        "options": {"data": "one"},
        "fold": 0,
        "seed": 1,
    }
    return Record(
        **about | more,  # type: ignore[arg-type]
        metrics=metrics,
        per_student={},
        by_student=by_student,
        students={},
        scored=1,
        epochs=1,
        best_epoch=1,
        seconds=1,
        peak_memory_mib=1,
        versions={},
    )


def predictions(rng: np.random.Generator, answers: int = ANSWERS) -> Predictions:
    success = rng.uniform(0.05, 0.95, STUDENTS * answers)
    correct = (rng.random(len(success)) < success).astype(np.int64)
    return Predictions(success, correct, np.repeat(np.arange(STUDENTS), answers))


def whole(found: Predictions, students: Sequence[float] | None = None, **more: object) -> Record:
    who: dict[str, list[float | None]] = {} if students is None else {"student": list(students)}
    return record(pooled(found), who | of_each_student(found), **more)


def test_what_students_contribute_sums_to_the_pooled_metrics() -> None:
    found = predictions(np.random.default_rng(1))
    sums = {name: np.array(values, dtype=float) for name, values in of_each_student(found).items()}
    metrics = pooled(found)
    answers = sums["answers"].sum()
    assert answers == len(found.correct)
    assert sums["acc"].sum() / answers == pytest.approx(metrics["acc"])
    assert np.sqrt(sums["squared_error"].sum() / answers) == pytest.approx(metrics["rmse"])
    assert sums["log_loss"].sum() / answers == pytest.approx(metrics["log_loss"])
    assert sums["auc_influence"].sum() == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("metric", ["auc", "acc", "rmse", "log_loss"])
def test_an_interval_is_that_of_students_drawn_anew(metric: str) -> None:
    """The oracle draws students with replacement and works the metric out again from all of their answers."""
    rng = np.random.default_rng(2)
    found = predictions(rng)
    values = []
    for _ in range(300):
        students = rng.integers(STUDENTS, size=STUDENTS)
        rows = (students[:, None] * ANSWERS + np.arange(ANSWERS)).ravel()
        values.append(pooled(Predictions(found.success[rows], found.correct[rows], found.student))[metric])
    told = interval([whole(found)], metric)
    assert told.value == pooled(found)[metric]
    # the standard deviation of 300 draws is within 13 % of its expectation (three of its standard errors)
    assert (told.high - told.low) / 3.92 == pytest.approx(np.std(values), rel=0.15)


def test_the_paired_interval_covers_the_true_difference() -> None:
    """2,000 logs of 100 students whose answers hang together; both models' AUC is known in closed form.

    Scores are normal within the right and the wrong answers, d apart, with an effect of the student on all of the
    student's scores: AUC = Phi(d / sqrt(2 (1 + effect²))). A wrong interval, such as one that takes answers for
    independent, or models for unpaired, covers far less or more. Over 16,000 logs of other seeds it was 94.7 %.
    """
    rng = np.random.default_rng(100)
    effect, apart = 0.7, (0.8, 1.0)
    truth = np.diff([norm.cdf(d / np.sqrt(2 * (1 + effect**2))) for d in apart]).item()
    student = np.repeat(np.arange(STUDENTS), ANSWERS)
    covered = []
    for repetition in range(2000):
        right = (rng.random(len(student)) < 0.6).astype(np.int64)
        shared = effect * rng.normal(size=STUDENTS)[student] + 0.8 * rng.normal(size=len(student))
        runs = []
        for d in apart:
            score = d * right + shared + 0.6 * rng.normal(size=len(student))
            runs.append(_scored(score, right, student))
        found = paired_difference([runs[0]], [runs[1]], "auc", seed=repetition)
        covered.append(found.low <= truth <= found.high)
    assert 0.935 <= np.mean(covered) <= 0.965


def _scored(score: NDArray[np.float64], right: NDArray[np.int64], student: NDArray[np.int64]) -> Record:
    found = Predictions(score, right, student)
    influence = np.bincount(student, auc_influence(found))
    return record({"auc": auc(score, right)}, {"auc_influence": influence.tolist()})


def test_students_are_the_same_for_all_methods_and_for_all_seeds_of_a_log() -> None:
    found = predictions(np.random.default_rng(4))
    one = whole(found, range(STUDENTS))
    same = paired_difference([one], [one], "auc")
    assert (same.value, same.low, same.high, same.p) == (0, 0, 0, 1)
    _, alone = resampled([one], "rmse")
    _, twice = resampled([one, whole(found, range(STUDENTS), seed=2)], "rmse")
    assert twice == pytest.approx(alone), "the same students again tell nothing new"
    _, others = resampled([one, whole(found, range(STUDENTS), seed=2, options={"data": "another"})], "rmse")
    assert others.std() == pytest.approx(alone.std() / np.sqrt(2), rel=0.1), "other students do"


def test_a_larger_difference_is_less_probable_by_chance() -> None:
    rng = np.random.default_rng(5)
    good = predictions(rng)
    noisy = Predictions(
        np.clip(good.success + rng.normal(0, 0.02, len(good.success)), 0, 1), good.correct, good.student
    )
    bad = Predictions(rng.uniform(size=len(good.success)), good.correct, good.student)
    small, large = (paired_difference([whole(good)], [whole(other)], "auc") for other in (noisy, bad))
    assert large.p < 1e-6
    assert large.high < 0
    assert small.p > large.p


def test_holm_takes_the_smallest_probability_times_the_number_of_tests() -> None:
    assert holm([0.01, 0.02, 0.03, 0.04]) == pytest.approx([0.04, 0.06, 0.06, 0.06])
    assert holm([0.9, 0.6]) == pytest.approx([1.0, 1.0])
    assert holm([]) == []


def test_runs_that_cannot_be_paired_are_refused() -> None:
    found = predictions(np.random.default_rng(6))
    with pytest.raises(InputError, match="same folds"):
        paired_difference([whole(found)], [whole(found, fold=1)], "auc")
    with pytest.raises(InputError, match="same folds"):
        paired_difference([whole(found)], [whole(found, options={"data": "one", "folds": 2})], "auc")
    with pytest.raises(InputError, match="no interval for 'ece'"):
        interval([whole(found)], "ece")
    with pytest.raises(InputError, match="true_bce; run it again"):
        interval([whole(found)], "true_bce")
    with pytest.raises(InputError, match="run it again for an interval"):
        interval([record({"auc": 0.6}, None)], "auc")


@pytest.mark.parametrize("metric", ["acc", "rmse", "log_loss"])
def test_a_fold_of_which_no_student_is_drawn_stays_as_it_is(metric: str) -> None:
    """Two students a fold: in one draw of ten, neither of them."""
    rng = np.random.default_rng(3)
    folds = [
        Predictions(success := rng.uniform(0.05, 0.95, 20), (rng.random(20) < success) * 1, np.repeat([0, 1], 10))
        for _ in range(4)
    ]
    runs = [whole(found, [2 * fold, 2 * fold + 1], fold=fold) for fold, found in enumerate(folds)]
    told = interval(runs, metric)
    assert told.low < told.value < told.high
