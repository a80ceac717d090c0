"""By which rule should training stop: the AUC of the validation students, or what is minimised, on them?

    python -m benchmarks.stopping [--backbones dkt simplekt] [--seeds 31 32] [--log LOG] [--out runs/stopping]

Each model is trained once, far beyond where either rule stops it (patience 15), and the weights of the epoch that each
rule picks are tested: on logged answers of the test students and, on simulated logs (gamma 0.8), against the truth. Two
folds of each log. What a training came to is written as it ends, and not computed again.
"""

import argparse
import copy
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from pydantic import BaseModel
from rich.console import Console
from rich.table import Table

from tsdr.backbones.predicting import predict
from tsdr.experiments.logs import LogFile, LogSource, Simulated
from tsdr.files import replacing
from tsdr.judging.crossval import objective_of
from tsdr.judging.experiment import Experiment, plan_folds
from tsdr.judging.risk import true_risk
from tsdr.metrics import auc, log_loss
from tsdr.records.folder import RecordFolder
from tsdr.training.options import TrainingOptions
from tsdr.training.trainer import fit

METHODS = ("naive", "tsdr", "random-exposure")
PATIENCE, BEYOND = 15, 25
COLUMNS = {"student": "user_id", "question": "item_id", "concept": "skill_id", "time": "timestamp"}


class Picked(BaseModel):
    """The epoch that each rule picks, and what the model of that epoch comes to."""

    epoch: dict[str, int]
    metrics: dict[str, dict[str, float]]


def picked_epoch(scores: list[float]) -> int:
    """The epoch at which a rule stops: the best one when there was none better for so long."""
    best = 0
    for epoch, score in enumerate(scores):
        if score > scores[best]:
            best = epoch
        if epoch - best >= PATIENCE:
            break
    return best


def train(tested: Experiment, backbone: str, method: str, fold: int, seed: int) -> Picked:
    """Train once, and look at both rules."""
    training = TrainingOptions(seed=seed, patience=BEYOND)
    planned = plan_folds(tested, backbone=backbone, training=training, method=method)[fold]
    split = tested.folds[fold]
    parts = (tested.sequences.select(part) for part in (split.train, split.validation, split.test))
    learning, validation, test = parts
    learner, learned, stopped_by = objective_of(planned.trials[0], learning, validation, tested)
    scores: dict[str, list[float]] = {"auc": [], "loss": []}
    weights: list[dict[str, torch.Tensor]] = []

    def look() -> dict[str, float]:
        found = predict(learner.model, stopped_by)
        scores["auc"].append(auc(found.success, found.correct))
        scores["loss"].append(-log_loss(found.success, found.correct) - learner.loss_beyond_answers(stopped_by))
        weights.append(copy.deepcopy(learner.model.state_dict()))
        return {}

    fit(learner, learned, stopped_by, training, watch=look)
    epochs, metrics = {}, {}
    for rule, values in scores.items():
        epochs[rule] = picked_epoch(values) + 1
        learner.model.load_state_dict(weights[epochs[rule] - 1])
        found = predict(learner.model, test)
        metrics[rule] = {"auc": auc(found.success, found.correct), "log_loss": log_loss(found.success, found.correct)}
        if tested.truth is not None:
            metrics[rule]["true_bce"] = true_risk(learner.model, test, tested.truth).metrics["true_bce"]
    return Picked(epoch=epochs, metrics=metrics)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backbones", nargs="*", default=["dkt", "simplekt"])
    parser.add_argument("--seeds", nargs="*", type=int, default=[31, 32])
    parser.add_argument("--log", type=Path)
    parser.add_argument("--out", type=Path, default=Path("runs/stopping"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    found: dict[tuple[str, str, str], list[Picked]] = {}
    for backbone in arguments.backbones:
        for source, seed, method, fold in _plan(arguments.seeds, arguments.log):
            path = arguments.out / f"{source.name}-{backbone}-{method}-seed{seed}-fold{fold}.json"
            if not path.exists():
                tested = source.experiment(RecordFolder(arguments.out), 3 if seed != 42 else 5, seed)
                came = train(tested, backbone, method, fold, seed)
                with replacing(path) as temporary:
                    temporary.write_text(came.model_dump_json(indent=1))
                print(path.name, came.epoch, flush=True)
            found.setdefault((source.name, backbone, method), []).append(Picked.model_validate_json(path.read_bytes()))
    table = Table("log", "model", "method", "runs", "epochs", "AUC", "change", "true BCE", "change")
    table.title = "Stopped by AUC, and what changes (± standard error over runs) if stopped by log loss"
    for about, runs in found.items():
        cells = [f"{np.mean([run.epoch[rule] for run in runs]):.0f}" for rule in ("auc", "log_loss")]
        row = [*about, str(len(runs)), " to ".join(cells)]
        for metric in ("auc", "true_bce"):
            if metric not in runs[0].metrics["auc"]:
                row += ["-", "-"]
                continue
            before, after = (np.array([run.metrics[rule][metric] for run in runs]) for rule in ("auc", "log_loss"))
            change = after - before
            error = change.std(ddof=1) / np.sqrt(len(runs)) if len(runs) > 1 else float("nan")
            row += [f"{before.mean():.4f}", f"{change.mean():+.4f} ± {error:.4f}"]
        table.add_row(*row)
    Console(width=130).print(table)


def _plan(seeds: list[int], log: Path | None) -> Iterator[tuple[LogSource, int, str, int]]:
    for seed in seeds:
        for method in METHODS:
            for fold in (0, 1):
                yield Simulated(0.8), seed, method, fold
    if log is not None:
        for method in METHODS[:2]:
            yield LogFile(log.name.split(".")[0], log, COLUMNS), 42, method, 0


if __name__ == "__main__":
    main()
