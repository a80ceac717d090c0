"""Commands that train and judge models."""

from pathlib import Path
from typing import Annotated

import typer

from tsdr.backbones import backbone_names
from tsdr.backbones.checks import check_backbone
from tsdr.cli.shared import Columns, ConceptSeparator, LogFile, Minimum, Separator, console, listed, read
from tsdr.comparison import compare
from tsdr.debias.objective import METHODS, DebiasOptions
from tsdr.errors import InputError
from tsdr.evaluation.crossval import ALL_METHODS, Experiment, cross_validate, cross_validate_baselines
from tsdr.evaluation.records import RecordFolder
from tsdr.experiments.tuning import tune
from tsdr.report.progress import TrainingProgress, resumable
from tsdr.report.terminal import show_audit, show_records
from tsdr.sequences import Folds, Sequences
from tsdr.simulator import Truth, read_simulation, simulate
from tsdr.training.bundle import check_target, read_bundle
from tsdr.training.fitting import fit_bundle
from tsdr.training.trainer import Device, TrainingOptions

PANEL = "Models"
commands = typer.Typer()

METHOD_HELP = "Options are changed behind a name, as in tsdr:smoothness=0:clip=0.5/2."
BackboneName = Annotated[str, typer.Option(help=f"One of {', '.join(backbone_names())}.")]
Size = Annotated[str | None, typer.Option(help="paper or light; the backbone's default if left out.")]
Window = Annotated[int, typer.Option(min=2, help="How many of a student's latest answers are used.")]
DeviceName = Annotated[Device, typer.Option(help="Where to compute.")]


@commands.command("audit", rich_help_panel=PANEL)
def audit_command(
    name: Annotated[str | None, typer.Argument(help="A registered backbone, such as akt.")] = None,
    model: Annotated[Path | None, typer.Option(metavar="BUNDLE", help="A trained model instead.")] = None,
) -> None:
    """Prove that no prediction of a model sees the future, and that it keeps the rest of the contract."""
    if (name is None) == (model is None):
        raise InputError("name a backbone to audit, or a trained model with --model; one of the two")
    audit = check_backbone(read_bundle(model).model if model else str(name))
    show_audit(audit, console)
    if not audit.passed:
        raise typer.Exit(1)


@commands.command("fit", rich_help_panel=PANEL)
def fit_command(
    log: LogFile,
    out: Annotated[Path, typer.Option(metavar="BUNDLE", help="Folder for the trained model.")],
    backbone: BackboneName = "simplekt",
    method: Annotated[str, typer.Option(help=f"{METHOD_HELP} One of {', '.join(METHODS)}.")] = "naive",
    size: Size = None,
    validation: Annotated[float, typer.Option(min=0.01, max=0.9, help="Share of students to stop by.")] = 0.1,
    window: Window = 50,
    minimum: Minimum = 5,
    seed: Annotated[int, typer.Option(min=0)] = 42,
    device: DeviceName = "auto",
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint of an interrupted run.")] = False,
    column: Columns = None,
    concept_separator: ConceptSeparator = None,
    separator: Separator = None,
) -> None:
    """Train a model on all students but the validation share, and write it as a bundle."""
    out = out.resolve()
    check_target(out)
    training = TrainingOptions(seed=seed, device=device)
    sequences = Sequences.from_log(read(log, column, concept_separator, separator), window=window, minimum=minimum)
    checkpoint = out.with_name(f"{out.name}.checkpoint")
    with TrainingProgress(training, console) as progress, resumable("The same command with --resume"):
        bundle = fit_bundle(
            sequences,
            backbone=backbone,
            options=_options(size),
            training=training,
            debias=DebiasOptions.of_method(method),
            validation=validation,
            checkpoint=checkpoint,
            resume=resume,
            on_epoch=progress.epoch,
        )
    bundle.write(out)
    checkpoint.unlink(missing_ok=True)
    console.print(
        f"{out}: {backbone}, {bundle.training['epochs']} epochs, validation AUC "
        f"{bundle.training['validation_auc']:.4f} on {bundle.training['validation_students']} students",
        soft_wrap=True,
    )


@commands.command("evaluate", rich_help_panel=PANEL)
def evaluate_command(
    log: LogFile,
    backbone: BackboneName = "simplekt",
    size: Size = None,
    folds: Annotated[int, typer.Option(min=2)] = 5,
    out: Annotated[Path, typer.Option(help="Folder for the records, one a fold.")] = Path("runs/evaluate"),
    name: Annotated[
        str | None, typer.Option(help="What to call the log in the records; its file name if left out.")
    ] = None,
    window: Window = 50,
    minimum: Minimum = 5,
    seed: Annotated[int, typer.Option(min=0)] = 42,
    device: DeviceName = "auto",
    column: Columns = None,
    concept_separator: ConceptSeparator = None,
    separator: Separator = None,
) -> None:
    """Cross-validate a model by student, beside baselines; folds that have a record are not run again."""
    training = TrainingOptions(seed=seed, device=device)
    sequences = Sequences.from_log(read(log, column, concept_separator, separator), window=window, minimum=minimum)
    experiment = Experiment(
        name or log.name.split(".")[0],
        sequences,
        Folds.by_student(sequences.student, folds, seed=seed),
        RecordFolder(out),
    )
    with TrainingProgress(training, console, folds) as progress, resumable("The same command"):
        done = list(
            cross_validate(
                experiment, backbone=backbone, options=_options(size), training=training, on_epoch=progress.fold_epoch
            )
        )
    done = [*cross_validate_baselines(experiment), *done]
    show_records(done, console)


@commands.command("compare", rich_help_panel=PANEL)
def compare_command(
    source: Annotated[
        Path | None, typer.Argument(metavar="[LOG]", help="A log, or a folder written by simulate.")
    ] = None,
    gamma: Annotated[float, typer.Option(min=0, max=1, help="Without a log: simulate one, this selected.")] = 0.8,
    backbone: BackboneName = "dkt",
    methods: Annotated[
        str,
        typer.Option(
            help=f"{METHOD_HELP} Separated by commas, of {', '.join(ALL_METHODS)}; the last on simulated logs only."
        ),
    ] = "naive,ipw,tsdr",
    watch_bound: Annotated[
        bool, typer.Option("--watch-bound", help="On a simulated log: keep both terms of the bound after each epoch.")
    ] = False,
    estimate_risk: Annotated[
        bool,
        typer.Option(
            "--estimate-risk", help="Estimate the risk over all concepts from the log, by models of its selection."
        ),
    ] = False,
    size: Size = None,
    folds: Annotated[int, typer.Option(min=2)] = 5,
    out: Annotated[Path, typer.Option(help="Folder for the records, one a method and fold.")] = Path("runs/compare"),
    name: Annotated[str | None, typer.Option(help="What to call the log in the records.")] = None,
    window: Window = 50,
    minimum: Minimum = 5,
    seed: Annotated[int, typer.Option(min=0, help="Of folds, training and, without a log, the simulator.")] = 42,
    device: DeviceName = "auto",
    column: Columns = None,
    concept_separator: ConceptSeparator = None,
    separator: Separator = None,
) -> None:
    """Compare methods on the same folds: on logged answers and, for a simulated log, against the truth."""
    truth: Truth | None = None
    if source is None or source.is_dir():
        simulation = simulate(gamma, seed=seed) if source is None else read_simulation(source)
        log, truth = simulation.log, simulation.truth
        dataset = f"simulated-gamma{gamma:g}" if source is None else source.name
    else:
        log, dataset = read(source, column, concept_separator, separator), source.name.split(".")[0]
    sequences = Sequences.from_log(log, window=window, minimum=minimum)
    assignment = Folds.by_student(sequences.student, folds, seed=seed)
    experiment = Experiment(name or dataset, sequences, assignment, RecordFolder(out), truth)
    compare(
        experiment,
        backbone=backbone,
        methods=listed(methods),
        options=_options(size),
        training=TrainingOptions(seed=seed, device=device),
        console=console,
        watch_bound=watch_bound,
        estimate_risk=estimate_risk,
    )


@commands.command("tune", rich_help_panel=PANEL)
def tune_command(
    log: LogFile,
    backbone: BackboneName = "simplekt",
    trials: Annotated[int, typer.Option(min=1, help="How many settings to try, those of earlier calls included.")] = 20,
    storage: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Where trials are kept; sqlite:///LOG.tune.db, in this folder, if left out."),
    ] = None,
    size: Size = None,
    validation: Annotated[float, typer.Option(min=0.01, max=0.9, help="Share of students to tune on.")] = 0.1,
    window: Window = 50,
    minimum: Minimum = 5,
    seed: Annotated[int, typer.Option(min=0)] = 42,
    device: DeviceName = "auto",
    column: Columns = None,
    concept_separator: ConceptSeparator = None,
    separator: Separator = None,
) -> None:
    """Tune smoothness, alpha and the clip of tsdr's weights on validation students; call again to go on."""
    sequences = Sequences.from_log(read(log, column, concept_separator, separator), window=window, minimum=minimum)
    where = storage or f"sqlite:///{log.name.split('.')[0]}.tune.db"
    with console.status("Tuning"), resumable("The same command", "the last whole trial"):
        best = tune(
            sequences,
            backbone=backbone,
            options=_options(size),
            training=TrainingOptions(seed=seed, device=device),
            trials=trials,
            storage=where,
            validation=validation,
            on_trial=lambda number, method, value: console.print(f"trial {number}: {method} AUC {value:.4f}"),
        )
    console.print(
        f"The best of {best.trials} trials on logged answers of {best.students} validation students: AUC "
        f"{best.validation_auc:.4f}, against {best.default_auc:.4f} by the defaults. The same students chose it, so "
        f"cross-validate before you believe the gain.\n--method {best.method}",
        soft_wrap=True,
    )


def _options(size: str | None) -> dict[str, str]:
    return {} if size is None else {"size": size}
