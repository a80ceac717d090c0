import numpy as np
import polars as pl
import pytest
from scipy import optimize

from conftest import RealLogs
from tsdr import InputError, Log, mask_responses
from tsdr.masking import rasch_success
from tsdr.simulator import skip_probability


def matrix_log(students: int = 60, questions: int = 12, seed: int = 0) -> Log:
    rng = np.random.default_rng(seed)
    chance = 1 / (1 + np.exp(rng.normal(size=questions) - 2 * rng.normal(size=(students, 1))))
    answers = (rng.random((students, questions)) < chance).astype(int)
    answers[0] = 1  # a student who knows everything has no finite ability by maximum likelihood
    answers[1] = 0
    rows = [(f"s{s:02}", f"q{q:02}", f"c{q % 5}", answers[s, q]) for s in range(students) for q in range(questions)]
    return Log(pl.DataFrame(rows, ["student", "question", "concept", "correct"], orient="row"))


def test_every_answer_is_logged_or_skipped_and_the_truth_has_them_all() -> None:
    matrix = matrix_log()
    masked = mask_responses(matrix, gamma=0.9)
    assert len(masked.log) + len(masked.skipped) == len(matrix)
    assert len(masked.skipped) > 0
    student = {name: i for i, name in enumerate(masked.student)}
    question = {name: i for i, name in enumerate(masked.question)}
    for row in masked.log.frame.to_dicts():
        assert masked.answers[student[row["student"]], question[row["question"]]] == row["correct"]
        assert masked.concept[question[row["question"]]] == row["concept"]
    truth = {(row["student"], row["question"]): row["correct"] for row in matrix.frame.to_dicts()}
    assert masked.answers[student["s03"], question["q04"]] == truth["s03", "q04"]
    assert masked.answers.sum() == matrix.frame["correct"].sum()


def test_offers_come_in_a_random_order_of_each_students_own() -> None:
    masked = mask_responses(matrix_log(), gamma=0.5)
    offers = pl.concat([masked.log.frame.with_columns(skipped=pl.lit(False)), masked.skipped.frame])
    orders = offers.sort("student", "time").group_by("student", maintain_order=True).agg("question", "time")
    assert all(times == list(range(12)) for times in orders["time"].to_list())
    assert orders["question"].n_unique() > 55


def test_skips_follow_the_rule_and_gamma_nought_skips_nothing(real_logs: RealLogs) -> None:
    matrix = real_logs.read("math1")
    assert len(mask_responses(matrix, gamma=0).skipped) == 0
    masked = mask_responses(matrix, gamma=0.8, seed=2)
    chance = skip_probability(masked.success, 0.8)
    skipped = np.zeros_like(chance, dtype=bool)
    student = {name: i for i, name in enumerate(masked.student)}
    question = {name: i for i, name in enumerate(masked.question)}
    for row in masked.skipped.frame.select("student", "question").rows():
        skipped[student[row[0]], question[row[1]]] = True
    assert not skipped[chance == 0].any()
    for low, high in ((0.0, 0.62), (0.62, 0.7), (0.7, 0.75), (0.75, 0.81)):
        band = (chance > low) & (chance <= high)
        error = np.sqrt((chance * (1 - chance))[band].sum())
        assert abs(skipped[band].sum() - chance[band].sum()) < 5 * error


def test_the_estimate_is_calibrated_on_real_answers(real_logs: RealLogs) -> None:
    masked = mask_responses(real_logs.read("math1"))
    band = np.minimum((masked.success * 10).astype(int), 9)
    for b in range(10):
        assert masked.answers[band == b].mean() == pytest.approx(masked.success[band == b].mean(), abs=0.03)


def test_the_rasch_model_is_the_maximum_of_its_posterior() -> None:
    """A general optimiser finds the same point."""
    answers = mask_responses(matrix_log(20, 6)).answers

    def negative_log_posterior(x: np.ndarray) -> float:
        logit = x[:20, None] - x[20:]
        return float(np.logaddexp(0, np.where(answers == 1, -logit, logit)).sum() + (x**2).sum() / 8)

    best = optimize.minimize(negative_log_posterior, np.zeros(26), tol=1e-10).x
    expected = 1 / (1 + np.exp(best[20:] - best[:20, None]))
    np.testing.assert_allclose(rasch_success(answers), expected, atol=1e-4)


def test_same_seed_same_log() -> None:
    assert mask_responses(matrix_log(), seed=4).log == mask_responses(matrix_log(), seed=4).log
    assert mask_responses(matrix_log(), seed=4).log != mask_responses(matrix_log(), seed=5).log


def test_incomplete_and_ambiguous_matrices_are_refused() -> None:
    frame = matrix_log().frame
    with pytest.raises(InputError, match=r"not complete.*720 answers.*719"):
        mask_responses(Log(frame.head(719)))
    with pytest.raises(InputError, match="not complete"):
        mask_responses(Log(pl.concat([frame.head(719), frame.head(1)])))
    with pytest.raises(InputError, match="no answer"):
        mask_responses(Log(frame.head(0)))
    with pytest.raises(InputError, match="'q00' has two concepts"):
        mask_responses(
            Log(
                frame.with_columns(concept=pl.when(pl.int_range(pl.len()) > 0).then("concept").otherwise(pl.lit("odd")))
            )
        )
