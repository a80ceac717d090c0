"""Commands about logs: look into them, prepare and simulate them, say how they were selected."""

from pathlib import Path
from typing import Annotated, Any

import typer

from tsdr.cli.shared import (
    Columns,
    ConceptSeparator,
    LogFile,
    Minimum,
    Separator,
    StatusWords,
    Students,
    UnzippedLimit,
    console,
    extent,
    mapping_of,
    read,
    refuse_shards,
    statuses_of,
)
from tsdr.datasets import Sample, Unanswered
from tsdr.defaults import MINIMUM, SEED, UNZIPPED_LIMIT
from tsdr.errors import InputError
from tsdr.report.progress import complain

PANEL = "Logs"
commands = typer.Typer()


@commands.command("inspect", rich_help_panel=PANEL)
def inspect_command(
    log: LogFile,
    column: Columns = None,
    concept_separator: ConceptSeparator = None,
    separator: Separator = None,
    status: StatusWords = None,
    unzipped_limit: UnzippedLimit = UNZIPPED_LIMIT,
) -> None:
    """Say what is in a log and all that looks wrong, or all that keeps it from being read."""
    from tsdr.cleaning import clean
    from tsdr.inspection import inspect_log
    from tsdr.log import UnreadableError
    from tsdr.report.terminal import show_inspection, show_unused

    mapping, told = mapping_of(column), statuses_of(status)
    try:
        found = clean(
            log,
            mapping,
            statuses=told,
            concept_separator=concept_separator,
            separator=separator,
            unzipped_limit=unzipped_limit,
        )
    except UnreadableError as error:
        for fault in error.faults:
            complain("error:", fault.message)
        raise typer.Exit(2) from error
    show_inspection(inspect_log(found.log), console)
    show_unused(found.unused, console)


@commands.command("clean", rich_help_panel=PANEL)
def clean_command(
    log: LogFile,
    out: Annotated[Path, typer.Option(metavar="LOG.parquet", help="Where to write the log.")],
    drop: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WHAT",
            help="Leave out rows whose student, question, concept, correct, skipped or time cannot be read, or copies, "
            "which repeat another row; repeat it.",
        ),
    ] = None,
    status: StatusWords = None,
    column: Columns = None,
    concept_separator: ConceptSeparator = None,
    separator: Separator = None,
    unzipped_limit: UnzippedLimit = UNZIPPED_LIMIT,
) -> None:
    """Turn a file into a log that needs no more options: without rows that are to be dropped, and account for them."""
    from tsdr.cleaning import clean
    from tsdr.report.terminal import show_cleaned, show_unused

    mapping, told = mapping_of(column), statuses_of(status)
    found = clean(
        log,
        mapping,
        statuses=told,
        drop=drop or (),
        concept_separator=concept_separator,
        separator=separator,
        unzipped_limit=unzipped_limit,
    )
    found.log.write(out)
    show_cleaned(found, console)
    show_unused(found.unused, console)
    console.print(f"The log: {out}", soft_wrap=True)


@commands.command("shard", rich_help_panel=PANEL)
def shard_command(
    logs: Annotated[
        list[Path],
        typer.Argument(metavar="LOG...", help="CSV, TSV or Parquet, gzipped or not; or several files of it."),
    ],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="A new folder for the shards.")],
    column: Columns = None,
    concept_separator: ConceptSeparator = None,
    separator: Separator = None,
    unzipped_limit: UnzippedLimit = UNZIPPED_LIMIT,
) -> None:
    """Write a log that is larger than memory in shards by student, from which `tsdr fit FOLDER` trains."""
    from tsdr.shards.writing import write_shards

    with console.status("Dealing") as status:
        shards = write_shards(
            logs,
            out,
            mapping_of(column),
            concept_separator=concept_separator,
            separator=separator,
            unzipped_limit=unzipped_limit,
            on_stage=status.update,
        )
    console.print(
        f"{out}: {shards.answers:,} answers and {shards.skipped_offers:,} skipped offers of {shards.students:,} "
        f"students, on {len(shards.vocabulary.concepts):,} concepts; shards: {len(shards):,}",
        soft_wrap=True,
    )


@commands.command("datasets", rich_help_panel=PANEL)
def datasets_command() -> None:
    """List the data sets that can be prepared: where they are published, on which terms, which files are expected."""
    from tsdr.datasets import SOURCES
    from tsdr.report.terminal import show_datasets

    show_datasets(SOURCES.values(), console)


@commands.command("prepare", rich_help_panel=PANEL)
def prepare_command(
    name: Annotated[str, typer.Argument(help="A data set of `tsdr datasets`, such as ednet.")],
    raw: Annotated[Path, typer.Argument(help="The folder that its download unpacked to.")],
    out: Annotated[Path, typer.Option(metavar="LOG.parquet", help="Where to write the log.")],
    sample: Annotated[
        str, typer.Option(help="How many students to draw; paper: as many as the paper did; all: do not draw.")
    ] = "paper",
    seed: Annotated[int, typer.Option(min=0, help="Of the sample.")] = SEED,
    minimum: Annotated[int, typer.Option(min=1, help="Students with fewer answers are left out.")] = MINIMUM,
    unanswered: Annotated[
        Unanswered, typer.Option(help="What becomes of what was shown and not answered; drop is the paper's rule.")
    ] = "skipped",
) -> None:
    """Turn the files of a data set, as they are downloaded, into a log, and account for every row."""
    from tsdr.datasets import prepare
    from tsdr.report.terminal import show_account

    if sample not in ("paper", "all") and not sample.isdigit():
        raise InputError(f"--sample {sample}: give a number of students, paper or all")
    drawn: Sample = int(sample) if sample.isdigit() else "all" if sample == "all" else "paper"
    with console.status(f"Preparing {name}") as status:
        account = prepare(
            name,
            raw,
            out,
            sample=drawn,
            seed=seed,
            minimum=minimum,
            unanswered=unanswered,
            on_stage=status.update,
        )
    show_account(account, console)
    console.print(f"The log: {out}", soft_wrap=True)


@commands.command("simulate", rich_help_panel=PANEL)
def simulate_command(
    out: Annotated[Path, typer.Option(help="Folder for log.parquet, skipped.parquet, truth.npz and options.json.")],
    gamma: Annotated[float, typer.Option(min=0, max=1, help="How strongly students skip; 0: not at all.")] = 0.8,
    students: Annotated[int, typer.Option(min=1)] = 1000,
    questions: Annotated[int, typer.Option(min=2)] = 200,
    concepts: Annotated[int, typer.Option(min=1)] = 20,
    seed: Annotated[int, typer.Option(min=0)] = 1,
    recommender: Annotated[
        bool,
        typer.Option("--recommender", help="Offer what comes close to --target, instead of by popularity."),
    ] = False,
    target: Annotated[float, typer.Option(min=0, max=1, help="The recommender's target for success.")] = 0.7,
) -> None:
    """Simulate a selected log with the whole truth: skips (gamma), a recommender, or both."""
    from tsdr.simulator import Recommender, simulate

    policy = Recommender(target=target) if recommender else None
    with console.status("Simulating"):
        simulation = simulate(gamma, students, questions, concepts, seed, recommender=policy)
        simulation.write(out)
    console.print(
        f"{out}: {len(simulation.log):,} interactions and {len(simulation.skipped):,} skipped offers "
        f"of {students:,} students",
        soft_wrap=True,
    )


@commands.command("diagnose", rich_help_panel=PANEL)
def diagnose_command(
    source: Annotated[Path, typer.Argument(metavar="LOG", help="A log, or a folder written by simulate.")],
    out: Annotated[Path, typer.Option(metavar="PAGE.html", help="The page; its numbers are written beside it.")],
    model: Annotated[
        Path | None,
        typer.Option(metavar="BUNDLE", help="Measure this model, not a quick dkt, and keep what is found with it."),
    ] = None,
    window: Annotated[
        Any,
        typer.Option(
            parser=extent, metavar="N|all", help="How many of a student's answers are in view; the model's, or 50."
        ),
    ] = None,
    minimum: Minimum = MINIMUM,
    students: Students = None,
    seed: Annotated[int, typer.Option(min=0)] = SEED,
    column: Columns = None,
    concept_separator: ConceptSeparator = None,
    separator: Separator = None,
    unzipped_limit: UnzippedLimit = UNZIPPED_LIMIT,
) -> None:
    """Say whether a log is a fair sample, how it was selected, and whether weights can repair it."""
    from tsdr.diagnosis.diagnose import diagnose
    from tsdr.models.model import load
    from tsdr.report.diagnosis import write_diagnosis
    from tsdr.report.terminal import show_verdict
    from tsdr.simulator import read_simulation

    refuse_shards(source)
    asked = load(model) if model else None
    log = (
        read_simulation(source).offers()
        if source.is_dir()
        else read(source, column, concept_separator, separator, unzipped_limit)
    )
    with console.status("Diagnosing") as status:
        diagnosis = diagnose(
            log, asked, window=window, minimum=minimum, students=students, seed=seed, on_stage=status.update
        )
        numbers = write_diagnosis(diagnosis, source.name.split(".")[0], out)
        if model and asked:
            asked.with_diagnosis(diagnosis.model_dump(mode="json")).bundle.write_diagnosis(model)
    show_verdict(diagnosis, console)
    console.print(f"\nThe page: {out}\nIts numbers: {numbers}", soft_wrap=True)
