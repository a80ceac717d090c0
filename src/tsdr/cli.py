"""The command line: `tsdr COMMAND`."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError
from rich.console import Console
from rich.text import Text

from tsdr.errors import InputError
from tsdr.inspection import inspect_log
from tsdr.log import Log, read_log
from tsdr.report.terminal import show_inspection
from tsdr.simulator import Recommender, simulate

app = typer.Typer(
    help="Debiased knowledge tracing: what students really know, from selected logs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
console = Console(markup=False, highlight=False)  # what users name their files is not markup

LogFile = Annotated[Path, typer.Argument(metavar="LOG", help="CSV, TSV or Parquet, gzipped or not.")]
Columns = Annotated[
    list[str] | None,
    typer.Option("--column", metavar="OURS=THEIRS", help="A column of the file, such as student=user_id; repeat it."),
]
ConceptSeparator = Annotated[
    str | None,
    typer.Option(help="What separates several skills in the concept column; together they are one concept."),
]
Separator = Annotated[
    str | None,
    typer.Option(help="What separates the columns of a text file, if not a comma (.csv) or a tab."),
]


@app.command("inspect")
def inspect_command(
    log: LogFile,
    column: Columns = None,
    concept_separator: ConceptSeparator = None,
    separator: Separator = None,
) -> None:
    """Say what is in a log, and the first thing that looks wrong."""
    show_inspection(inspect_log(_read(log, column, concept_separator, separator)), console)


@app.command("simulate")
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
    policy = Recommender(target=target) if recommender else None
    with console.status("Simulating"):
        simulation = simulate(gamma, students, questions, concepts, seed, recommender=policy)
        simulation.write(out)
    console.print(
        f"{out}: {len(simulation.log):,} interactions and {len(simulation.skipped):,} skipped offers "
        f"of {students:,} students",
        soft_wrap=True,
    )


@app.command("demo")
def demo_command(
    out: Annotated[Path, typer.Option(help="Folder for what the demo makes.")] = Path("runs/demo"),
) -> None:
    """Run the main job on a built-in simulated log."""
    from tsdr.demo import run_demo  # the plots take long to import, and only this command draws

    run_demo(out, console)


def main() -> None:
    """Run the command line; input that is refused ends in one sentence and exit code 2."""
    try:
        app()
    except InputError as error:
        _fail(str(error))
    except OSError as error:
        _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except ValidationError as error:
        _fail("; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()))


def _read(path: Path, columns: list[str] | None, concept_separator: str | None, separator: str | None) -> Log:
    mapping: dict[str, str] = {}
    for pair in columns or []:
        ours, equals, theirs = pair.partition("=")
        if not equals or not theirs:
            raise InputError(f"--column {pair}: write our name, an equals sign and the file's, as in student=user_id")
        if ours in mapping:
            raise InputError(
                f"--column: {mapping[ours]!r} and {theirs!r} are both mapped to {ours!r}; give one of them"
            )
        mapping[ours] = theirs
    return read_log(path, mapping, concept_separator=concept_separator, separator=separator)


def _fail(message: str) -> None:
    Console(stderr=True).print(Text.assemble(("error:", "bold red"), " ", message), soft_wrap=True)
    sys.exit(2)
