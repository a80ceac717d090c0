import gzip
from pathlib import Path

import numpy as np
import pytest

from conftest import RealLogs
from tsdr import InputError, build_backbone
from tsdr.debias.exposure import ExposedBatch, expose
from tsdr.evaluation.records import RecordFolder
from tsdr.evaluation.truth import true_probability, true_risk
from tsdr.experiments.logs import LogFile, MaskedAnswers, Simulated, experiment
from tsdr.experiments.paper import BACKBONES, LAMBDAS, STUDIES, paper_numbers, plan_study, source_named, tsdr_with
from tsdr.masking import mask_responses
from tsdr.sequences import Sequences


def test_the_grid_of_the_synthetic_study_is_the_papers(tmp_path: Path) -> None:
    study = STUDIES["synthetic"]
    sources = [source_named(name, None, {}) for name in study.datasets]
    assert [source.gamma for source in sources if isinstance(source, Simulated)] == [0, 0.2, 0.4, 0.6, 0.8, 0.999]
    few = [Simulated(0.8, students=30, questions=10, concepts=3)]
    jobs = list(
        plan_study(study, few, BACKBONES, study.methods(LAMBDAS), RecordFolder(tmp_path), folds=2, seeds=(1, 2))
    )
    assert len(jobs) == len({job.name for job in jobs}) == 6 * 3 * 2 * 2
    tuned = next(job for job in jobs if "|" in job.fold_run.run.method)
    assert [trial.chosen["smoothness"] for trial in tuned.fold_run.trials] == list(LAMBDAS)
    assert {job.experiment.sequences.digest() for job in jobs if job.fold_run.run.seed == 1} != {
        job.experiment.sequences.digest() for job in jobs if job.fold_run.run.seed == 2
    }, "every seed has a log of its own"


def test_a_single_lambda_is_not_tuned() -> None:
    assert tsdr_with([2.0]) == "tsdr"
    assert tsdr_with([0.5]) == "tsdr:smoothness=0.5"
    assert tsdr_with([0.5, 2]) == "tsdr:smoothness=0.5|2"


def test_the_papers_own_numbers_are_there_for_every_cell_of_its_table() -> None:
    real = paper_numbers()["real"]
    assert len(real) == 9
    for metrics in real.values():
        assert set(metrics) == {"auc", "acc", "rmse"}
        assert all(set(of_metric) == set(BACKBONES) for of_metric in metrics.values())


def test_logs_are_found_by_name(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "ours.tsv.gz", "wt") as file:
        file.write("student\tquestion\tconcept\tcorrect\ttime\na\tq\tc\t1\t1\n")
    found = source_named("ours", tmp_path, {})
    assert isinstance(found, LogFile)
    assert len(found.load(1)[0]) == 1
    assert source_named("simulated-gamma0.4-50x20x5", None, {}) == Simulated(0.4, 50, 20, 5)
    assert isinstance(source_named("ours-gamma0.5", tmp_path, {}), MaskedAnswers)
    for name, data, told in (
        ("theirs", tmp_path, "no theirs in it"),
        ("ours", None, "--data"),
        ("simulated-gamma7", None, "from 0 to 1"),
    ):
        with pytest.raises(InputError, match=told):
            source_named(name, data, {})


def test_the_truth_of_masked_answers_is_the_share_right_of_a_concepts_questions(real_logs: RealLogs) -> None:
    """Against the complete matrix itself, cell by cell, for students of one of the real ones."""
    complete = real_logs.read("frcsub")
    masked = mask_responses(complete, 0.8, 5)
    sequences = Sequences.from_log(masked.log)
    probability = true_probability(sequences, masked.truth())
    answers = complete.answered
    rng = np.random.default_rng(1)
    for row in rng.integers(len(sequences), size=20):
        of_student = answers.filter(answers["student"] == sequences.student[row])
        asked: set[int] = set()
        for step in range(int(sequences.batch.mask[row].sum())):
            for number, concept in enumerate(sequences.vocabulary.concepts):
                share = of_student.filter(of_student["concept"] == concept)["correct"].mean()
                expected = float("nan") if number in asked else share
                assert float(probability[row, step, number]) == pytest.approx(expected, nan_ok=True)
            asked.add(int(sequences.batch.concept[row, step]))


def test_what_is_asked_once_is_neither_exposed_nor_tested_again(real_logs: RealLogs) -> None:
    masked = mask_responses(real_logs.read("frcsub"), 0.8, 5)
    sequences, truth = Sequences.from_log(masked.log), masked.truth()
    exposed = expose(sequences, truth, seed=1).batch
    assert isinstance(exposed, ExposedBatch)
    cells, repeated = 0, []
    for row in range(len(sequences)):
        asked: set[int] = set()
        for step in range(int(sequences.batch.mask[row].sum())):
            open_to_ask = len(sequences.vocabulary.concepts) - len(asked)
            cells += open_to_ask if step else 0
            if open_to_ask:
                repeated.append(int(exposed.target[row, step]) in asked)
            asked.add(int(sequences.batch.concept[row, step]))
    assert not any(repeated)
    model = build_backbone("dkt", n_concepts=len(sequences.vocabulary.concepts), n_questions=20)
    assert sum(true_risk(model, sequences, truth).by_student["cells"]) == cells  # type: ignore[arg-type]


def test_an_experiment_on_real_answers_is_tested_against_those_not_logged(tmp_path: Path, real_logs: RealLogs) -> None:
    log = real_logs.read("frcsub")
    path = tmp_path / "frcsub.parquet"
    log.frame.write_parquet(path)
    tested = experiment(MaskedAnswers(LogFile("frcsub", path, {}), 0.8), RecordFolder(tmp_path), 2, 1)
    assert tested.dataset == "frcsub-gamma0.8"
    assert tested.truth is not None
    assert int(tested.sequences.batch.mask.sum()) < len(log)
