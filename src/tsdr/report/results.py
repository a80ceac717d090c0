"""The results page: every record under a folder, beside the paper's numbers, in one self-contained HTML file."""

import shlex
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tsdr.evaluation.collection import Cell, Collection, cells, collect
from tsdr.evaluation.crossval import ALL_METHODS
from tsdr.evaluation.records import Record
from tsdr.experiments.paper import BACKBONES, GAMMAS, LAMBDAS, SELECTED, STUDIES, paper_dataset, paper_numbers
from tsdr.report.html import write_page
from tsdr.report.results_charts import charts
from tsdr.report.results_names import counted, is_sample, model_names
from tsdr.report.results_tables import (
    Entry,
    observed_entries,
    observed_tables,
    paper_values,
    signed,
    true_entries,
    true_tables,
)

BASELINE = "baseline"


def write_results(folder: Path, path: Path) -> Collection:
    """Write the page of the records under a folder."""
    found = collect(folder)
    paper = paper_numbers()
    trained = [record for record in found.records if record.method != BASELINE]
    timed = cells(record for record in trained if is_timed(record))
    tested = cells(record for record in trained if not is_timed(record))
    labels = model_names(tested)
    real = [cell for cell in tested if not _has_truth(cell)]
    selected = sorted(filter(_has_truth, tested), key=_by_kind)
    on_real, on_selected, against_truth = observed_entries(real), observed_entries(selected), true_entries(selected)
    write_page(
        "results.html",
        path,
        opening=opening(found.records),
        findings=findings(on_real, on_selected, against_truth, paper),
        real=observed_tables(on_real, labels, paper),
        observed=observed_tables(on_selected, labels, paper),
        truth=true_tables(against_truth, labels),
        charts=charts(tested, timed, labels, paper),
        missing=missing(tested, timed, paper),
        account=account(found, tested, timed),
        command=shlex.join(["tsdr", "report", str(folder), "--out", str(path)]),
        versions=sorted({", ".join(f"{name} {of}" for name, of in run.versions.items()) for run in found.records}),
    )
    return found


def is_timed(record: Record) -> bool:
    """Whether a run is of the overhead study: too short to say how good a model is, and alone in its process."""
    training = record.options.get("training", {})
    return all(training.get(name) == value for name, value in STUDIES["overhead"].training.items())


def opening(records: Sequence[Record]) -> str:
    """What was run, in a sentence."""
    logs = {record.dataset: "true_bce" in record.metrics for record in records if not is_timed(record)}
    selected, real = (counted(list(logs.values()).count(truth), "log") for truth in (True, False))
    methods = {record.method.split(":")[0] for record in records} - {BASELINE}
    known = [name for name in ALL_METHODS if name in methods]
    backbones = sorted({record.backbone for record in records if record.method != BASELINE}, key=_order)
    seeds = sorted({record.seed for record in records})
    return (
        f"{counted(len(records), 'run')}: {real} as it was collected and {selected} whose truth is known; "
        f"{counted(len(backbones), 'backbone')} ({', '.join(backbones)}); {counted(len(known), 'method')} "
        f"({', '.join(known)}); {counted(len(seeds), 'seed')} ({', '.join(map(str, seeds))}), up to "
        f"{1 + max(record.fold for record in records)} folds each. Every model was tested on students that it was "
        "not trained on."
    )


def findings(
    on_real: Sequence[Entry], on_selected: Sequence[Entry], against_truth: Sequence[Entry], paper: dict[str, Any]
) -> list[str]:
    """The main findings, each a sentence worked out from the rows of the tables."""
    found = []
    for where, entries in (("On real logs", on_real), ("On logs with known truth", on_selected)):
        ours = [entry for entry in entries if entry.is_ours and entry.metric == "auc" and entry.change]
        if ours:
            found.append(f"{where}, OBSERVED: {_observed_finding(ours, paper)}")
    ours = [entry for entry in against_truth if entry.is_ours and entry.change]
    if ours:
        found.append(f"TRUE, over every concept at every step: {_true_finding(ours, against_truth)}")
    return found or ["No log has both naive training and tsdr on the same folds yet, so there is nothing to compare."]


def _observed_finding(ours: Sequence[Entry], paper: dict[str, Any]) -> str:
    gains = [entry.change.gain for entry in ours if entry.change]
    values = [paper_values(entry.cell.dataset, entry.cell.model.backbone, "auc", paper) for entry in ours]
    theirs = [known[1] - known[0] for known in values if known]
    stands = sum(entry.change.significant and entry.change.gain > 0 for entry in ours if entry.change)
    tested = sum(entry.change.p is not None for entry in ours if entry.change)
    beside = f" (the paper's: {signed(statistics.mean(theirs))} over {len(theirs)} of them)" if theirs else ""
    average = signed(statistics.mean(gains))
    marks = f" {stands} of the {tested} gains that could be tested stand after Holm's correction." if tested else ""
    return (
        f"+TSDR raises the AUC on logged answers in {sum(gain > 0 for gain in gains)} of "
        f"{counted(len(gains), 'pair')} of log and model, by {average} on average{beside}.{marks}"
    )


def _true_finding(ours: Sequence[Entry], entries: Sequence[Entry]) -> str:
    gains = [entry.change.gain for entry in ours if entry.change]
    said = (
        f"+TSDR lowers the cross-entropy in {sum(gain > 0 for gain in gains)} of {counted(len(gains), 'pair')} of log "
        f"and model, by {statistics.mean(gains):.4f} on average."
    )
    shares = {_place(entry): entry.share.share for entry in ours if entry.share and entry.share.share is not None}
    if shares:
        said += (
            f" Where there is a gap to random exposure, it closes {statistics.median(shares.values()):.0%} of it "
            f"(median of {len(shares)})"
        )
        controls = [
            entry.share.share
            for entry in entries
            if entry.method == "tsdr-unweighted" and _place(entry) in shares and entry.share
        ]
        closed = [share for share in controls if share is not None]
        said += (
            f"; the control without weights closes {statistics.median(closed):.0%} (median of {len(closed)})."
            if closed
            else "."
        )
    return said


def missing(tested: Sequence[Cell], timed: Sequence[Cell], paper: dict[str, Any]) -> list[tuple[str, str]]:
    """What of the paper's experiments has no record: the experiment, and what is lacking of it."""
    compared = [cell for cell in tested if cell.paired("naive", cell.ours() or "")[0]]
    real = {(paper_dataset(c.dataset), c.model.backbone) for c in compared if not is_sample(c.dataset)}
    simulated = {(c.dataset, c.model.backbone) for c in compared}
    lambdas = {
        (float(runs[0].options["debias"]["smoothness"]), cell.model.backbone)
        for cell in tested
        for method, runs in cell.methods.items()
        if method.split(":")[0] == "tsdr" and "tuned" not in runs[0].options and "debias" in runs[0].options
    }
    steps = {
        (method, cell.model.backbone)
        for cell in tested
        for method in cell.methods
        if method in STUDIES["ablation"].methods(LAMBDAS)
    }
    ablation = [method for method in STUDIES["ablation"].methods(LAMBDAS) if ":smooth=" in method]
    grids: list[tuple[str, Sequence[Any], set[Any]]] = [
        ("Real logs (table1)", list(paper["real"]), real),
        ("Simulated logs (synthetic)", [f"simulated-gamma{gamma:g}" for gamma in GAMMAS], simulated),
        ("λ (sensitivity)", LAMBDAS, lambdas),
        ("Ablation (ablation)", ablation, steps),
        ("Overhead (overhead)", ["time and memory"], {("time and memory", c.model.backbone) for c in timed}),
    ]
    return [(name, _lacking(rows, done)) for name, rows, done in grids]


def _lacking(rows: Sequence[Any], done: set[Any]) -> str:
    """The cells of a grid of rows and backbones that are not done."""
    lacking = {row: [name for name in BACKBONES if (row, name) not in done] for row in rows}
    cells_left = sum(map(len, lacking.values()))
    if not cells_left:
        return "everything was run."
    said = [
        f"{row}: {'all backbones' if len(names) == len(BACKBONES) else ', '.join(names)}"
        for row, names in lacking.items()
        if names
    ]
    return f"{cells_left} of {len(rows) * len(BACKBONES)} cells have no pair of runs. {'; '.join(said)}."


def account(found: Collection, tested: Sequence[Cell], timed: Sequence[Cell]) -> str:
    """What became of the files of the folder."""
    used = sum(len(runs) for cell in (*tested, *timed) for runs in cell.methods.values())
    baselines = sum(record.method == BASELINE for record in found.records)
    other = len(found.records) - used - baselines
    return (
        f"{counted(len(found.records), 'run')} were found, {baselines} of them of baselines without knowledge tracing. "
        f"{counted(found.repeated, 'file')} repeated a run and counted once; {counted(found.unread, 'JSON file')} "
        f"were no records; {counted(other, 'run')} were of a method with other options than those that are shown."
    )


def _place(entry: Entry) -> tuple[str, object]:
    return entry.cell.dataset, entry.cell.model


def _has_truth(cell: Cell) -> bool:
    return any("true_bce" in run.metrics for runs in cell.methods.values() for run in runs)


def _by_kind(cell: Cell) -> tuple[bool, str, float, object]:
    """Simulated logs first, then masked answers, each by the strength of selection."""
    name = SELECTED.fullmatch(cell.dataset)
    log, gamma = (name["log"], float(name["gamma"])) if name else (cell.dataset, 0.0)
    return log != "simulated", log, gamma, (cell.dataset, _order(cell.model.backbone), cell.model)


def _order(backbone: str) -> tuple[int, str]:
    """The paper's order, then the alphabet's."""
    return (BACKBONES.index(backbone) if backbone in BACKBONES else len(BACKBONES)), backbone
