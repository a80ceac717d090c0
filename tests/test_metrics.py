import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk

import tsdr
from tsdr import Sequences, build_backbone
from tsdr.backbones.predicting import predict
from tsdr.metrics import Predictions, acc, auc, auc_error, ece, log_loss, per_student, pooled, rmse


def draw(answers: int = 400, students: int = 12, seed: int = 0) -> Predictions:
    rng = np.random.default_rng(seed)
    success = rng.random(answers).round(2)  # ties included
    return Predictions(success, (rng.random(answers) < success).astype(int), rng.integers(students, size=answers))


@given(st.integers(0, 10_000), st.integers(5, 300))
@settings(max_examples=40, deadline=None)
def test_pooled_metrics_agree_with_scikit_learn(seed: int, answers: int) -> None:
    found = draw(answers, seed=seed)
    if found.correct.min() == found.correct.max():
        return
    assert auc(found.success, found.correct) == pytest.approx(sk.roc_auc_score(found.correct, found.success))
    assert acc(found.success, found.correct) == pytest.approx(sk.accuracy_score(found.correct, found.success >= 0.5))
    assert rmse(found.success, found.correct) == pytest.approx(sk.root_mean_squared_error(found.correct, found.success))
    assert log_loss(found.success, found.correct) == pytest.approx(sk.log_loss(found.correct, found.success))


def test_per_student_metrics_are_means_over_students() -> None:
    found = draw()
    groups = [found.student == student for student in np.unique(found.student)]
    values = per_student(found)
    aucs = [sk.roc_auc_score(found.correct[g], found.success[g]) for g in groups if 0 < found.correct[g].mean() < 1]
    assert values["auc"] == pytest.approx(np.mean(aucs))
    assert values["rmse"] == pytest.approx(
        np.mean([sk.root_mean_squared_error(found.correct[g], found.success[g]) for g in groups])
    )


def test_a_student_with_right_answers_only_has_no_auc_and_does_not_spoil_the_mean() -> None:
    found = Predictions(np.array([0.2, 0.8, 0.6, 0.7]), np.array([0, 1, 1, 1]), np.array([0, 0, 1, 1]))
    assert per_student(found)["auc"] == 1.0
    assert np.isnan(auc(found.success[2:], found.correct[2:]))


def test_the_error_of_an_auc_is_the_spread_between_samples_of_students() -> None:
    """Answers of a student share an ability: the spread over 400 samples agrees with the mean stated error.

    A standard deviation of 400 draws has a relative error of 3.5 %; 15 % are four of them.
    """
    rng = np.random.default_rng(0)
    values, errors = [], []
    for _ in range(400):
        ability, student = rng.normal(size=40), np.repeat(np.arange(40), 12)
        score = (ability[student] + rng.normal(size=480)).round(1)
        correct = (ability[student] + rng.normal(size=480) > 0).astype(int)
        found = Predictions(score, correct, student)
        values.append(auc(score, correct))
        errors.append(auc_error(found))
    assert np.mean(errors) == pytest.approx(np.std(values), rel=0.15)
    independent = [auc_error(Predictions(score, correct, np.arange(480)))]
    assert independent[0] < np.mean(errors) * 0.8, "taking answers as independent understates the error"


def test_calibration_error_by_hand() -> None:
    success = np.array([0.05, 0.05, 0.95, 1.0])
    correct = np.array([0, 1, 1, 0])
    assert ece(success, correct) == pytest.approx((abs(0.1 - 1) + abs(1.95 - 1)) / 4)
    perfect = np.array([0.5, 0.5])
    assert ece(perfect, np.array([0, 1])) == 0
    rng = np.random.default_rng(0)
    calibrated = rng.random(200_000)
    assert ece(calibrated, rng.random(200_000) < calibrated) < 0.005


def test_log_loss_of_a_sure_mistake_is_finite() -> None:
    assert 30 < log_loss(np.array([1.0]), np.array([0])) < 40


def test_predictions_score_every_step_but_the_first_out_of_training() -> None:
    sequences = Sequences.from_log(tsdr.simulate(students=20, questions=13, concepts=11).log, window=9)
    model = build_backbone("dkt", n_concepts=11, n_questions=13, d=8, dropout=0.9).train()
    found = predict(model, sequences)
    assert model.training
    assert len(found.correct) == int(sequences.batch.mask[:, 1:].sum())
    with torch.no_grad():
        expected = model.eval()(sequences.batch).sigmoid()[:, 1:][sequences.batch.mask[:, 1:]]
    np.testing.assert_allclose(found.success, expected.numpy(), rtol=1e-6)
    assert len(np.unique(found.student)) == 20
    assert set(pooled(found)) == {"auc", "acc", "rmse", "log_loss", "ece"}
