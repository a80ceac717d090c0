"""Commands that use a trained model: for logs, and live."""

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from tsdr.cli.shared import (
    Columns,
    ConceptSeparator,
    LogFile,
    Separator,
    UnzippedLimit,
    console,
    mapping_of,
    read,
    serving_installed,
)
from tsdr.defaults import UNZIPPED_LIMIT
from tsdr.errors import InputError
from tsdr.log import Unknown
from tsdr.report.progress import complain, resumable

PANEL = "A trained model at work"
commands = typer.Typer()

BundleFolder = Annotated[Path, typer.Argument(metavar="BUNDLE", help="A model that `tsdr fit` wrote.")]
UnknownConcepts = Annotated[Unknown, typer.Option(help="What to do with concepts that the model does not know.")]
StoreUrl = Annotated[str, typer.Option(metavar="URL", help="sqlite:///FILE or postgresql://...")]
DEFAULT_STORE = "sqlite:///students.db"


@commands.command("predict", rich_help_panel=PANEL)
def predict_command(
    bundle: BundleFolder,
    log: LogFile,
    out: Annotated[Path, typer.Option(metavar="TABLE", help="Where to write them: .parquet or .csv.")],
    history: Annotated[
        Path | None,
        typer.Option(metavar="LOG", help="What the same students did earlier: it is read, and not predicted."),
    ] = None,
    unknown: UnknownConcepts = "error",
    column: Columns = None,
    concept_separator: ConceptSeparator = None,
    separator: Separator = None,
    unzipped_limit: UnzippedLimit = UNZIPPED_LIMIT,
) -> None:
    """Predict every answer of a log from the student's answers before it.

    Each has the number of its row in the file, from 1 after the header, and its time as it stands there.
    """
    from tsdr.log import times_as_written
    from tsdr.models.model import load
    from tsdr.tables import write_table

    model = load(bundle)
    told = read(log, column, concept_separator, separator, unzipped_limit)
    earlier = read(history, column, concept_separator, separator, unzipped_limit) if history else None
    with console.status("Predicting"):
        predicted = model.predict_log(told, unknown=unknown, history=earlier)
    times = times_as_written(log, predicted["row"], mapping_of(column), separator, unzipped_limit)
    if times is not None:
        predicted = predicted.with_columns(times)
    write_table(predicted, out)
    console.print(
        f"{out}: {predicted.height:,} answers, {predicted['success'].null_count():,} of them without a prediction",
        soft_wrap=True,
    )


@commands.command("mastery", rich_help_panel=PANEL)
def mastery_command(
    bundle: BundleFolder,
    log: LogFile,
    out: Annotated[
        Path | None, typer.Option(metavar="TABLE", help="Every student and concept, as .parquet or .csv.")
    ] = None,
    student: Annotated[str | None, typer.Option(help="Show this student, not the mean of all.")] = None,
    unknown: UnknownConcepts = "error",
    column: Columns = None,
    concept_separator: ConceptSeparator = None,
    separator: Separator = None,
    unzipped_limit: UnzippedLimit = UNZIPPED_LIMIT,
) -> None:
    """Say what the students of a log master after their last answer, concept by concept."""
    from tsdr.models.model import load
    from tsdr.report.terminal import show_mastery
    from tsdr.tables import write_table

    model = load(bundle)
    with console.status("Predicting"):
        found = model.mastery_log(read(log, column, concept_separator, separator, unzipped_limit), unknown=unknown)
    if student is not None and student not in found["student"]:
        raise InputError(f"{log}: there is no student {student!r} in it with an answer that the model can read")
    show_mastery(found, student, console)
    if out is not None:
        write_table(found, out)
        console.print(f"Every student and concept: {out}", soft_wrap=True)


@commands.command("explain", rich_help_panel=PANEL)
def explain_command(bundle: BundleFolder) -> None:
    """Say what a model of counts has found out: the hardest questions, and what a right answer is worth."""
    from tsdr.models.effects import effects_of
    from tsdr.models.model import load
    from tsdr.report.terminal import show_effects

    model = load(bundle)
    effects = effects_of(model)
    if effects is None:
        raise InputError(
            f"{bundle}: is a {model.bundle.backbone}, whose weights tell a reader nothing; fit a counts model"
        )
    show_effects(effects, console)


@commands.command("export", rich_help_panel=PANEL)
def export_command(
    bundle: BundleFolder,
    onnx: Annotated[Path, typer.Option("--onnx", metavar="FILE", help="The ONNX file to write.")],
) -> None:
    """Write a model as ONNX, to run where there is no torch."""
    from tsdr.models.model import load
    from tsdr.models.onnx import export_onnx

    with console.status("Exporting, which takes up to a minute"):
        export_onnx(load(bundle), onnx)
    console.print(f"{onnx}: what goes in and comes out is in docs/serving.md", soft_wrap=True)


@commands.command("enroll", rich_help_panel=PANEL)
def enroll_command(
    log: LogFile,
    store: StoreUrl = DEFAULT_STORE,
    column: Columns = None,
    concept_separator: ConceptSeparator = None,
    separator: Separator = None,
    unzipped_limit: UnzippedLimit = UNZIPPED_LIMIT,
) -> None:
    """Bring the answers and skips of a log into a store, so that the service knows its students; twice adds nothing.

    The platform's own ids are given as --column event=THEIRS: then what was posted to the service is known, too.
    """
    from rich.progress import track

    with serving_installed():
        from tsdr.serving.databases import without_password
        from tsdr.serving.transfer import Enrolled, enroll
    told = read(log, column, concept_separator, separator, unzipped_limit)
    became: list[Enrolled] = []
    with resumable("The same command", "the last student"):
        enrolled = enroll(told, store)
        became += track(enrolled, "Enrolling", len(told.students), console=console, transient=True)
    answers, skips, known = (sum(getattr(some, name) for some in became) for name in Enrolled._fields)
    added = f"{answers:,} answers and {skips:,} skips" if told.skipped_offers else f"{answers:,} answers"
    console.print(
        f"{without_password(store)}: {added} of {len(told.students):,} students added; {known:,} of {len(told):,} rows "
        "were known already",
        soft_wrap=True,
    )


@commands.command("collect", rich_help_panel=PANEL)
def collect_command(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Gets log.parquet and offers.parquet.")],
    store: StoreUrl = DEFAULT_STORE,
) -> None:
    """Take the answers and skips of a store as a log to learn from, and the offers with their propensities."""
    with serving_installed():
        from tsdr.serving.transfer import collect
    log, offers = collect(store, out)
    skips = f" and {log.skipped_offers:,} skips" if log.skipped_offers else ""
    console.print(
        f"{out}: {log.answered.height:,} answers{skips} of {len(log.students):,} students (log.parquet), "
        f"{offers.height:,} offers (offers.parquet)",
        soft_wrap=True,
    )


@commands.command("serve", rich_help_panel=PANEL)
def serve_command(
    bundle: BundleFolder,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535)] = 8000,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Processes.")] = 1,
    store: StoreUrl = DEFAULT_STORE,
    log_level: Annotated[
        Literal["error", "warning", "info"],
        typer.Option(help="What is logged to standard error; info: every request, by its route, without names."),
    ] = "warning",
) -> None:
    """Serve a model: answers in, mastery out, over HTTP, with a page; TSDR_TOKEN in the environment is asked for."""
    with serving_installed():
        from tsdr.serving.databases import without_password
        from tsdr.serving.server import TOKEN, check, is_loopback, serve
    if not is_loopback(host) and not os.environ.get(TOKEN):
        complain("warning:", f"{host} is reached from other machines, and no {TOKEN} is set: anybody may read it all")
    check(bundle, store)
    shown = f"[{host}]" if ":" in host else host
    console.print(
        f"Serving {bundle} at http://{shown}:{port}/ (Ctrl-C stops it); students in {without_password(store)}",
        soft_wrap=True,
    )
    serve(bundle, store, host, port, workers, log_level)
