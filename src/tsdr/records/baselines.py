"""Baselines that stand beside models on the same folds, and the models that are behind one of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tsdr.methods import COUNTS, NAIVE, Method
from tsdr.records.changes import Change, change
from tsdr.records.collection import on_common_folds
from tsdr.records.run import LIMIT, Record

Groups = dict[tuple[str, str, Method], list[Record]]
# What a model must not be behind in, and where.
JUDGED = {"auc": "AUC on logged answers", "true_bce": "cross-entropy against the truth"}


@dataclass(frozen=True)
class Behind:
    """A model that a baseline is ahead of on the same folds: `change` is that from the baseline to the model."""

    log: str
    backbone: str
    method: Method
    baseline: str
    change: Change

    def __str__(self) -> str:
        found = self.change
        return (
            f"On {self.log}, {self.backbone} by {self.method} is behind {self.baseline}: {JUDGED[found.metric]} "
            f"{found.after:.4f}, and {found.before:.4f} by it, on the same {found.folds} folds."
        )


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
            compared = {name: _beside(simple, runs, metric) for name, simple in of_log.items()}
            ahead = {name: found for name, found in compared.items() if found and round(found.gain, 4) < 0}  # as shown
            if ahead:
                farthest = min(ahead, key=lambda name: ahead[name].gain)
                told.append(Behind(log, backbone, method, baseline_name(farthest), ahead[farthest]))
    return told


def _beside(simple: Sequence[Record], runs: Sequence[Record], metric: str) -> Change | None:
    return change(*on_common_folds([simple, runs]), metric)
