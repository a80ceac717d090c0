import numpy as np
import pytest
import torch

from tsdr.debias.imputation import imputation_losses, imputed_error, without_questions
from tsdr.sequences import Batch


def bce(p: float, r: float) -> float:
    return -(r * np.log(p) + (1 - r) * np.log(1 - p))


def sigmoid(x: float) -> float:
    return 1 / (1 + np.exp(-x))


def test_errors_and_losses_are_their_formulas() -> None:
    logits, imputation = torch.tensor([0.7, -1.2, 2.0]), torch.tensor([0.3, 0.9, -0.4])
    correct = torch.tensor([1, 0, 0])
    for i, (z, m, r) in enumerate(zip(logits.tolist(), imputation.tolist(), correct.tolist(), strict=True)):
        imputed = bce(sigmoid(z), sigmoid(m))
        assert float(imputed_error(logits, imputation, "bce")[i]) == pytest.approx(imputed, rel=1e-5)
        assert float(imputation_losses(imputation, logits, correct, "bce")[i]) == pytest.approx(
            bce(sigmoid(m), r), rel=1e-5
        )
        squared = (imputed - bce(sigmoid(z), r)) ** 2
        got = imputation_losses(imputation, logits, correct, "squared-error-of-errors")
        assert float(got[i]) == pytest.approx(squared, rel=1e-4)
        free = float(np.log1p(np.exp(m)))
        assert float(imputed_error(logits, imputation, "free")[i]) == pytest.approx(free, rel=1e-5)
        got = imputation_losses(imputation, logits, correct, "free")
        assert float(got[i]) == pytest.approx((free - bce(sigmoid(z), r)) ** 2, rel=1e-4)


def test_the_squared_error_of_errors_teaches_nothing_where_the_prediction_is_one_half() -> None:
    imputation = torch.tensor([0.8], requires_grad=True)
    correct, half = torch.tensor([0]), torch.tensor([0.0])
    imputation_losses(imputation, half, correct, "squared-error-of-errors").sum().backward()
    assert imputation.grad is not None
    assert float(imputation.grad) == pytest.approx(0, abs=1e-9)
    imputation.grad = None
    imputation_losses(imputation, half, correct, "bce").sum().backward()
    assert imputation.grad is not None
    assert float(imputation.grad) == pytest.approx(sigmoid(0.8), rel=1e-5)


def test_predictions_are_held_fixed_and_questions_unknown() -> None:
    logits = torch.tensor([1.0], requires_grad=True)
    imputation = torch.tensor([0.2], requires_grad=True)
    imputation_losses(imputation, logits, torch.tensor([1]), "squared-error-of-errors").sum().backward()
    assert logits.grad is None
    ones = torch.ones(2, 3, dtype=torch.long)
    assert (without_questions(Batch.of_answers(ones, ones, ones, ones == 1)).question == -1).all()
