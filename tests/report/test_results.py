import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy.stats import ttest_rel

from browser import render
from tsdr import InputError
from tsdr.methods import Method, options_of
from tsdr.metrics import Predictions, calibration, of_each_student, per_student, pooled
from tsdr.records.changes import mean
from tsdr.records.folder import RecordFolder
from tsdr.records.gap import gap_share
from tsdr.records.run import Record
from tsdr.records.significance import holm, paired_difference
from tsdr.report.results.charts import pooled_bins
from tsdr.report.results.choice import choices
from tsdr.report.results.page import write_results
from tsdr.report.results.panels import errorbar

STUDENTS, ANSWERS, CELLS, FOLDS = 40, 20, 100, 6
TUNED = "tsdr-own:smoothness=0.5|2"
# How far predictions are from the truth: what sets methods apart.
NOISE = {"naive": 1.0, "tsdr": 0.6, TUNED: 0.6, "tsdr-unweighted": 0.7, "random-exposure": 0.3, "baseline": 0.1}


def run(method: str, fold: int, *, dataset: str = "algebra05", backbone: str = "dkt", **more: Any) -> Record:
    """A run on answers that are the same for every method; some of what it came to can be given."""
    rng = np.random.default_rng([fold, len(dataset)])
    student = np.repeat(np.arange(STUDENTS), ANSWERS)
    logit = rng.normal(0, 1, len(student))
    correct = (rng.random(len(student)) < 1 / (1 + np.exp(-logit))).astype(np.int64)
    noise = NOISE.get(method, 0.8) * np.random.default_rng([fold, len(method), 7]).normal(size=len(student))
    found = Predictions(1 / (1 + np.exp(-(logit + noise))), correct, student)
    metrics: dict[str, float] = pooled(found)
    who: dict[str, list[float | None]] = {"student": [float(STUDENTS * fold + i) for i in range(STUDENTS)]}
    by_student = who | of_each_student(found)
    if "gamma" in dataset:
        bce = 0.5 + 0.1 * NOISE.get(method, 0.8) + rng.normal(0, 0.01, STUDENTS)
        metrics |= {"true_bce": float(bce.mean()), "true_rmse": 0.3, "true_auc": 0.7}
        by_student |= {"cells": [CELLS] * STUDENTS, "true_bce": (CELLS * bce).tolist()}
    about: dict[str, Any] = {
        "options": options(method),
        "seed": 1,
        "metrics": metrics,
        "per_student": per_student(found),
        "by_student": by_student,
        "calibration": calibration(found),
        "students": {"test": STUDENTS},
        "scored": 1,
        "epochs": 4,
        "best_epoch": 1,
        "seconds": 2.0 if method == "naive" else 6.0,
        "peak_memory_mib": 100 if method == "naive" else 150,
        "versions": {"tsdr": "0.1.0"},
    }
    return Record(dataset=dataset, backbone=backbone, method=Method.written(method), fold=fold, **about | more)


def options(method: str, **training: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"backbone": {"d": 64}, "training": {"max_epochs": 200} | training, "data": "one"}
    if method.startswith("tsdr"):
        changes = method.replace("0.5|2", "0.5")
        found["debias"] = options_of(changes).model_dump(mode="json")
    if "|" in method:
        found["tuned"] = {"smoothness": [0.5, 2]}
    return found


def runs(*methods: str, **more: Any) -> list[Record]:
    return [run(method, fold, **more) for method in methods for fold in range(FOLDS)]


def everything() -> list[Record]:
    """Records for every part of the page."""
    found = []
    for backbone in ("dkt", "akt"):
        found += runs("naive", TUNED, backbone=backbone)
        found += runs("naive", "tsdr", backbone=backbone, dataset="ednet_1000users")
        for gamma in ("0.2", "0.8"):
            methods = ("naive", TUNED, "tsdr-unweighted", "random-exposure")
            found += runs(*methods, backbone=backbone, dataset=f"simulated-gamma{gamma}")
        changes = ("", ":smoothness=0", ":smooth=off", ":smooth=kt", ":smooth=off:joint=false")
        changed = (f"tsdr-own{change}" for change in changes)
        found += runs(*changed, backbone=backbone, dataset="simulated-gamma0.8")
        found += runs(
            "naive", "tsdr-unweighted", "tsdr", "random-exposure", backbone=backbone, dataset="math1-gamma0.8"
        )
        for method in ("naive", "tsdr"):
            timed = options(method, max_epochs=3)
            found += runs(method, backbone=backbone, dataset="simulated-gamma0.8-512x1054x247", options=timed)
    return found


@pytest.fixture(scope="module")
def whole_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    page_of(everything(), folder)
    return folder / "report.html"


def page_of(records: Iterable[Record], folder: Path) -> str:
    for record in records:
        RecordFolder(folder / "results" / record.dataset.split("-")[0]).write(record)
    write_results(folder / "results", folder / "report.html")
    return (folder / "report.html").read_text()


def rows(page: str, title: str, group: str = "") -> dict[tuple[str, str], list[str]]:
    """The cells of a table, from its title (and one of its groups) on, by model and method."""
    part = page[page.index(f"<h3>{title}</h3>") :]
    part = part[: part.index("</table>")]
    part = part[part.index(f">{group}") :]
    part = part[: part.index("</tbody>")]
    found = {}
    for row in re.findall(r"<tr><th scope=\"row\">(.*?)</tr>", part):
        model, method, *cells = re.split(r"</th><td class=\"name\">|</td><td>|</td>", row)
        found[model, method] = cells[:-1]
    return found


def signed(value: float) -> str:
    return f"{value:+.4f}".replace("-", "−")


def chance(naive: list[Record], method: list[Record], metric: str) -> float:
    """The probability by chance, over students and over runs alike."""
    before, after = ([run.metrics[metric] for run in group] for group in (naive, method))
    return max(paired_difference(naive, method, metric).p, float(ttest_rel(after, before).pvalue))


def test_a_real_log_stands_beside_the_paper_with_interval_and_mark(tmp_path: Path) -> None:
    naive, tuned = runs("naive"), runs(TUNED)
    page = page_of([*naive, *tuned, *runs("tsdr-unweighted")], tmp_path)
    tests = {metric: paired_difference(naive, tuned, metric) for metric in ("auc", "acc", "rmse")}
    adjusted = holm([chance(naive, method, metric) for method in (tuned, runs("tsdr-unweighted")) for metric in tests])
    before, after = (np.mean([r.metrics["auc"] for r in group]) for group in (naive, tuned))
    for (metric, found), p in zip(tests.items(), adjusted, strict=False):
        cells = rows(page, "Algebra05", metric.upper())["dkt", "tsdr-own, λ tuned"]
        if metric == "auc":
            assert cells[:5] == ["0.7538", "0.7669", "+0.0131", f"{before:.4f}", f"{after:.4f}"]
        assert cells[5] == signed(found.value) + ("*" if p < 0.05 else "")
        assert cells[6] == f"{signed(found.low)} to {signed(found.high)}"
    assert adjusted[0] < 0.05, "the mark is put to the test"
    better = sum(b.metrics["rmse"] < a.metrics["rmse"] for a, b in zip(naive, tuned, strict=True))
    assert rows(page, "Algebra05", "RMSE")["dkt", "tsdr-own, λ tuned"][8] == f"{better} of {FOLDS}"
    own = np.mean([b.per_student["auc"] - a.per_student["auc"] for a, b in zip(naive, tuned, strict=True)])
    assert rows(page, "Algebra05", "AUC of a student")["dkt", "tsdr-own, λ tuned"][5] == signed(float(own))
    assert "over the 6 tests" in page
    assert (
        f"in 1 of 1 pair of log and model; the mean change over all of them is {signed(float(after - before))}" in page
    )
    assert "Of the 1 that could be tested, 1 for the better and 0 for the worse stand" in page


def test_records_of_earlier_versions_have_a_standard_error_and_no_mark(tmp_path: Path) -> None:
    naive, ours = runs("naive", by_student=None), runs("tsdr", by_student=None)
    page = page_of([*naive, *ours], tmp_path)
    gains = [b.metrics["auc"] - a.metrics["auc"] for a, b in zip(naive, ours, strict=True)]
    cells = rows(page, "Algebra05", "AUC")["dkt", "tsdr"]
    error = f"{np.std(gains, ddof=1) / np.sqrt(FOLDS):.4f}"
    assert cells[5:8] == [signed(float(np.mean(gains))), "–", error], "one kind of interval in a column"
    assert "no interval over students and no mark" in page


def test_only_the_same_folds_of_the_same_log_and_model_are_paired(tmp_path: Path) -> None:
    ours = [run("tsdr", 0), run("tsdr", 1, options=options("tsdr") | {"data": "other"})]
    light = runs("naive", options=options("naive") | {"backbone": {"d": 32}})
    page = page_of([*runs("naive"), *light, *ours], tmp_path)
    found = rows(page, "Algebra05", "AUC")
    assert found["dkt (d 64)", "tsdr"][8] == "1 of 1"
    assert found["dkt (d 32)", "–"][4] == "–"


def test_truth_is_apart_from_what_was_observed_with_the_gap_and_controls(tmp_path: Path) -> None:
    methods = ("naive", "tsdr", "tsdr-unweighted", "random-exposure")
    groups = {method: runs(method, dataset="simulated-gamma0.8") for method in methods}
    limit = runs("baseline", dataset="simulated-gamma0.8", backbone="limit")
    page = page_of([record for group in (*groups.values(), limit) for record in group], tmp_path)
    observed, true = page.split("TRUE, every concept at every step</h2>")
    title = "simulated, gamma 0.8"
    assert rows(observed, title, "AUC")["dkt", "tsdr"][:3] == ["0.6549", "0.6697", "+0.0148"]
    assert rows(observed, title, "ACC")["dkt", "tsdr-unweighted"][:3] == ["–", "–", "–"]
    found = rows(true, title)
    assert set(found) == {("dkt", name) for name in methods[1:]}
    for method in methods[1:3]:
        change = paired_difference(groups["naive"], groups[method], "true_bce")
        closed = gap_share(groups["naive"], groups[method], groups["random-exposure"], "true_bce")
        assert closed.share is not None
        assert found["dkt", method][2].startswith(signed(change.value))
        assert found["dkt", method][3] == f"{signed(change.low)} to {signed(change.high)}"
        distance = gap_share(groups["naive"], groups[method], limit, "true_bce")
        assert distance.share is not None
        assert distance.share < closed.share, "the limit is further than the oracle"
        assert found["dkt", method][6].startswith(f"{distance.share:.0%} (")
        assert found["dkt", method][7].startswith(f"{closed.share:.0%} (")
    assert f"it closes {4 / 7:.0%} (median of 1)" in page


def test_the_page_says_what_was_run_and_what_was_not(whole_page: Path) -> None:
    page = whole_page.read_text()
    assert "ednet_1000users, a sample of the paper&#39;s EdNet" in page
    assert "EdNet: all backbones" in page, "a sample is not the paper's log"
    assert "Algebra05: simplekt, folibikt, sparsekt, diskt" in page
    for title in ("OBSERVED: logged", "TRUE: every", "λ, the weight", "Ablation:", "Calibration on", "What it costs"):
        assert f"<h3>{title}" in page
    assert "2 backbones (dkt, akt)" in page
    assert f"tsdr report {whole_page.parent / 'results'} --out" in page
    assert len(page.encode()) < 1_000_000
    assert not re.search(r"(?:src|href)=\"(?!data:|#)", page)


def test_the_page_of_somebody_elses_log_does_not_speak_of_the_paper(tmp_path: Path) -> None:
    means = {"auc": 0.99, "acc": 0.9, "rmse": 0.1}
    beside = runs("baseline", dataset="database_of_ours", backbone="concept-mean")
    beside = [run.model_copy(update={"metrics": {**run.metrics, **means}}) for run in beside]
    page = page_of([*runs("naive", "tsdr", dataset="database_of_ours"), *beside], tmp_path)
    assert "cells are missing" not in page
    assert '<th scope="colgroup" colspan="3" class="side">paper' not in page
    found = rows(page, "database_of_ours", "AUC")
    assert len(found["dkt", "tsdr"]) == len(found["concept-mean", "baseline"]) == 7
    assert found["concept-mean", "baseline"][:3] == ["–", "0.9900", "–"]
    naive = np.mean([run.metrics["auc"] for run in runs("naive", dataset="database_of_ours")])
    assert "the baseline `concept-mean` is ahead of dkt by naive" in page
    assert f"dkt by naive ({naive:.4f} against 0.9900)" in page
    for target in re.findall(r'<a href="#([^"]*)"', page):
        assert page.count(f'id="{target}"') == 1


def test_where_nothing_stands_the_page_says_why(tmp_path: Path) -> None:
    page = page_of([run(method, 0) for method in ("naive", "tsdr")], tmp_path)
    assert "0 for the better and 0 for the worse stand" in page
    assert "Nothing is marked: the smallest probability by chance is 1, and 1 once it is corrected for 3 tests" in page
    assert "of which there are 1 at most" in page


def test_a_method_nearer_to_the_truth_than_the_oracle_has_no_share_of_a_gap(tmp_path: Path) -> None:
    """The oracle is named as the method is, and the other way round: what it closes is more than there is."""
    dataset = "simulated-gamma0.8"
    swapped = {"tsdr": Method("random-exposure"), "random-exposure": Method("tsdr"), "naive": Method("naive")}
    found = [run.model_copy(update={"method": swapped[str(run.method)]}) for run in runs(*swapped, dataset=dataset)]
    true = page_of(found, tmp_path).split("TRUE, every concept at every step</h2>")[1]
    assert rows(true, "simulated, gamma 0.8")["dkt", "tsdr"][7] == "past it"
    assert "there is no share to speak of" in true


def test_points_that_rest_on_other_folds_are_not_joined() -> None:
    panel = plt.subplots()[1]
    groups = [runs("naive"), runs("naive"), runs("naive")[:2]]
    errorbar(panel, [0.0, 0.5, 0.8], groups, "auc", Method("naive"))
    joined = [np.asarray(line.get_xdata()).tolist() for line in panel.lines if line.get_linestyle() == "-"]
    assert joined == [[0.0, 0.5]]


def test_figures_show_what_records_say(whole_page: Path) -> None:
    page = whole_page.read_text()
    shown = ("tsdr-own", "tsdr-own:smoothness=0", "naive")
    alone = {method: runs(method, dataset="simulated-gamma0.8") for method in shown}
    means = {method: float(np.mean([r.metrics["auc"] for r in group])) for method, group in alone.items()}
    assert f"AUC against λ: {means['tsdr-own:smoothness=0']:.4f} at 0, {means['tsdr-own']:.4f} at 2" in page
    last = means["tsdr-own"] - means["naive"]
    assert f"smooth imputation {last:+.4f}" in page, "the last step of the ablation is tsdr-own"
    assert "0.5 to 1.5" in page, "seconds of an epoch"
    assert "100 to 150" in page, "MiB"


def test_calibration_bins_are_pooled_by_their_answers() -> None:
    small = {"answers": [0.0] * 9 + [50.0], "predicted": [None] * 9 + [0.92], "right": [None] * 9 + [0.8]}
    large = {"answers": [90.0] + [0.0] * 8 + [150.0], "predicted": [0.05] + [None] * 8 + [0.96], "right": [0.1] * 10}
    predicted, right = pooled_bins([run("naive", 0, calibration=small), run("naive", 1, calibration=large)])
    assert predicted == pytest.approx([0.95])
    assert right == pytest.approx([(50 * 0.8 + 150 * 0.1) / 200])


def test_a_run_found_twice_counts_once_and_other_files_are_counted(tmp_path: Path) -> None:
    results = tmp_path / "results"
    for folder in ("one", "two", ".checkpoints"):
        for record in runs("naive", "tsdr"):
            RecordFolder(results / folder).write(record)
    (results / "notes.json").write_bytes(b'{"a": "\xff"}')
    found = write_results(results, tmp_path / "report.html")
    assert (len(found.records), found.repeated, found.unread) == (2 * FOLDS, 2 * FOLDS, 1)
    assert f"{2 * FOLDS} runs were found" in (tmp_path / "report.html").read_text()


def test_names_from_data_are_escaped(tmp_path: Path) -> None:
    page = page_of(runs("naive", "tsdr", dataset="<b>odd</b>"), tmp_path)
    assert "<b>" not in page
    assert "&lt;b&gt;odd" in page


def test_a_folder_without_records_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(InputError, match=r"no records in it \(1 JSON"):
        write_results(tmp_path, tmp_path / "report.html")
    with pytest.raises(InputError, match="no such folder"):
        write_results(tmp_path / "nowhere", tmp_path / "report.html")


@pytest.mark.parametrize("width", [390, 1200])
def test_nothing_overflows_and_nothing_is_asked_for(width: int, whole_page: Path, tmp_path: Path) -> None:
    seen = render(whole_page, width, tmp_path)
    assert seen.window <= width
    assert seen.width <= seen.window
    assert (seen.errors, seen.asked) == ([], [])


def test_the_first_thing_said_is_which_model_to_take_and_what_it_gains(tmp_path: Path) -> None:
    """dkt has less noise by tsdr than counts, in the same view; what was run on other folds is no candidate."""
    records = [
        *runs("naive", backbone="counts"),
        *runs("naive", "tsdr", backbone="dkt"),
        *(run("tsdr", 0, backbone="akt", metrics={"auc": 0.999}),),
        *runs("naive", "tsdr", backbone="dkt", dataset="alone"),
    ]
    (found,) = choices(records)
    assert (found.model, found.candidates) == ("dkt by tsdr, 50 in view", 2)
    own, plain = (mean([r for r in records[: 3 * FOLDS] if is_one(r)], "auc") for is_one in (_by_tsdr, _plain_dkt))
    assert found.by_debiasing is not None
    assert found.by_debiasing.difference == pytest.approx(own - plain)
    page = page_of(records, tmp_path)
    assert "of 1 log, the best is dkt on 1. Debiased by tsdr, that model gains on 1 of the 1 log" in page
    assert page.index("Which model for a log like mine") < page.index("OBSERVED: +TSDR")


def _by_tsdr(record: Record) -> bool:
    return str(record.method) == "tsdr"


def _plain_dkt(record: Record) -> bool:
    return record.backbone == "dkt" and str(record.method) == "naive"


def test_views_of_a_log_compete_where_they_are_judged_by_the_same_answers(tmp_path: Path) -> None:
    """More in view is another candidate if it is judged by the same answers, as records say it; else it is left out."""
    short, long = ({**options("naive"), "window": 50}, {**options("naive"), "window": 200, "scored": 49, "data": "two"})
    judged_otherwise = {**options("naive"), "window": 200, "data": "two"}
    best = {"metrics": {"auc": 0.99}}
    records = [*runs("naive", backbone="counts", options=short), *runs("naive", backbone="hybrid", options=short)]
    (found,) = choices([*records, *runs("naive", backbone="hybrid", options=judged_otherwise, **best)])
    assert found.model.endswith("50 in view")
    (found,) = choices([*records, *runs("naive", backbone="hybrid", options=long, **best)])
    assert found.model == "hybrid, 200 in view"
    assert found.over_counts is not None
    assert found.over_counts.difference == pytest.approx(0.99 - mean(records[:FOLDS], "auc"))
