"""From a study to the runs that it takes."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product

from tsdr.backbones.contract import backbone_class
from tsdr.defaults import WINDOW, Extent
from tsdr.experiments.engines import Job
from tsdr.experiments.logs import LogSource
from tsdr.experiments.studies import Study
from tsdr.judging.experiment import View, plan_baselines, plan_folds
from tsdr.methods import Method
from tsdr.records.folder import RecordFolder
from tsdr.records.run import TIMED_EPOCHS
from tsdr.training.options import StopBy, TrainingOptions


def plan_study(
    study: Study,
    sources: Sequence[LogSource],
    backbones: Iterable[str],
    methods: Sequence[Method],
    records: RecordFolder,
    *,
    folds: int,
    seeds: Iterable[int],
    windows: Iterable[Extent] | None = None,
    stop_by: StopBy = "auc",
) -> Iterator[Job]:
    """The runs of a study, log by log and backbone by backbone, baselines first; what is named twice is run once.

    Unless told otherwise, training stops by the paper's rule, and the windows are the study's. Models that do not read
    whole histories are passed over where all of them is in view.
    """
    in_view = tuple(dict.fromkeys(windows or study.windows))
    each_source = {source.name: source for source in sources}.values()
    for seed, source, window, skips in product(dict.fromkeys(seeds), each_source, in_view, study.skips):
        tested = source.experiment(records, folds, seed, View(window, scored=WINDOW - 1, skips=skips == "read"))
        training = TrainingOptions(seed=seed, stop_by=stop_by)
        if study.timed:
            tested = replace(tested, truth=None)
            training = training.model_copy(update={"max_epochs": TIMED_EPOCHS})
        else:
            yield from (Job(tested, baseline) for baseline in plan_baselines(tested, training))
        able = [name for name in dict.fromkeys(backbones) if window != "all" or backbone_class(name).linear]
        for backbone, method in product(able, dict.fromkeys(methods)):
            for fold_run in plan_folds(tested, backbone=backbone, training=training, method=method):
                yield Job(tested, fold_run)
