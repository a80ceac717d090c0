import numpy as np
import pytest
import torch

import tsdr
from tsdr import Sequences
from tsdr.evaluation.baselines import _features, concept_mean, global_mean, logistic_counts
from tsdr.evaluation.metrics import auc


@pytest.fixture(scope="module")
def sequences() -> Sequences:
    return Sequences.from_log(tsdr.simulate(students=200, questions=40, concepts=6, seed=1).log, window=15)


def test_means_are_the_training_students(sequences: Sequences) -> None:
    train, test = sequences.select(sequences.student[:150]), sequences.select(sequences.student[150:])
    share = float(train.batch.correct[train.batch.mask].double().mean())
    assert np.allclose(global_mean(train, test).success, share)
    by_concept = concept_mean(train, test)
    concept = test.batch.concept[:, 1:][test.batch.mask[:, 1:]]
    for c in range(6):
        answers = train.batch.correct[(train.batch.concept == c) & train.batch.mask]
        expected = (int(answers.sum()) + 5 * share) / (len(answers) + 5)
        assert np.allclose(by_concept.success[(concept == c).numpy()], expected)


def test_counts_are_those_before_the_step(sequences: Sequences) -> None:
    shares = np.full(6, 0.5)
    features = np.expm1(_features(sequences, shares)[..., :4])
    for student in range(5):
        for step in range(15):
            past = range(step)
            concept, correct = sequences.batch.concept[student], sequences.batch.correct[student]
            same = [i for i in past if concept[i] == concept[step]]
            expected = [
                sum(int(correct[i]) for i in same),
                sum(1 - int(correct[i]) for i in same),
                sum(int(correct[i]) for i in past),
                sum(1 - int(correct[i]) for i in past),
            ]
            np.testing.assert_allclose(features[student, step], expected, atol=1e-9)


def test_the_logistic_model_beats_the_means_and_never_sees_the_answer(sequences: Sequences) -> None:
    train, test = sequences.select(sequences.student[:150]), sequences.select(sequences.student[150:])
    scores = [
        auc(p.success, p.correct) for p in (baseline(train, test) for baseline in (concept_mean, logistic_counts))
    ]
    assert scores[1] > scores[0] > 0.5
    before = logistic_counts(train, test).success.reshape(len(test), -1)
    flipped = test.select(test.student)
    flipped.batch.correct[:, -1] = 1 - flipped.batch.correct[:, -1]
    after = logistic_counts(train, flipped).success.reshape(len(test), -1)
    np.testing.assert_array_equal(after, before)
    assert torch.equal(test.batch.mask, torch.ones_like(test.batch.mask))
