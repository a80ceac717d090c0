import numpy as np
import pytest

import tsdr
from tsdr import Sequences
from tsdr.judging.baselines import concept_mean, global_mean


@pytest.fixture(scope="module")
def sequences() -> Sequences:
    return Sequences.from_log(tsdr.simulate(students=200, questions=40, concepts=6, seed=1).log, window=15)


def test_means_are_the_training_students(sequences: Sequences) -> None:
    train, test = sequences.select(sequences.student[:150]), sequences.select(sequences.student[150:])
    share = float(train.batch.correct[train.batch.mask].double().mean())
    assert np.allclose(global_mean(train, test).observed.success, share)
    by_concept = concept_mean(train, test)
    concept = test.batch.concept[:, 1:][test.batch.mask[:, 1:]]
    for c in range(6):
        answers = train.batch.correct[(train.batch.concept == c) & train.batch.mask]
        expected = (int(answers.sum()) + 5 * share) / (len(answers) + 5)
        assert np.allclose(by_concept.observed.success[(concept == c).numpy()], expected)
        assert np.allclose(by_concept.everywhere[:, c], expected)
    assert by_concept.everywhere.shape == (len(concept), 6)
