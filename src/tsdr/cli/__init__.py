"""The command line: `tsdr COMMAND`."""

import sys
import warnings
from importlib.metadata import version
from typing import Annotated

import typer
from pydantic import ValidationError

from tsdr.cli import experiments, logs, models, serving
from tsdr.cli.shared import with_plugins
from tsdr.errors import InputError, in_a_sentence
from tsdr.report.progress import complain

app = typer.Typer(
    help="Debiased knowledge tracing: what students really know, from selected logs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"tsdr {version('tsdr')}")
        raise typer.Exit


@app.callback()
def _every_command(
    show: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Say which version this is.")
    ] = False,
) -> None:
    """Debiased knowledge tracing: what students really know, from selected logs."""


for part in (logs, models, serving, experiments):
    for command in part.commands.registered_commands:
        assert command.callback is not None
        command.callback = with_plugins(command.callback)
    app.add_typer(part.commands)


def main() -> None:
    """Run the command line; input that is refused ends in one sentence and exit code 2."""
    warnings.showwarning = lambda message, *where: complain("warning:", str(message))
    try:
        app()
    except InputError as error:
        _fail(str(error))
    except OSError as error:
        _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except ValidationError as error:
        _fail(in_a_sentence(error))


def _fail(message: str) -> None:
    complain("error:", message)
    sys.exit(2)
