import json
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
import pytest
from torch import Tensor

from tsdr import Batch, Log, fit, load, read_log, register_backbone, simulate
from tsdr.backbones.dkt import DKT
from tsdr.cli import main
from tsdr.files import alone
from tsdr.judging.trained import judge
from tsdr.report.progress import TrainingProgress
from tsdr.serving.store import Store
from tsdr.training.epoch import Epoch
from tsdr.training.options import TrainingOptions


class Run(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def tsdr(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Run]:
    """Run a command as its user does, its output piped."""
    monkeypatch.setenv("COLUMNS", "80")

    def run(*arguments: str | Path) -> Run:
        monkeypatch.setattr(sys, "argv", ["tsdr", *map(str, arguments)])
        try:
            main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        return Run(code, *capsys.readouterr())

    return run


@pytest.fixture(scope="module")
def csv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("csv") / "their log.csv"
    rows = [f"u{s},i{i},{i % 3};{i % 2},{(s + i) % 2},2024-05-{i + 1:02}" for s in range(5) for i in range(6)]
    path.write_text("user_id,item,skills,score,day\n" + "\n".join(rows))
    return path


MAPPING = ["--column=student=user_id", "--column=question=item", "--column=concept=skills", "--column=correct=score"]


def test_inspect_reads_a_users_own_columns(csv: Path, tsdr: Callable[..., Run]) -> None:
    run = tsdr("inspect", csv, *MAPPING, "--column", "time=day", "--concept-separator", ";")
    assert run.code == 0, run.err
    assert "students               5" in run.out
    assert "share right            50.0%" in run.out
    assert "Nothing looks wrong" in run.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--column", "time=when"], "'when', for our 'time', is missing"),
        (["--column", "student=item"], "both mapped to 'student'"),
        (["--column", "student"], "equals sign"),
        (["--column", "time=skills"], "mapped to both"),
        (["--separator", "\t"], "separated by something else"),
        (["--colum", "x=y"], "No such option"),
    ],
)
def test_bad_input_ends_in_one_sentence_and_exit_code_2(
    csv: Path, arguments: list[str], words: str, tsdr: Callable[..., Run]
) -> None:
    run = tsdr("inspect", csv, *MAPPING, *arguments)
    assert run.code == 2
    assert words in " ".join(run.err.replace("│", " ").split())
    assert "Traceback" not in run.err


def test_simulate_writes_the_folder(tmp_path: Path, tsdr: Callable[..., Run]) -> None:
    run = tsdr("simulate", "--gamma", "0.8", "--students", "30", "--seed", "4", "--out", tmp_path / "sim")
    assert run.code == 0, run.err
    log = read_log(tmp_path / "sim" / "log.parquet")
    assert f"{len(log):,} interactions" in run.out
    assert np.load(tmp_path / "sim" / "truth.npz")["length"].sum() == len(log)
    again = tsdr("simulate", "--gamma", "0", "--recommender", "--students", "30", "--out", tmp_path / "sim")
    assert "and 0 skipped offers" in again.out


def test_simulate_refuses_what_cannot_be(tmp_path: Path, tsdr: Callable[..., Run]) -> None:
    assert tsdr("simulate", "--gamma", "2", "--out", tmp_path).code == 2
    run = tsdr("simulate", "--concepts", "300", "--out", tmp_path)
    assert run.code == 2
    assert "300 concepts need as many questions" in run.err
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("simulated")
    simulate(students=60, questions=20, concepts=4).write(folder)
    return folder / "log.parquet"


def test_fit_writes_a_bundle_that_can_be_audited(simulated: Path, tmp_path: Path, tsdr: Callable[..., Run]) -> None:
    out = tmp_path / "model"
    run = tsdr("fit", simulated, "--backbone", "dkt", "--out", out, "--window", "10", "--validation", "0.2")
    assert run.code == 0, run.err
    assert "on 12 students" in run.out
    said = " ".join(run.out.split())
    account = load(out).training["account"]
    assert f"answers of the log {account['answers']:,} learned from {account['learned_from']:,}" in said
    assert f"left out, cut off by the window {account['earlier']:,}" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]
    audit = tsdr("audit", "--model", out)
    assert audit.code == 0
    assert audit.out.count("pass") == 18
    assert "Right answers lower mastery of" in audit.out


def test_an_interrupted_fit_is_resumed_to_the_same_model(
    simulated: Path, tmp_path: Path, tsdr: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("fit", simulated, "--backbone", "dkt", "--window", "10", "--validation", "0.2", "--out")
    whole = tsdr(*arguments, tmp_path / "whole")

    def interrupt(self: TrainingProgress, epoch: Epoch, of: str = "") -> None:
        if epoch.number == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(TrainingProgress, "epoch", interrupt)
        stopped = tsdr(*arguments, tmp_path / "stopped")
    assert stopped.code != 0
    assert "--resume" in stopped.err
    assert not (tmp_path / "stopped").exists()
    resumed = tsdr(*arguments, tmp_path / "stopped", "--resume")
    assert resumed.out.split(": ")[-1] == whole.out.split(": ")[-1]
    digests = [load(tmp_path / name).bundle.digest for name in ("whole", "stopped")]
    assert digests[0] == digests[1] is not None


WRITING = {
    "fit": ["fit", "{log}", "--backbone", "counts", "--method", "naive", "--out", "{there}/model"],
    "compare": ["compare", "{log}", "--backbone", "counts", "--methods", "naive", "--folds", "2", "--out", "{there}"],
    "predict": ["predict", "{bundle}", "{log}", "--out", "{there}/p.parquet"],
    "predict as text": ["predict", "{bundle}", "{log}", "--out", "{there}/p.csv"],
}


@pytest.mark.parametrize("command", WRITING)
def test_what_cannot_be_written_is_said_in_a_sentence_and_not_written_in_part(
    command: str, simulated: Path, bundle: Path, tmp_path: Path, tsdr: Callable[..., Run]
) -> None:
    def run(there: Path) -> Run:
        return tsdr(*(part.format(log=simulated, bundle=bundle, there=there) for part in WRITING[command]))

    least, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, most))  # as on a disk that is full, the system refuses the rest
    try:
        full = run(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (least, most))
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    nowhere = run(Path("/proc/nowhere"))  # a folder that nobody may write to
    for refused in (full, nowhere):
        assert refused.code == 2, refused
        assert "cannot be written" in refused.err
        assert len(refused.err.splitlines()) == 1, refused.err


def test_a_second_fit_into_a_folder_is_refused(simulated: Path, tmp_path: Path, tsdr: Callable[..., Run]) -> None:
    with alone(tmp_path / ".model.fitting", ""):
        second = tsdr("fit", simulated, "--out", tmp_path / "model")
    assert second.code == 2
    assert "is being fitted by another command" in second.err
    assert not list(tmp_path.iterdir())


def test_fit_leaves_a_bundle_alone_unless_it_is_to_take_its_place(
    simulated: Path, bundle: Path, tmp_path: Path, tsdr: Callable[..., Run]
) -> None:
    out = tmp_path / "model"
    shutil.copytree(bundle, out)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    arguments = ("fit", simulated, "--backbone", "counts", "--method", "naive", "--out", out)
    refused = tsdr(*arguments)
    assert refused.code == 2
    assert "is a bundle already" in refused.err
    assert "--replace" in refused.err
    finished = tsdr(*arguments, "--resume")
    assert finished.code == 0
    assert "is finished" in finished.out
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert tsdr(*arguments, "--replace").code == 0
    assert load(out).bundle.backbone == "counts"


def test_evaluate_judges_trained_models_by_the_same_answers(
    simulated: Path, bundle: Path, tmp_path: Path, tsdr: Callable[..., Run]
) -> None:
    """One of them does not know a concept: then neither is judged by it."""
    log = read_log(simulated)
    few = log.frame.filter(pl.col("concept") != "c1")
    few.write_parquet(tmp_path / "few.parquet")
    fit(Log(few), backbone="counts", method="naive").save(tmp_path / "new")
    run = tsdr("evaluate", simulated, "--model", bundle, "--model", tmp_path / "new")
    assert run.code == 0, run.err
    assert f"{len(few):,} answers of {len(log.students)} students; {len(log) - len(few):,} more" in run.out
    judged = judge(log, [load(bundle), load(tmp_path / "new")])
    old, new = judged.metrics
    for metric, change in judged.changes[0].items():
        assert change.value == pytest.approx(new[metric] - old[metric])
        assert change.low < change.value < change.high
        assert f"{metric} {change.value:+.4f} (95 %" in run.out
    same = judge(log, [load(bundle), load(bundle)]).changes[0]
    assert {(change.low, change.value, change.high) for change in same.values()} == {(0, 0, 0)}
    refused = tsdr("evaluate", simulated, "--model", bundle, "--folds", "3")
    assert refused.code == 2
    assert "leave out --folds" in refused.err


def test_the_version_is_said(tsdr: Callable[..., Run]) -> None:
    assert tsdr("--version").out == f"tsdr {version('tsdr')}\n"


def test_evaluate_writes_a_record_a_fold_and_shows_baselines(
    simulated: Path, tmp_path: Path, tsdr: Callable[..., Run]
) -> None:
    arguments = ("evaluate", simulated, "--backbone", "dkt", "--folds", "2", "--window", "10", "--out", tmp_path)
    run = tsdr(*arguments, "--name", "sim")
    assert run.code == 0, run.err
    for name in ("global-mean", "concept-mean", "counts", "dkt"):
        assert name in run.out
    records = [json.loads(path.read_text()) for path in tmp_path.glob("sim-dkt-tsdr-*.json")]
    assert sorted(record["fold"] for record in records) == [0, 1]
    assert set(records[0]["metrics"]) == {"auc", "acc", "rmse", "log_loss", "ece"}
    again = tsdr(*arguments, "--name", "sim")
    assert again.out.splitlines()[-8:] == run.out.splitlines()[-8:]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["audit"], "name a backbone"),
        (["audit", "akkt"], "no backbone 'akkt'"),
        (["audit", "--model", "nowhere"], "bundle.json is missing"),
    ],
)
def test_audit_refuses_what_it_cannot_audit(arguments: list[str], words: str, tsdr: Callable[..., Run]) -> None:
    run = tsdr(*arguments)
    assert run.code == 2
    assert words in run.err


def test_fit_looks_before_it_trains(simulated: Path, tmp_path: Path, tsdr: Callable[..., Run]) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    run = tsdr("fit", simulated, "--backbone", "dkt", "--out", tmp_path)
    assert run.code == 2
    assert "other things" in run.err
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    for arguments, words in ((("--size", "huge"), "no size 'huge'"), (("--method", "tdsr"), "no method 'tdsr'")):
        run = tsdr("fit", simulated, "--backbone", "dkt", "--out", tmp_path / "new", *arguments)
        assert run.code == 2
        assert words in run.err
    assert tsdr("evaluate", simulated, "--backbone", "akkt", "--out", tmp_path / "records").code == 2
    assert not (tmp_path / "records").exists()


def test_compare_shows_logged_answers_and_the_truth_and_goes_on_where_it_stopped(
    simulated: Path, tmp_path: Path, tsdr: Callable[..., Run]
) -> None:
    arguments = ("--backbone", "dkt", "--folds", "2", "--window", "10", "--out", tmp_path)
    run = tsdr("compare", simulated.parent, "--methods", "naive,tsdr,random-exposure", *arguments, "--name", "sim")
    assert run.code == 0, run.err
    assert "true_bce" in run.out
    assert "to the best possible predictor" in run.out
    assert "to random exposure" in run.out
    assert "change against naive on the same folds" in run.out
    records = [json.loads(path.read_text()) for path in tmp_path.glob("sim-*.json")]
    trained = [record["method"] for record in records if record["backbone"] == "dkt"]
    assert sorted(trained) == ["naive"] * 2 + ["random-exposure"] * 2 + ["tsdr"] * 2
    beside = {record["backbone"] for record in records} - {"dkt"}
    assert {"global-mean", "concept-mean", "counts", "limit", "limit-whole-skips"} <= beside
    assert "error of mean success" in run.out
    for record in records:
        metrics = {"auc", "acc", "rmse", "log_loss", "ece", "true_bce", "true_rmse", "true_auc"}
        more = {name for name in record["metrics"] if name.startswith(("logged_mean", "imputed_mean"))}
        assert set(record["metrics"]) == metrics | more
        assert bool(more) == (record["method"] == "tsdr"), "what is imputed is held against the truth, too"
    written = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.json")}
    again = tsdr("compare", simulated.parent, "--methods", "naive,tsdr", *arguments, "--name", "sim")
    assert again.code == 0
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.json")} == written
    on_a_log = tsdr("compare", simulated, "--methods", "naive", *arguments)
    assert "true_bce" not in on_a_log.out
    reported = tsdr("report", tmp_path, "--out", tmp_path / "page.html")
    assert f"{len(list(tmp_path.glob('*.json')))} runs" in reported.out, reported.err
    assert "raises the AUC on logged answers in" in (tmp_path / "page.html").read_text()
    assert tsdr("compare", simulated, "--methods", "random-exposure", *arguments).code == 2
    for wrong in ("naive,tsdrr", "naive,", "naive,tsdr:alhpa=1", "naive,tsdr:alpha=-1"):
        refused = tsdr("compare", simulated, "--methods", wrong, *arguments, "--seed", "7")
        assert refused.code == 2
        assert "fold" not in refused.out, "nothing is trained before all methods are known to be"


def test_report_says_when_there_are_no_records(tmp_path: Path, tsdr: Callable[..., Run]) -> None:
    refused = tsdr("report", tmp_path, "--out", tmp_path / "page.html")
    assert refused.code == 2
    assert "there are no records in it" in refused.err
    assert not (tmp_path / "page.html").exists()


def test_reproduce_runs_a_study_once_and_report_shows_it(tmp_path: Path, tsdr: Callable[..., Run]) -> None:
    """Three epochs a run, each in a process of its own."""
    small = ("--datasets", "simulated-gamma0.8-40x12x3", "--backbones", "dkt", "--folds", "2", "--seeds", "5,5")
    run = tsdr("reproduce", "overhead", *small, "--out", tmp_path / "results")
    assert run.code == 0, run.err
    assert "4 runs, 0 of them done" in run.out, "a seed that is named twice is run once"
    records = [json.loads(path.read_text()) for path in (tmp_path / "results").glob("*.json")]
    assert {(record["method"], record["fold"]) for record in records} == {
        (m, f) for m in ("naive", "tsdr") for f in (0, 1)
    }
    assert {record["epochs"] for record in records} == {3}
    for cost in ("seconds", "peak_memory_mib"):
        naive, tsdr_ = (sum(r[cost] for r in records if r["method"] == method) for method in ("naive", "tsdr"))
        assert f" {tsdr_ / naive:.2f} " in run.out, "what it costs, not what three epochs reach"
    again = tsdr("reproduce", "overhead", *small, "--out", tmp_path / "results")
    assert "4 runs, 4 of them done" in again.out
    assert tsdr("report", tmp_path / "results", "--out", tmp_path / "page.html").code == 0
    assert "memory" in (tmp_path / "page.html").read_text()
    for wrong, told in (
        (("tabel1",), "there is no study 'tabel1'"),
        (("synthetic", "--lambdas", "much"), "give numbers"),
        (("synthetic", "--address", "127.0.0.1:1"), "--address is of the ray engine"),
        (("overhead", "--engine", "ray"), "alone on the machine"),
    ):
        refused = tsdr("reproduce", *wrong, "--out", tmp_path / "nothing")
        assert refused.code == 2
        assert told in refused.err
    assert not (tmp_path / "nothing").exists()


def test_diagnose_writes_a_page_and_its_numbers(simulated: Path, tmp_path: Path, tsdr: Callable[..., Run]) -> None:
    page = tmp_path / "page.html"
    run = tsdr("diagnose", simulated.parent, "--out", page, "--window", "10")
    assert run.code == 0, run.err
    numbers = json.loads((tmp_path / "page.json").read_text())
    assert numbers["verdict"]["headline"] in run.out
    assert numbers["subject"]["skipped_offers"] > 0, "a simulated folder has the offers that were skipped"
    assert "rest on the selection and imputation models" in run.out
    assert str(page) in run.out
    assert "<svg" in page.read_text()
    model = tmp_path / "model"
    assert tsdr("fit", simulated, "--backbone", "dkt", "--out", model, "--window", "10").code == 0
    run = tsdr("diagnose", simulated, "--model", model, "--out", page)
    assert run.code == 0, run.err
    assert "may have been trained on these very students" in page.read_text()
    assert load(model).bundle.diagnosis == json.loads((tmp_path / "page.json").read_text())
    refused = tsdr("diagnose", simulated, "--out", page, "--minimum", "190")
    assert refused.code == 2
    assert "a diagnosis needs 40" in refused.err


@pytest.fixture(scope="module")
def bundle(simulated: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle") / "model"
    training = TrainingOptions(max_epochs=1, device="cpu")
    fit(read_log(simulated), backbone="dkt", method="naive", window=10, training=training).save(folder)
    return folder


def test_predict_and_mastery_write_tables(
    simulated: Path, bundle: Path, tmp_path: Path, tsdr: Callable[..., Run]
) -> None:
    log = read_log(simulated)
    run = tsdr("predict", bundle, simulated, "--out", tmp_path / "predictions.parquet")
    assert run.code == 0, run.err
    predicted = pl.read_parquet(tmp_path / "predictions.parquet")
    assert predicted.equals(load(bundle).predict_log(log))
    assert predicted["row"].to_list() == list(range(1, len(log) + 1)), "as they are in the file"
    run = tsdr("mastery", bundle, simulated, "--out", tmp_path / "mastery.csv")
    assert run.code == 0, run.err
    assert f"mean over {len(log.students):,} students" in run.out
    written = pl.read_csv(tmp_path / "mastery.csv")
    assert written.height == len(log.students) * log.frame["concept"].n_unique()
    assert written.columns[3:] == ["answers", "skips", "training_answers", "little_evidence"]
    run = tsdr("mastery", bundle, simulated, "--student", log.students[3])
    assert f"student {log.students[3]}" in run.out


def test_a_model_that_learned_without_skips_says_once_that_it_ignores_them(
    simulated: Path, bundle: Path, tmp_path: Path, tsdr: Callable[..., Run]
) -> None:
    answers = read_log(simulated)
    offers = answers.frame.with_columns(skipped=pl.int_range(pl.len()) % 5 == 0)
    Log(offers.with_columns(correct=pl.when(~pl.col("skipped")).then("correct"))).write(tmp_path / "offers.parquet")
    run = tsdr("predict", bundle, tmp_path / "offers.parquet", "--out", tmp_path / "predictions.parquet")
    assert run.code == 0, run.err
    assert run.err.split("\n") == ["warning: the model was trained without skipped offers, and ignores them", ""]
    assert pl.read_parquet(tmp_path / "predictions.parquet").height == len(answers) - (len(answers) + 4) // 5


def test_explain_says_what_a_model_of_counts_has_found_out(
    simulated: Path, bundle: Path, tmp_path: Path, tsdr: Callable[..., Run]
) -> None:
    model = tmp_path / "counts"
    assert tsdr("fit", simulated, "--backbone", "counts", "--method", "naive", "--out", model).code == 0
    run = tsdr("explain", model)
    assert run.code == 0, run.err
    for part in ("The hardest questions", "The easiest questions", "after one right"):
        assert part in run.out
    refused = tsdr("explain", bundle)
    assert refused.code == 2
    assert "is a dkt" in refused.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["predict", "{bundle}", "{csv}", *MAPPING, "--out", "p.parquet"], "is not in the vocabulary"),
        (["predict", "{bundle}", "{log}", "--out", "p.xlsx"], "ends in .parquet or .csv"),
        (["mastery", "{bundle}", "{log}", "--student", "nobody"], "there is no student 'nobody'"),
        (["predict", "{log}", "{log}", "--out", "p.parquet"], "is not a bundle"),
        (["enroll", "{log}", "--store", "students.db"], "is not a store"),
        (["serve", "{bundle}", "--store", "sqlite:////nowhere/students.db"], "cannot be used as a store"),
        (["serve", "{bundle}", "--host", "my machine"], "give an address"),
        (["export", "{log}", "--onnx", "m.onnx"], "is not a bundle"),
    ],
)
def test_what_cannot_be_served_is_a_sentence(
    arguments: list[str],
    words: str,
    simulated: Path,
    csv: Path,
    bundle: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tsdr: Callable[..., Run],
) -> None:
    monkeypatch.chdir(tmp_path)
    run = tsdr(*(part.format(bundle=bundle, csv=csv, log=simulated) for part in arguments))
    assert run.code == 2, run
    assert words in " ".join(run.err.split())
    assert not list(tmp_path.glob("p.*"))


def test_a_bundle_with_an_odd_diagnosis_is_not_served(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tsdr: Callable[..., Run]
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(bundle, tmp_path / "odd")
    odd = replace(load(bundle).bundle, diagnosis={"verdict": {"headline": "<script>alert(1)</script>"}})
    odd.write_diagnosis(tmp_path / "odd")
    run = tsdr("serve", tmp_path / "odd")
    assert run.code == 2
    assert "diagnosis cannot be read" in run.err


def test_a_log_goes_into_the_store_once_and_comes_back(
    simulated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tsdr: Callable[..., Run]
) -> None:
    monkeypatch.chdir(tmp_path)
    log = read_log(simulated)
    assert f"{len(log):,} answers of {len(log.students):,} students added" in tsdr("enroll", simulated).out
    assert f"0 answers of {len(log.students):,} students added" in tsdr("enroll", simulated).out
    assert tsdr("collect", "--out", "new").code == 0
    back = read_log(tmp_path / "new" / "log.parquet")
    assert back.frame.drop("time", "event", "acknowledged").equals(log.frame.drop("time"))
    assert pl.read_parquet(tmp_path / "new" / "offers.parquet").height == 0


def test_a_later_log_adds_what_is_new_and_names_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tsdr: Callable[..., Run]
) -> None:
    monkeypatch.chdir(tmp_path)
    header = "student,concept,correct,time\n"
    (tmp_path / "one.csv").write_text(header + "ada,c,1,1700000000000\nada,c,1,1700000001000\n")
    (tmp_path / "two.csv").write_text(header + "ada,c,1,1700000001000\nada,c,1,1700000002000\nada,d,0,1700000002000\n")
    assert "2 answers of 1 students added" in tsdr("enroll", "one.csv").out
    assert "2 answers of 1 students added" in tsdr("enroll", "two.csv").out
    assert tsdr("collect", "--out", "new").code == 0
    back = read_log(tmp_path / "new" / "log.parquet").frame
    assert back["concept"].to_list() == ["c", "c", "c", "d"]
    assert back["time"].to_list() == [1.7e9, 1.7e9 + 1, 1.7e9 + 2, 1.7e9 + 2]
    (tmp_path / "odd.csv").write_text(header + "ben,c,1,1\nclass/7,c,1,1\n")
    run = tsdr("enroll", "odd.csv")
    assert run.code == 2
    assert "student 'class/7'" in run.err
    assert Store("sqlite:///students.db").find("ben") is None


def test_audit_exits_with_1_for_a_leaking_model(tsdr: Callable[..., Run]) -> None:
    @register_backbone("leaking")
    class Leaking(DKT):
        def forward(self, batch: Batch) -> Tensor:
            return super().forward(batch) + batch.correct

    run = tsdr("audit", "leaking")
    assert run.code == 1
    assert "own answer unseen" in run.out
    assert "FAIL" in run.out


def test_a_folder_that_cannot_be_made_is_a_sentence(tmp_path: Path, tsdr: Callable[..., Run]) -> None:
    (tmp_path / "[file]").write_text("in the way")
    run = tsdr("simulate", "--students", "5", "--out", tmp_path / "[file]" / "sim")
    assert run.code == 2
    assert "[file]" in run.err
    assert "Traceback" not in run.err


def test_the_installed_command_runs_the_demo_and_leaves_a_log_records_and_pictures(tmp_path: Path) -> None:
    command = Path(sys.executable).with_name("tsdr")
    run = subprocess.run(
        [command, "demo", "--out", "demo", "--students", "60"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    for picture in ("selection.png", "comparison.png"):
        assert (tmp_path / "demo" / picture).stat().st_size > 10_000
    methods = {json.loads(path.read_text())["method"] for path in (tmp_path / "demo" / "records").glob("*.json")}
    assert methods == {"baseline", "naive", "tsdr"}
    assert "to the best possible predictor" in run.stdout
    assert (tmp_path / "demo" / "log" / "truth.npz").exists()
    assert "skipped offers" in run.stdout
    assert "serve demo/model --store sqlite:///demo/students.db" in run.stdout
    served = load(tmp_path / "demo" / "model")
    assert served.bundle.diagnosis is not None
    assert Store(f"sqlite:///{tmp_path / 'demo' / 'students.db'}").count() == 60
