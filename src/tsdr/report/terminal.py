"""Results as text on a terminal."""

import statistics
from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tsdr.backbones.checks import Audit
from tsdr.evaluation.metrics import METRICS
from tsdr.evaluation.records import Record
from tsdr.inspection import Inspection


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
    """Print the mean of each metric over folds and seeds, with its standard deviation between them."""
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        groups.setdefault((record.dataset, record.backbone, record.method), []).append(record)
    table = Table(
        "log",
        "model",
        "method",
        "runs",
        *METRICS,
        caption="on logged answers of held-out students: mean ± sd over runs",
    )
    for (dataset, backbone, method), runs in groups.items():
        cells = []
        for name in METRICS:
            values = [run.metrics[name] for run in runs]
            spread = statistics.stdev(values) if len(values) > 1 else float("nan")
            cells.append(f"{statistics.mean(values):.4f} ± {spread:.4f}")
        table.add_row(dataset, backbone, method, str(len(runs)), *cells)
    console.print(table)
