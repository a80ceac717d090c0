"""The tables of the results page: what was measured on logged answers and against the truth, and what was estimated."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import isfinite
from typing import Any

from tsdr.diagnosis.findings import RESTS_ON
from tsdr.methods import NAIVE, NAMES, ORACLE, Method
from tsdr.paper import paper_dataset
from tsdr.records.changes import OWN_AUC, SIGNIFICANT, Change, change, corrected, mean
from tsdr.records.collection import Cell, Setup, on_common_folds
from tsdr.records.gap import GapShare, gap_share
from tsdr.records.run import ESTIMATED, LogName, Record
from tsdr.records.significance import has_sums
from tsdr.report.results.names import METRIC_NAMES, basis, counted, log_name, method_name, seeds_by_folds

OBSERVED = ("auc", "acc", "rmse", OWN_AUC)
NOTHING = "–"
PAST = "past it"
MARK = "*"
_PAPERS = ("original", "+TSDR", "change")
_OURS = ("original", "method", "change", "95 % interval", "± se over runs", "better in")
Paper = dict[str, Any]
Labels = dict[tuple[str, Setup], str]


@dataclass(frozen=True)
class Entry:
    """A row: a method beside naive training on one log, for one metric; without a method, naive training alone."""

    cell: Cell
    metric: str
    method: Method | None
    runs: list[Record]
    change: Change | None
    share: GapShare | None = None
    distance: GapShare | None = None

    @property
    def is_ours(self) -> bool:
        """Whether the method is tsdr as it is meant to be used."""
        return self.method is not None and self.method == self.cell.ours()


@dataclass(frozen=True)
class Table:
    """Cells of text under a header of two rows, in named groups of rows."""

    title: str
    spans: list[tuple[str, int]]
    header: list[str]
    groups: list[tuple[str, list[list[str]]]]
    notes: list[str]
    caption: str


def observed_entries(cells: Iterable[Cell]) -> list[Entry]:
    """Every method beside naive training on logged answers, with Holm's correction over all of the rows."""
    return _corrected([_entry(cell, metric, method) for cell in cells for metric in OBSERVED for method in _rows(cell)])


def true_entries(cells: Iterable[Cell]) -> list[Entry]:
    """Every method beside naive training over all cells, with Holm's correction over all of the rows."""
    found = []
    for cell in cells:
        methods = [method for method in _rows(cell) if method]
        for method in methods:
            entry = _entry(cell, "true_bce", method)
            found.append(replace(entry, share=gap_closed(cell, method), distance=distance_closed(cell, method)))
        if ORACLE in cell.methods:
            found.append(_entry(cell, "true_bce", ORACLE))
    return _corrected(found)


def estimated_entries(cells: Iterable[Cell]) -> list[Entry]:
    """Every method beside naive training by the risk that is estimated from the log, where it was."""
    methods = [(cell, method) for cell in cells for method in _rows(cell) if method]
    found = [_entry(cell, metric, method) for cell, method in methods for metric in ESTIMATED]
    return _corrected([entry for entry in found if entry.change is not None])


def estimated_tables(entries: Sequence[Entry], labels: Labels) -> list[Table]:
    """A table for each log, the two estimates below each other."""
    tables = []
    for log, of_log in _by_log(entries):
        groups = []
        for metric in ESTIMATED:
            shown = [entry for entry in of_log if entry.metric == metric]
            rows = [
                [*_who(entry, labels), number(entry.change.before), *_change_cells(entry), seeds_by_folds(entry.runs)]
                for entry in shown
                if entry.change is not None
            ]
            groups.append((METRIC_NAMES[metric], rows))
        header = ["model", "method", *_OURS, "runs"]
        spans = [("", 2), ("cross-entropy (less is better)", 7)]
        notes = [f"These are {RESTS_ON}.", *_notes(of_log, entries)]
        tables.append(Table(log_name(log), spans, header, groups, notes, _caption(of_log)))
    return tables


def observed_tables(
    entries: Sequence[Entry], labels: Labels, paper: Paper, baselines: Sequence[Record] = ()
) -> list[Table]:
    """A table for each log, AUC, ACC and RMSE below each other, with what baselines reach on it.

    The paper's numbers stand beside ours where it has any of that log.
    """
    tables = []
    for log, of_log in _by_log(entries):
        known = any(_of_paper(entry, paper) for entry in of_log)
        beside: dict[str, list[Record]] = {}
        for record in baselines:
            if record.dataset == of_log[0].cell.dataset:
                beside.setdefault(record.backbone, []).append(record)
        groups = []
        for metric in OBSERVED:
            rows = [
                _observed_row(entry, labels, paper if known else None) for entry in of_log if entry.metric == metric
            ]
            rows += [_baseline_row(name, runs, metric, known) for name, runs in sorted(beside.items())]
            groups.append((METRIC_NAMES[metric] + (" (less is better)" if metric == "rmse" else ""), rows))
        tables.append(
            Table(
                log_name(log),
                [("", 2), *([("paper", 3)] if known else []), ("ours", 7)],
                ["model", "method", *(_PAPERS if known else ()), *_OURS, "runs"],
                groups,
                _notes(of_log, entries),
                _caption(of_log),
            )
        )
    return tables


def true_tables(entries: Sequence[Entry], labels: Labels) -> list[Table]:
    """A table for each log whose truth is known."""
    header = ["model", "method", *_OURS, "distance closed", "gap closed", "true RMSE", "true AUC", "runs"]
    tables = []
    for log, of_log in _by_log(entries):
        rows = [_true_row(entry, labels) for entry in of_log]
        notes = [
            "Distance closed: share of the way from the original to the best possible predictor at the same history, "
            "with its 95 % interval over students. Gap closed: the same to training on randomly exposed answers, which "
            "has as few labels as the log and is no limit: a method that comes nearer to the truth than it has gone "
            f"{PAST}, and there is no share to speak of.",
            *_notes(of_log, entries),
        ]
        spans = [("", 2), ("cross-entropy (less is better)", 8), ("method", 3)]
        group = ("Every concept at every step of held-out students", rows)
        tables.append(Table(log_name(log), spans, header, [group], notes, _caption(of_log)))
    return tables


def paper_values(log: LogName, backbone: str, metric: str, paper: Paper) -> tuple[float, float] | None:
    """The paper's original and +TSDR, where it has them."""
    of_log = {}
    if log.gamma is None:
        of_log = paper["real"].get(paper_dataset(log.log), {})
    elif log.is_the_papers:
        of_log = paper["synthetic"].get(f"synthetic-{log.gamma}", {})
    found = of_log.get(metric, {}).get(backbone)
    return (found["original"], found["tsdr"]) if found else None


def _rows(cell: Cell) -> list[Method | None]:
    """The methods that are put beside naive training: tsdr first, then controls; None if there is naive alone."""
    ours = cell.ours()
    known = {name: place for place, name in enumerate(NAMES)}
    in_order = sorted(cell.methods, key=lambda method: (known.get(method.name, len(known)), str(method)))
    others = [method for method in in_order if method not in (NAIVE, ours, ORACLE)]
    methods = [method for method in (ours, *others) if method and cell.paired(NAIVE, method)[0]]
    return [*methods] if methods else [None] if NAIVE in cell.methods else []


def _entry(cell: Cell, metric: str, method: Method | None) -> Entry:
    if method is None:
        return Entry(cell, metric, None, cell.methods[NAIVE], None)
    naive, runs = cell.paired(NAIVE, method)
    return Entry(cell, metric, method, runs, change(naive, runs, metric))


def distance_closed(cell: Cell, method: Method) -> GapShare | None:
    """The share of the way to the best possible predictor that a method goes, on the folds that all were run on."""
    naive, runs, limit = on_common_folds([*cell.paired(NAIVE, method), cell.limit])
    if not naive or not all(has_sums(run, "true_bce") for run in (*naive, *runs, *limit)):
        return None
    return gap_share(naive, runs, limit, "true_bce")


def gap_closed(cell: Cell, method: Method) -> GapShare | None:
    """The share of the gap to random exposure that a method closes, on the folds that all three were run on."""
    naive, runs, oracle = cell.paired(NAIVE, method, ORACLE)
    if not naive or not all(has_sums(run, "true_bce") for run in (*naive, *runs, *oracle)):
        return None
    return gap_share(naive, runs, oracle, "true_bce")


def _corrected(entries: list[Entry]) -> list[Entry]:
    changes = corrected([entry.change for entry in entries])
    return [replace(entry, change=found) for entry, found in zip(entries, changes, strict=True)]


def _by_log(entries: Iterable[Entry]) -> list[tuple[LogName, list[Entry]]]:
    return [(log, list(group)) for log, group in groupby(entries, lambda entry: entry.cell.log)]


def _of_paper(entry: Entry, paper: Paper) -> tuple[float, float] | None:
    """The paper's original and +TSDR beside a row of ours, where it has them."""
    if entry.method is not None and not entry.is_ours:
        return None
    return paper_values(entry.cell.log, entry.cell.model.backbone, entry.metric, paper)


def _observed_row(entry: Entry, labels: Labels, paper: Paper | None) -> list[str]:
    theirs = []
    if paper is not None:
        known = _of_paper(entry, paper)
        theirs = [number(known[0]), number(known[1]), signed(known[1] - known[0])] if known else [NOTHING] * 3
    before = entry.change.before if entry.change else mean(entry.runs, entry.metric) if entry.method is None else None
    return [*_who(entry, labels), *theirs, number(before), *_change_cells(entry), seeds_by_folds(entry.runs)]


def _baseline_row(name: str, runs: list[Record], metric: str, paper: bool) -> list[str]:
    """What is reached without knowledge tracing; there is nothing that it changes."""
    cells = [number(mean(runs, metric)), *[NOTHING] * (len(_OURS) - 2)]
    return [name, "baseline", *[NOTHING] * (3 if paper else 0), NOTHING, *cells, seeds_by_folds(runs)]


def _true_row(entry: Entry, labels: Labels) -> list[str]:
    before = entry.change.before if entry.change else None
    truth = [number(mean(entry.runs, metric)) for metric in ("true_rmse", "true_auc")]
    closed = PAST if entry.share and (entry.share.share or 0) > 1 else share_closed(entry.share)
    cells = [*_who(entry, labels), number(before), *_change_cells(entry), share_closed(entry.distance), closed]
    return [*cells, *truth, seeds_by_folds(entry.runs)]


def _who(entry: Entry, labels: Labels) -> list[str]:
    return [labels[entry.cell.dataset, entry.cell.model], method_name(entry.method) if entry.method else "–"]


def _change_cells(entry: Entry) -> list[str]:
    """After, change with its mark, interval over students, standard error over runs, folds for the better."""
    found = entry.change
    if found is None:
        return [NOTHING] * 5
    interval = f"{signed(found.interval[0])} to {signed(found.interval[1])}" if found.interval else NOTHING
    marked = signed(found.difference) + (MARK if found.significant else "")
    return [number(found.after), marked, interval, number(found.error), f"{found.better} of {found.folds}"]


def _notes(entries: Sequence[Entry], of_section: Sequence[Entry]) -> list[str]:
    """What must be known to read the table, which is one of a section."""
    notes = []
    changes = [entry.change for entry in entries if entry.change is not None and entry.metric != OWN_AUC]
    tests = sum(entry.change is not None and entry.change.p is not None for entry in of_section)
    if any(found.p is not None for found in changes):
        notes.append(
            "95 % interval: students drawn anew, the same ones for both methods; it does not tell what another "
            f"training would change. {MARK}: the change stands at 5 %, over students and over runs alike, after Holm's "
            f"correction over the {counted(tests, 'test')} of all tables of this section."
        )
        notes += why_nothing_stands([entry.change for entry in entries if entry.change], tests)
    if any(found.p is None for found in changes):
        notes.append(
            "Records of earlier versions do not say what each student contributes, so these rows have no interval over "
            "students and no mark, and only the standard error over runs."
        )
    if not changes:
        notes.append("No method but the original was run on this log.")
    grids = sorted({values for entry in entries if entry.method for _, values in entry.method.changes if values[1:]})
    if grids:
        tuned = " or ".join(", ".join(values) for values in grids)
        notes.append(f"λ tuned: of {tuned}, each fold takes the one that is best on its validation students.")
    return notes


def _caption(entries: Sequence[Entry]) -> str:
    """How much a table rests on."""
    found = {id(run): run for entry in entries for run in _all_runs(entry)}
    return f"{counted(len(found), 'run')}: {basis(list(found.values()))}."


def _all_runs(entry: Entry) -> list[Record]:
    naive = entry.cell.paired(NAIVE, entry.method)[0] if entry.method else []
    return [*naive, *entry.runs]


def why_nothing_stands(changes: Sequence[Change], tests: int) -> list[str]:
    """Why no change of these is marked, of so many tests that are corrected together, where that is so."""
    tested = [found for found in changes if found.p is not None and found.adjusted is not None]
    if not tested or any(found.significant for found in tested):
        return []
    least = min(tested, key=lambda found: found.p or 0.0)
    runs = max(found.folds for found in tested)
    return [
        f"Nothing is marked: the smallest probability by chance is {least.p:.2g}, and {least.adjusted:.2g} once it is "
        f"corrected for {counted(tests, 'test')}, which is not below {SIGNIFICANT:g}. The larger of two tests "
        f"counts, that over students and that over runs, of which there are {runs} at most: what comes from few runs "
        "hardly stands among so many tests, and more seeds and folds would tell."
    ]


def number(found: float | None) -> str:
    """Four digits, or a dash where there is nothing."""
    return f"{found:.4f}" if found is not None and isfinite(found) else NOTHING


def signed(found: float) -> str:
    """Four digits and a sign."""
    return f"{found:+.4f}".replace("-", "−")


def with_interval(found: Change) -> str:
    """A change and, where there is one, its interval."""
    spread = "" if found.interval is None else f" ({signed(found.interval[0])} to {signed(found.interval[1])})"
    return signed(found.difference) + spread


def share_closed(found: GapShare | None) -> str:
    """A share of the gap with its interval."""
    if found is None:
        return NOTHING
    if found.share is None or found.interval is None:
        return "no gap"
    low, high = found.interval
    return f"{found.share:.0%} ({low:.0%} to {high:.0%})"
