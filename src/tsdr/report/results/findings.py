"""What the results page says in sentences: what was run, what was found, what is missing."""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from tsdr.methods import BASELINE, NAIVE, NAMES, UNWEIGHTED
from tsdr.paper import ABLATION, BACKBONES, GAMMAS, LAMBDAS, is_sample, paper_dataset
from tsdr.records.baselines import JUDGED, behind
from tsdr.records.collection import Cell, Collection
from tsdr.records.run import LogName, Record
from tsdr.report.results.charts import by_smoothness
from tsdr.report.results.names import counted, is_papers, place_of_backbone
from tsdr.report.results.tables import Entry, Paper, paper_values, signed, why_nothing_stands


def opening(records: Sequence[Record]) -> str:
    """What was run, in a sentence."""
    logs = {record.dataset: record.has_truth for record in records if not record.timed}
    selected, real = (list(logs.values()).count(truth) for truth in (True, False))
    methods = {record.method.name for record in records} - {BASELINE.name}
    known = [name for name in NAMES if name in methods]
    backbones = sorted({record.backbone for record in records if not record.method.is_baseline}, key=place_of_backbone)
    seeds = sorted({record.seed for record in records})
    return (
        f"{counted(len(records), 'run')}: {counted(real, 'real log')} and {counted(selected, 'log')} with known "
        "truth; "
        f"{counted(len(backbones), 'backbone')} ({', '.join(backbones)}); {counted(len(known), 'method')} "
        f"({', '.join(known)}); {counted(len(seeds), 'seed')} ({', '.join(map(str, seeds))}), up to "
        f"{1 + max(record.fold for record in records)} folds each. Every model was tested on students that it was "
        "not trained on."
    )


def findings(
    on_real: Sequence[Entry], on_selected: Sequence[Entry], against_truth: Sequence[Entry], paper: Paper
) -> list[str]:
    """The main findings, each a sentence worked out from the rows of the tables."""
    found = []
    for where, entries in (("On real logs", on_real), ("On logs with known truth", on_selected)):
        ours = [entry for entry in entries if entry.is_ours and entry.metric == "auc" and entry.change]
        if ours:
            tests = sum(entry.change is not None and entry.change.p is not None for entry in entries)
            found.append(f"{where}, OBSERVED: {_observed_finding(ours, paper, tests)}")
    ours = [entry for entry in against_truth if entry.is_ours and entry.change]
    if ours:
        found.append(f"TRUE, over every concept at every step: {_true_finding(ours, against_truth)}")
    return found or ["No log has both naive training and tsdr on the same folds yet, so there is nothing to compare."]


def _observed_finding(ours: Sequence[Entry], paper: Paper, tests: int) -> str:
    changes = [entry.change for entry in ours if entry.change]
    values = [paper_values(entry.cell.log, entry.cell.model.backbone, "auc", paper) for entry in ours]
    theirs = [known[1] - known[0] for known in values if known]
    won, lost = (sum(found.significant and sign * found.gain > 0 for found in changes) for sign in (1, -1))
    tested = sum(found.p is not None for found in changes)
    beside = f" (the paper's: {signed(statistics.mean(theirs))} over {len(theirs)} of them)" if theirs else ""
    marks = (
        f" Of the {tested} that could be tested, {won} for the better and {lost} for the worse stand after Holm's "
        "correction."
        if tested
        else ""
    )
    why = "".join(f" {reason}" for reason in why_nothing_stands(changes, tests))
    return (
        f"+TSDR raises the AUC on logged answers in {sum(found.gain > 0 for found in changes)} of "
        f"{counted(len(changes), 'pair')} of log and model; the mean change over all of them is "
        f"{signed(statistics.mean(found.difference for found in changes))}{beside}.{marks}{why}"
    )


def _true_finding(ours: Sequence[Entry], entries: Sequence[Entry]) -> str:
    changes = [entry.change for entry in ours if entry.change]
    said = (
        f"+TSDR lowers the cross-entropy in {sum(found.gain > 0 for found in changes)} of "
        f"{counted(len(changes), 'pair')} of log and model; the mean change over all of them is "
        f"{signed(statistics.mean(found.difference for found in changes))}."
    )
    closed = _shares(ours)
    if closed:
        said += f" Of the gap to random exposure, where there is one, it closes {_median(closed.values())}."
    control = _shares([entry for entry in entries if entry.method == UNWEIGHTED])
    both = [place for place in closed if place in control]
    if both:
        said += (
            f" Where the control without weights was run, too: {_median([closed[place] for place in both])}, and "
            f"by the control {_median([control[place] for place in both])}."
        )
    return said


def _shares(entries: Sequence[Entry]) -> dict[object, float]:
    return {
        (entry.cell.dataset, entry.cell.model): entry.share.share
        for entry in entries
        if entry.share and entry.share.share is not None
    }


def _median(shares: Iterable[float]) -> str:
    found = list(shares)
    middle = statistics.median(found)
    return f"{'all, and goes past it' if middle > 1 else f'{middle:.0%}'} (median of {len(found)})"


def behind_baselines(records: Sequence[Record]) -> list[str]:
    """The models that a baseline is ahead of, a sentence for each log and measure."""
    told: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for found in behind(record for record in records if not record.timed):
        model = f"{found.backbone} by {found.method} ({found.own:.4f} against {found.ahead:.4f})"
        told[found.log, JUDGED[found.metric], found.baseline].append(model)
    return [
        f"{log}, {what}: {baseline} is ahead of {', '.join(models)}." for (log, what, baseline), models in told.items()
    ]


def missing(tested: Sequence[Cell], timed: Sequence[Cell], paper: Paper) -> list[tuple[str, str]]:
    """What of the paper's experiments has no record: the experiment, and what is lacking of it.

    Nothing is said where none of them was begun: these are then somebody else's logs.
    """
    of_paper = [cell for cell in tested if is_papers(cell.log)]
    compared = [cell for cell in of_paper if cell.paired(NAIVE, cell.ours())[0]]
    real = {(paper_dataset(c.dataset), c.model.backbone) for c in compared if not is_sample(c.dataset)}
    simulated = {(c.dataset, c.model.backbone) for c in compared}
    lambdas = {(value, cell.model.backbone) for cell in of_paper for value in by_smoothness(cell)}
    steps = {(method, cell.model.backbone) for cell in of_paper for method in cell.methods}
    grids: list[tuple[str, Sequence[Any], set[Any]]] = [
        ("Real logs (table1)", list(paper["real"]), real),
        ("Simulated logs (synthetic)", [str(LogName.simulated(gamma)) for gamma in GAMMAS], simulated),
        ("λ (sensitivity)", LAMBDAS, lambdas),
        ("Ablation (ablation)", ABLATION, steps),
        ("Overhead (overhead)", ["time and memory"], {("time and memory", c.model.backbone) for c in timed}),
    ]
    return [(name, _lacking(rows, done)) for name, rows, done in grids] if of_paper or timed else []


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
    return f"{cells_left} of {len(rows) * len(BACKBONES)} cells are missing. {'; '.join(said)}."


def account(found: Collection, tested: Sequence[Cell], timed: Sequence[Cell]) -> str:
    """What became of the files of the folder."""
    used = sum(len(runs) for cell in (*tested, *timed) for runs in cell.methods.values())
    baselines = sum(record.method.is_baseline for record in found.records)
    other = len(found.records) - used - baselines
    return (
        f"{counted(len(found.records), 'run')} were found, {baselines} of them of baselines without knowledge tracing. "
        f"{counted(found.repeated, 'file')} repeated a run and counted once; {counted(found.unread, 'JSON file')} "
        f"were no records; {counted(other, 'run')} were of a method with other options than those that are shown."
    )
