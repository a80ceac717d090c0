"""What the commands share: the terminal, and the options that many of them take."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from tsdr.defaults import Extent, Skips
from tsdr.errors import InputError, extra_missing
from tsdr.paper import BACKBONES
from tsdr.training.options import Device, StopBy

if TYPE_CHECKING:
    from tsdr.cleaning import Status
    from tsdr.log import Log  # what a command needs is imported when it runs: its help is not to wait for it
    from tsdr.shards.folder import Shards

# What users name their files is not markup; and what is piped has room for whole names.
console = Console(markup=False, highlight=False, width=None if sys.stdout.isatty() else 140)

LogFile = Annotated[Path, typer.Argument(metavar="LOG", help="CSV, TSV or Parquet, gzipped or not.")]
Columns = Annotated[
    list[str] | None,
    typer.Option("--column", metavar="OURS=THEIRS", help="A column of the file, such as student=user_id; repeat it."),
]
ConceptSeparator = Annotated[
    str | None,
    typer.Option(help="What separates several skills in the concept column; together they are one concept."),
]
BackboneName = Annotated[
    str, typer.Option(help=f"One of {', '.join(BACKBONES)}, counts, hybrid, or one of your own (--plugin).")
]
Size = Annotated[str | None, typer.Option(help="paper or light; the backbone's default if left out.")]


def extent(text: str | int) -> Extent:
    """How much of a history, as it is written: a number, or all."""
    if text == "all":
        return "all"
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise typer.BadParameter(f"{text} is neither a number from 1 on nor all")
    return number


Window = Annotated[
    Any,
    typer.Option(
        parser=extent,
        metavar="N|all",
        help="How many of a student's answers are in view before each; all, if left out, for models that read whole "
        "histories (dkt, counts, hybrid), and 200 for the others.",
    ),
]
Scored = Annotated[
    Any,
    typer.Option(
        parser=extent,
        metavar="N|all",
        help="How many of a student's latest answers are judged by; as many as one window has, if left out.",
    ),
]
Learned = Annotated[
    Any,
    typer.Option(
        parser=extent,
        metavar="N|all",
        help="How many of a student's latest answers are learned from; as many as one window has, if left out.",
    ),
]
Students = Annotated[
    Any,
    typer.Option(
        parser=extent,
        metavar="N|all",
        help="How many students to draw, by the seed; if left out, all, or as many as have a million answers.",
    ),
]
SkipsRead = Annotated[
    Skips | None,
    typer.Option(
        "--skips", help="Offers that were shown and not answered: read as such, if left out, where the log has any."
    ),
]
Stopping = Annotated[
    StopBy,
    typer.Option(help="What stops the training: the validation students' AUC, or the loss on them."),
]
DeviceName = Annotated[Device, typer.Option(help="Where to compute.")]
Minimum = Annotated[int, typer.Option(min=2, help="Students with fewer answers are left out.")]
Plugins = Annotated[
    list[Path] | None,
    typer.Option(
        "--plugin", metavar="FILE.py", help="A Python file that registers a backbone of your own; repeat it for more."
    ),
]
Separator = Annotated[
    str | None,
    typer.Option(help="What separates the columns of a text file, if not a comma (.csv) or a tab."),
]

UnzippedLimit = Annotated[
    float, typer.Option(min=0, metavar="GB", help="What a gzipped log, or one of Parquet, may expand to.")
]


StatusWords = Annotated[
    list[str] | None,
    typer.Option(
        "--status",
        metavar="KIND=TEXT",
        help="What a text in the column of answers means: right=PASSED, wrong=FAILED, skipped=DISMISSED; repeat it.",
    ),
]


def statuses_of(statuses: list[str] | None) -> "dict[str, Status]":
    """What `--status KIND=TEXT` says, the text to the kind."""
    from tsdr.cleaning import STATUSES

    told: dict[str, Status] = {}
    for pair in statuses or []:
        kind, equals, text = pair.partition("=")
        known = next((status for status in STATUSES if status == kind), None)
        if not equals or known is None:
            raise InputError(f"--status {pair}: write {', '.join(STATUSES)}, an equals sign and the text that means it")
        if told.setdefault(text, known) != known:
            raise InputError(f"--status: {text!r} is said to mean both {told[text]} and {known}; give one of them")
    return told


@contextmanager
def serving_installed() -> Iterator[None]:
    """Say what to install if the extra is missing."""
    try:
        yield
    except ImportError as error:
        raise extra_missing(f"{error.name} is missing", "serve") from error


def with_plugins(command: Callable[..., None]) -> Callable[..., None]:
    """A command that also takes files which register backbones, and runs them before all else."""

    @wraps(command)
    def run(plugin: list[Path] | None, **options: Any) -> None:
        if plugin:
            from tsdr.backbones.plugins import load_plugin

            for path in plugin:
                load_plugin(path)
        command(**options)

    own = signature(command)
    plugin = Parameter("plugin", Parameter.KEYWORD_ONLY, default=None, annotation=Plugins)
    run.__signature__ = own.replace(parameters=[*own.parameters.values(), plugin])  # type: ignore[attr-defined]
    run.__annotations__ = {**command.__annotations__, "plugin": Plugins}
    return run


def read(
    path: Path, columns: list[str] | None, concept_separator: str | None, separator: str | None, unzipped_limit: float
) -> "Log":
    """The log, read by the options that say what its columns are."""
    from tsdr.log import read_log

    refuse_shards(path)
    return read_log(
        path,
        mapping_of(columns),
        concept_separator=concept_separator,
        separator=separator,
        unzipped_limit=unzipped_limit,
    )


def refuse_shards(path: Path) -> None:
    """Say of a folder of shards what it is for."""
    from tsdr.shards.folder import is_shards

    if is_shards(path):
        raise InputError(f"{path}: is a folder of shards, from which `tsdr fit` trains; name the log itself here")


def read_log_or_shards(
    path: Path, columns: list[str] | None, concept_separator: str | None, separator: str | None, unzipped_limit: float
) -> "Log | Shards":
    """The same, or the shards in a folder, whose columns were said when they were written."""
    from tsdr.shards.folder import read_shards

    if not path.is_dir():
        return read(path, columns, concept_separator, separator, unzipped_limit)
    if columns or concept_separator or separator:
        raise InputError(f"{path}: a folder of shards has its columns; leave out what says how to read a file")
    return read_shards(path)


def mapping_of(columns: list[str] | None) -> dict[str, str]:
    """What `--column OURS=THEIRS` says, ours to theirs."""
    mapping: dict[str, str] = {}
    for pair in columns or []:
        ours, equals, theirs = pair.partition("=")
        if not equals:
            raise InputError(f"--column {pair}: write our name, an equals sign and the file's, as in student=user_id")
        if ours in mapping:
            raise InputError(
                f"--column: {mapping[ours]!r} and {theirs!r} are both mapped to {ours!r}; give one of them"
            )
        mapping[ours] = theirs
    return mapping


def listed(text: str) -> list[str]:
    """What is separated by commas."""
    return [part.strip() for part in text.split(",")]
