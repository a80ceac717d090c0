"""Results as text on a terminal."""

import statistics
from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tsdr.backbones.checks import Audit
from tsdr.evaluation.gap import GapShare, gap_share
from tsdr.evaluation.metrics import METRICS
from tsdr.evaluation.records import Record
from tsdr.inspection import Inspection

TRUE_METRICS = ("true_bce", "true_rmse", "true_auc")


def show_inspection(inspection: Inspection, console: Console) -> None:
    """Print what is in a log and the first thing that looks wrong."""
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in inspection.rows():
        table.add_row(name, value)
    console.print(table)
    if inspection.oddity:
        console.print(Text.assemble("\n", ("Looks wrong:", "bold yellow"), " ", inspection.oddity), soft_wrap=True)
    else:
        console.print("\nNothing looks wrong.")


def show_audit(audit: Audit, console: Console) -> None:
    """Print every check with its worst deviation and where it is."""
    table = Table("check", "worst deviation", "allowed", "where", "")
    for check in audit.checks:
        verdict = Text("pass", "green") if check.passed else Text("FAIL", "bold red")
        table.add_row(check.name, f"{check.worst:.2g}", f"{check.allowed:.2g}", check.where, verdict)
    console.print(table)


def show_records(records: Iterable[Record], console: Console) -> None:
    """Print the mean of each metric on logged answers over folds and seeds, with its deviation between them."""
    table = Table(
        "log",
        "model",
        "method",
        "runs",
        *METRICS,
        caption="on logged answers of held-out students: mean ± sd over runs",
    )
    for key, runs in grouped(records).items():
        table.add_row(*key, str(len(runs)), *(_mean_and_spread(runs, name) for name in METRICS))
    console.print(table)


def show_truth(records: Iterable[Record], console: Console) -> None:
    """Print the metrics over all cells of a simulated log and, where it was run, the share of the gap closed."""
    groups = grouped(records)
    table = Table(
        "log",
        "model",
        "method",
        *TRUE_METRICS,
        "gap closed, BCE",
        "gap closed, RMSE",
        "gap closed, AUC",
        caption="on every concept at every step of held-out students: mean ± sd over runs; "
        "share of the gap from naive to random exposure, 95 % interval over students",
    )
    for (dataset, backbone, method), runs in groups.items():
        naive, oracle = (groups.get((dataset, backbone, other)) for other in ("naive", "random-exposure"))
        shares = [
            _share(gap_share(naive, runs, oracle, metric)) if naive and oracle else "-" for metric in TRUE_METRICS
        ]
        table.add_row(dataset, backbone, method, *(_mean_and_spread(runs, name) for name in TRUE_METRICS), *shares)
    console.print(table)


def grouped(records: Iterable[Record]) -> dict[tuple[str, str, str], list[Record]]:
    """Records by log, model and method."""
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        groups.setdefault((record.dataset, record.backbone, record.method), []).append(record)
    return groups


def _mean_and_spread(runs: list[Record], metric: str) -> str:
    values = [run.metrics[metric] for run in runs]
    spread = f" ± {statistics.stdev(values):.4f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.4f}{spread}"


def _share(closed: GapShare) -> str:
    if closed.share is None or closed.interval is None:
        return "no gap to speak of"
    low, high = closed.interval
    return f"{closed.share:.0%} ({low:.0%} to {high:.0%})"
