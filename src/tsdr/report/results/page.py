"""The results page: every record under a folder, beside the paper's numbers, in one self-contained HTML file."""

import shlex
from collections.abc import Iterable
from pathlib import Path

from tsdr.paper import paper_numbers
from tsdr.records.baselines import is_baseline
from tsdr.records.collection import Cell, Collection, cells, collect
from tsdr.report.pages import write_page
from tsdr.report.results.charts import charts
from tsdr.report.results.choice import advice, choice_table, choices
from tsdr.report.results.findings import account, behind_baselines, findings, missing, opening
from tsdr.report.results.names import model_names, place_of_backbone
from tsdr.report.results.tables import (
    estimated_entries,
    estimated_tables,
    observed_entries,
    observed_tables,
    true_entries,
    true_tables,
)


def write_results(folder: Path, path: Path) -> Collection:
    """Write the page of the records under a folder."""
    found = collect(folder)
    paper = paper_numbers()
    timed = _in_order(cells(record for record in found.records if record.timed))
    tested = _in_order(cells(record for record in found.records if not record.timed))
    labels = model_names(tested)
    real = [cell for cell in tested if not cell.has_truth]
    selected = [cell for cell in tested if cell.has_truth]
    baselines = [record for record in found.records if record.method.is_baseline and is_baseline(record)]
    on_real, on_selected, against_truth = observed_entries(real), observed_entries(selected), true_entries(selected)
    chosen = choices(found.records)
    write_page(
        "results.html",
        path,
        advice=advice(chosen),
        choice=choice_table(chosen),
        opening=opening(found.records),
        findings=findings(on_real, on_selected, against_truth, paper),
        behind=behind_baselines(found.records),
        real=observed_tables(on_real, labels, paper, baselines),
        observed=observed_tables(on_selected, labels, paper, baselines),
        truth=true_tables(against_truth, labels),
        estimated=estimated_tables(estimated_entries(tested), labels),
        charts=charts(tested, timed, labels, paper),
        missing=missing(tested, timed, paper),
        account=account(found, tested, timed),
        command=shlex.join(["tsdr", "report", str(folder), "--out", str(path)]),
        versions=sorted({", ".join(f"{name} {of}" for name, of in run.versions.items()) for run in found.records}),
    )
    return found


def _in_order(found: Iterable[Cell]) -> list[Cell]:
    """Simulated logs first, then others by name, each by the strength of selection; backbones as in the paper."""

    def place(cell: Cell) -> tuple[object, ...]:
        log = cell.log
        of_log = not log.is_simulated, log.log, log.gamma or 0.0, cell.dataset
        return *of_log, place_of_backbone(cell.model.backbone), cell.model

    return sorted(found, key=place)
