"""Baselines that stand beside models on the same folds, and the models that are behind one of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tsdr.methods import COUNTS, NAIVE, Method
from tsdr.records.changes import LESS_IS_BETTER, mean
from tsdr.records.collection import on_common_folds
from tsdr.records.run import LIMIT, Record

Groups = dict[tuple[str, str, Method], list[Record]]
# What a model must not be behind in, and where.
JUDGED = {"auc": "AUC on logged answers", "true_bce": "cross-entropy against the truth"}


@dataclass(frozen=True)
class Behind:
    """A model that a baseline is ahead of on the same folds, by a metric: what the two come to."""

    log: str
    backbone: str
    method: Method
    baseline: str
    metric: str
    own: float
    ahead: float
    folds: int

    def __str__(self) -> str:
        return (
            f"On {self.log}, {self.backbone} by {self.method} is behind {self.baseline}: {JUDGED[self.metric]} "
            f"{self.own:.4f}, and {self.ahead:.4f} by it, on the same {self.folds} folds."
        )

    @property
    def by(self) -> float:
        """How far, as numbers are shown."""
        return round(abs(self.own - self.ahead), 4)


def grouped(records: Iterable[Record]) -> Groups:
    """Records by log, as far as it is in view, model and method."""
    groups: Groups = {}
    for record in records:
        groups.setdefault((record.log_in_view, record.backbone, record.method), []).append(record)
    return groups


def is_baseline(record: Record) -> bool:
    """Whether it is of what a model has to beat: a mean, or `counts`; and not of what no model can."""
    if record.method.is_baseline:
        return not record.backbone.startswith(LIMIT)
    return record.backbone == COUNTS and record.method == NAIVE


def baseline_name(backbone: str) -> str:
    """A baseline in words."""
    return f"the logistic model `{COUNTS}`" if backbone == COUNTS else f"the baseline `{backbone}`"


def behind(records: Iterable[Record]) -> list[Behind]:
    """Which models a baseline is ahead of, by AUC or against the truth; of several baselines, the best there."""
    groups = grouped(records)
    told = []
    for (log, backbone, method), runs in groups.items():
        if backbone == COUNTS or method.is_baseline:
            continue
        of_log = {name: found for (of, name, _), found in groups.items() if of == log and is_baseline(found[0])}
        for metric in JUDGED:
            compared = [_beside(log, runs, name, simple, metric) for name, simple in of_log.items()]
            told += sorted((found for found in compared if found), key=lambda found: -found.by)[:1]
    return told


def _beside(log: str, runs: Sequence[Record], name: str, simple: Sequence[Record], metric: str) -> Behind | None:
    """A model beside a baseline, if it is behind it on the folds that both have."""
    before, after = on_common_folds([simple, runs])
    own, ahead = mean(after, metric), mean(before, metric)
    lost = own - ahead if metric in LESS_IS_BETTER else ahead - own
    if not round(lost, 4) > 0:  # nor where one of them has no such metric
        return None
    return Behind(log, runs[0].backbone, runs[0].method, baseline_name(name), metric, own, ahead, len(after))
