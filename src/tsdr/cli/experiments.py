"""Commands that run the paper's experiments and show what came of them."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import typer

from tsdr.cli.shared import Columns, console, extent, listed, mapping_of, serving_installed
from tsdr.defaults import FOLDS, SEED
from tsdr.errors import InputError
from tsdr.experiments.studies import STUDIES
from tsdr.paper import BACKBONES, LAMBDAS
from tsdr.training.options import StopBy

if TYPE_CHECKING:
    from tsdr.experiments.engines import Engine

PANEL = "Experiments"
commands = typer.Typer()

Number = TypeVar("Number", int, float)
EngineName = Literal["processes", "ray"]


@commands.command("reproduce", rich_help_panel=PANEL)
def reproduce_command(
    study: Annotated[str, typer.Argument(help="; ".join(f"{name}: {study.what}" for name, study in STUDIES.items()))],
    out: Annotated[Path, typer.Option(help="Folder for the records; studies share those of the same run.")] = Path(
        "results"
    ),
    backbones: Annotated[str, typer.Option(help="Separated by commas.")] = ",".join(BACKBONES),
    datasets: Annotated[
        str | None,
        typer.Option(
            help="Separated by commas: simulated-gamma0.8, a log's name in --data, or math1-gamma0.8 for complete "
            "answers to be masked. The study's own if left out."
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder of real logs: NAME.parquet as `tsdr prepare` writes it, .csv, .tsv, gzipped."),
    ] = None,
    folds: Annotated[int, typer.Option(min=2)] = FOLDS,
    seeds: Annotated[str, typer.Option(help="Of folds, training and simulator; separated by commas.")] = str(SEED),
    lambdas: Annotated[
        str, typer.Option(help="Where a study has λ: of several, each fold takes its validation students' best.")
    ] = ",".join(f"{value:g}" for value in LAMBDAS),
    windows: Annotated[
        str | None,
        typer.Option(
            metavar="N,...,all",
            help="How much of a history is in view, one after the other; the study's own if left out. It is judged by "
            "the same answers, whatever the window.",
        ),
    ] = None,
    stop_by: Annotated[
        StopBy, typer.Option(help="What stops the training; the paper's is the validation students' AUC.")
    ] = "auc",
    engine: Annotated[EngineName, typer.Option(help="Where to compute.")] = "processes",
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; as many as cores if left out.")] = None,
    address: Annotated[str | None, typer.Option(help="Of a Ray cluster; one on this machine if left out.")] = None,
    column: Columns = None,
) -> None:
    """Run an experiment of the paper; runs that have a record are not run again."""
    from tsdr.comparison import show_grid
    from tsdr.experiments.engines import Processes, RayCluster
    from tsdr.experiments.grid import each_once
    from tsdr.experiments.logs import source_named
    from tsdr.experiments.planning import plan_study
    from tsdr.records.folder import RecordFolder
    from tsdr.report.quality import show_costs, show_quality

    if study not in STUDIES:
        raise InputError(f"there is no study {study!r}; choose from {', '.join(STUDIES)}")
    chosen = STUDIES[study]
    mapping = mapping_of(column)
    names = listed(datasets) if datasets else list(chosen.datasets)
    records = RecordFolder(out)
    jobs = each_once(
        plan_study(
            chosen,
            [source_named(name, data, mapping) for name in names],
            listed(backbones),
            chosen.methods(_numbers("--lambdas", lambdas, float)),
            records,
            folds=folds,
            seeds=_numbers("--seeds", seeds, int),
            windows=[extent(part) for part in listed(windows)] if windows else None,
            stop_by=stop_by,
        )
    )
    if (engine == "processes" and address) or (engine == "ray" and workers):
        raise InputError("--address is of the ray engine, --workers of the other")
    if engine == "ray" and chosen.timed:
        raise InputError(f"{study} measures runs that are alone on the machine; use --engine processes")
    computing: Engine = Processes(1 if chosen.timed else workers, fresh=chosen.timed)
    if engine == "ray":
        computing = RayCluster(address)
    if not show_grid(jobs, records, computing, console, show_costs if chosen.timed else show_quality):
        raise typer.Exit(1)


@commands.command("report", rich_help_panel=PANEL)
def report_command(
    results: Annotated[Path, typer.Argument(help="A folder of records; those in its folders count, too.")],
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
) -> None:
    """Write what records came to, beside the paper's numbers, as one HTML page that needs nothing else."""
    from tsdr.report.results.page import write_results

    with console.status("Working out intervals and drawing"):
        found = write_results(results, out)
    skipped = f"; {found.unread} JSON files are no records" if found.unread else ""
    console.print(f"{out}: {len(found.records)} runs, {found.repeated} found twice{skipped}", soft_wrap=True)


@commands.command("demo", rich_help_panel=PANEL)
def demo_command(
    out: Annotated[Path, typer.Option(help="Folder for what the demo makes.")] = Path("runs/demo"),
    students: Annotated[int, typer.Option(min=50, help="How many to simulate; fewer take less time.")] = 800,
) -> None:
    """Run the main job on a built-in simulated log: what is lost by learning from it plainly, and what is won back."""
    with serving_installed():
        from tsdr.demo import run_demo

    run_demo(out, console, students)


def _numbers(option: str, text: str, kind: Callable[[str], Number]) -> list[Number]:
    try:
        return [kind(part) for part in listed(text)]
    except ValueError as error:
        raise InputError(f"{option} {text}: give numbers, separated by commas") from error
