"""Who is behind a baseline, by means over the folds that both have."""

from typing import Any

import pytest

from tsdr.methods import Method
from tsdr.records.baselines import behind
from tsdr.records.run import Record


def record(backbone: str, method: str, fold: int, auc: float, **more: Any) -> Record:
    about: dict[str, Any] = {"per_student": {}, "students": {}, "scored": 1, "epochs": 1, "best_epoch": 1}
    about |= {"seconds": 1.0, "peak_memory_mib": 1, "versions": {}, "seed": 1, "options": {"data": "one"}}
    metrics = {"auc": auc} | more
    return Record(dataset="ours", backbone=backbone, method=Method(method), fold=fold, metrics=metrics, **about)


def test_a_model_is_behind_the_best_baseline_of_the_same_folds() -> None:
    records = [record("concept-mean", "baseline", fold, 0.72) for fold in range(3)]
    records += [record("counts", "naive", fold, auc) for fold, auc in enumerate([0.74, 0.76, 0.5])]
    records += [record("limit", "baseline", fold, 0.9) for fold in range(3)]
    records += [record("dkt", "naive", fold, 0.70) for fold in range(2)]
    records += [record("dkt", "tsdr", fold, 0.75004) for fold in range(2)]
    (found,) = behind(records)
    assert (found.backbone, str(found.method), found.folds) == ("dkt", "naive", 2)
    assert found.own == pytest.approx(0.70)
    assert found.ahead == pytest.approx(0.75), "the third fold of counts is not dkt's"
    assert "is behind the logistic model `counts`: AUC on logged answers 0.7000, and 0.7500 by it" in str(found)


def test_less_is_better_against_the_truth() -> None:
    records = [record("global-mean", "baseline", 0, 0.5, true_bce=0.55), record("akt", "tsdr", 0, 0.7, true_bce=0.56)]
    (found,) = behind(records)
    assert (found.metric, found.by) == ("true_bce", 0.01)
