import gzip
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from conftest import RealLogs
from tsdr import InputError, build_backbone
from tsdr.debias.exposure import expose
from tsdr.defaults import WINDOW
from tsdr.experiments.logs import LogFile, MaskedAnswers, Simulated, source_named
from tsdr.experiments.planning import plan_study
from tsdr.experiments.studies import STUDIES
from tsdr.judging.risk import true_risk
from tsdr.masking import mask_responses
from tsdr.methods import NAIVE, OWN
from tsdr.paper import BACKBONES, LAMBDAS, paper_numbers, with_lambda
from tsdr.records.folder import RecordFolder
from tsdr.sequences import Sequences
from tsdr.truth import true_probability


def test_the_grid_of_the_synthetic_study_is_the_papers(tmp_path: Path) -> None:
    study = STUDIES["synthetic"]
    sources = [source_named(name, None, {}) for name in study.datasets]
    assert [source.gamma for source in sources if isinstance(source, Simulated)] == [0, 0.2, 0.4, 0.6, 0.8, 0.999]
    few = [Simulated(0.8, students=30, questions=10, concepts=3)]
    jobs = list(
        plan_study(study, few, BACKBONES, study.methods(LAMBDAS), RecordFolder(tmp_path), folds=2, seeds=(1, 2))
    )
    baselines = 2 + 4 + 1  # means, limits, counts
    assert len(jobs) == len({job.name for job in jobs}) == (6 * 4 + baselines) * 2 * 2
    assert {job.experiment.sequences.digest() for job in jobs if job.run.seed == 1} != {
        job.experiment.sequences.digest() for job in jobs if job.run.seed == 2
    }, "every seed has a log of its own"


def test_the_study_of_histories_judges_every_window_by_the_same_answers(tmp_path: Path) -> None:
    study, few = STUDIES["histories"], [Simulated(0.8, students=30, questions=10, concepts=3)]
    planned = plan_study(study, few, ["dkt", "simplekt"], [NAIVE], RecordFolder(tmp_path), folds=2, seeds=[1])
    at = {(job.run.backbone, job.run.options["window"]): job for job in planned}
    assert {window for backbone, window in at if backbone == "dkt"} == {50, 100, 200, "all"}
    assert {window for backbone, window in at if backbone == "simplekt"} == {50, 100, 200}, "attention has a window"
    scored = []
    for window in study.windows:
        sequences = at["dkt", window].experiment.sequences
        student = np.array(sequences.students())[sequences.student_of_scored().numpy()]
        scored.append((student.tolist(), sequences.position[sequences.scored].tolist()))
    assert all(answers == scored[0] for answers in scored)
    assert max(map(scored[0][0].count, scored[0][0])) == 49


def test_a_single_lambda_is_not_tuned() -> None:
    assert with_lambda(OWN, [2.0]) == OWN
    assert str(with_lambda(OWN, [0.5])) == "tsdr-own:smoothness=0.5"
    assert str(with_lambda(OWN, [0.5, 2])) == "tsdr-own:smoothness=0.5|2"


def test_the_ablation_tunes_the_papers_objective_and_sets_networks_beside_counts() -> None:
    methods = list(map(str, STUDIES["ablation"].methods(LAMBDAS)))
    assert "tsdr-paper:smoothness=0.1|0.3|0.5|0.7|1|2" in methods
    assert {"tsdr-own", "tsdr-own:smooth=off:joint=false", "tsdr:imputation=both:smooth=off", "tsdr"} <= set(methods)


def test_the_study_of_robustness_crosses_propensities_and_imputation_on_two_policies() -> None:
    study = STUDIES["robustness"]
    policies = [source_named(name, None, {}) for name in study.datasets]
    told = {(log.recommended, log.most_answers <= WINDOW) for log in policies if isinstance(log, Simulated)}
    assert len(told) == len(policies) == 4
    conditions = {
        (method.name, options.propensities, options.crippled)
        for method in study.methods(LAMBDAS)
        for options, _ in method.alternatives()
        if method.name != "naive"
    }
    assert len(conditions) == 2 * 3 * 2


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
    assert len(found.read()) == 1
    assert source_named("simulated-gamma0.4-50x20x5", None, {}) == Simulated(0.4, 50, 20, 5)
    assert source_named("recommended-gamma0-50x20x5", None, {}) == Simulated(0, 50, 20, 5, recommended=True)
    short = source_named("recommended-gamma0.2-50x20x5x9", None, {})
    assert short == Simulated(0.2, 50, 20, 5, most_answers=9, recommended=True)
    assert short.name == "recommended-gamma0.2-50x20x5x9"
    sequences = short.experiment(RecordFolder(tmp_path), 2, seed=1).sequences
    assert int(sequences.rows.length.max()) == len(sequences.answers) / 50 == 9
    assert isinstance(source_named("ours-gamma0.5", tmp_path, {}), MaskedAnswers)
    for name, data, told in (
        ("theirs", tmp_path, "no log theirs in it.*ours"),
        ("ours", None, "--data"),
        ("simulated-gamma7", None, "from 0 to 1"),
    ):
        with pytest.raises(InputError, match=told):
            source_named(name, data, {})


@pytest.mark.parametrize("name", ["frcsub", "math1"])
def test_the_truth_of_masked_answers_is_the_share_right_of_what_is_left_to_ask(real_logs: RealLogs, name: str) -> None:
    """Against the complete matrix itself, cell by cell, for some students; and random exposure asks nothing else."""
    complete = real_logs.read(name)
    masked = mask_responses(complete, 0.8, 5)
    sequences = Sequences.from_log(masked.log)
    probability = true_probability(sequences, masked.truth())[sequences.batch.place]
    target = expose(sequences, masked.truth(), seed=1).batch.target
    assert target is not None
    for row in np.random.default_rng(1).integers(len(sequences), size=12):
        student = sequences.student[row]
        logged = masked.log.answered.filter(pl.col("student") == student)["question"].to_list()
        for step in range(len(logged)):
            left = complete.answered.filter(pl.col("student") == student, ~pl.col("question").is_in(logged[:step]))
            share = dict(left.group_by("concept").agg(pl.col("correct").mean()).iter_rows())
            expected = [share.get(concept, float("nan")) for concept in sequences.vocabulary.concepts]
            assert probability[row, step].tolist() == pytest.approx(expected, nan_ok=True)
            assert not np.isnan(expected[int(target[row, step])])


def test_the_risk_is_over_what_is_left_to_ask(real_logs: RealLogs) -> None:
    masked = mask_responses(real_logs.read("frcsub"), 0.8, 5)
    sequences, truth = Sequences.from_log(masked.log), masked.truth()
    model = build_backbone("dkt", n_concepts=len(sequences.vocabulary.concepts), n_questions=20)
    cells = true_probability(sequences, truth)[sequences.scored].isfinite().sum()
    assert sum(true_risk(model, sequences, truth).by_student["cells"]) == cells  # type: ignore[arg-type]
    assert cells < int(sequences.batch.scored.sum()) * len(sequences.vocabulary.concepts)


def test_an_experiment_on_real_answers_is_tested_against_those_not_logged(tmp_path: Path, real_logs: RealLogs) -> None:
    log = real_logs.read("frcsub")
    path = tmp_path / "frcsub.parquet"
    log.frame.write_parquet(path)
    tested = MaskedAnswers(LogFile("frcsub", path, {}), 0.8).experiment(RecordFolder(tmp_path), 2, 1)
    assert tested.dataset == "frcsub-gamma0.8"
    assert tested.truth is not None
    assert int(tested.sequences.batch.mask.sum()) < len(log)


def test_timed_runs_are_not_held_against_the_truth(tmp_path: Path) -> None:
    few = [Simulated(0.8, students=30, questions=10, concepts=3)]
    for name, timed in (("overhead", True), ("synthetic", False)):
        planned = list(plan_study(STUDIES[name], few, ["dkt"], [NAIVE], RecordFolder(tmp_path), folds=2, seeds=[1]))
        assert {job.experiment.truth is None for job in planned} == {timed}
        assert any(job.run.backbone == "limit" for job in planned) != timed, "nor put beside anything"
