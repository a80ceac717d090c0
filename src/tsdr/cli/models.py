"""Commands that train and judge models."""

from pathlib import Path
from typing import Annotated

import typer

from tsdr.cli.shared import (
    BackboneName,
    Columns,
    ConceptSeparator,
    DeviceName,
    Learned,
    LogFile,
    Minimum,
    Scored,
    Separator,
    Size,
    SkipsRead,
    Stopping,
    Students,
    UnzippedLimit,
    Window,
    console,
    listed,
    read,
    read_log_or_shards,
    refuse_shards,
)
from tsdr.defaults import BACKBONE, COMPARED, FOLDS, METHOD, MINIMUM, SEED, UNZIPPED_LIMIT, VALIDATION, Fitting
from tsdr.errors import InputError
from tsdr.methods import NAMES, OBJECTIVES
from tsdr.report.progress import TrainingProgress, resumable
from tsdr.training.options import TrainingOptions

PANEL = "Models"
commands = typer.Typer()

OF_THE_LOG = (
    "log",
    "model",
    "column",
    "concept_separator",
    "separator",
    "unzipped_limit",
    "students",
    "seed",
    "plugin",
)
METHOD_HELP = "Options are changed behind a name, as in tsdr:smoothness=0:clip=0.5/2."
MethodName = Annotated[str, typer.Option(help=f"{METHOD_HELP} One of {', '.join(OBJECTIVES)}.")]
Validation = Annotated[float, typer.Option(min=0.01, max=0.9, help="Share of students to stop by.")]
Workers = Annotated[int, typer.Option(min=1, help="Processes that train a fold each at a time; one shows every epoch.")]
RecordName = Annotated[str | None, typer.Option(help="What to call the log in the records; its own name if left out.")]


@commands.command("audit", rich_help_panel=PANEL)
def audit_command(
    name: Annotated[str | None, typer.Argument(help="A registered backbone, such as akt.")] = None,
    model: Annotated[Path | None, typer.Option(metavar="BUNDLE", help="A trained model instead.")] = None,
) -> None:
    """Prove that no prediction of a model sees the future, and that it keeps the rest of the contract.

    Of a trained model, say, too, for how many concepts right answers lower mastery, or wrong ones raise it.
    """
    from tsdr.backbones.checks import check_backbone
    from tsdr.models.direction import direction_of
    from tsdr.models.model import load
    from tsdr.report.terminal import show_audit, show_direction

    if (name is None) == (model is None):
        raise InputError("name a backbone to audit, or a trained model with --model; one of the two")
    trained = load(model) if model else None
    audit = check_backbone(trained.backbone if trained else str(name))
    show_audit(audit, console)
    if trained:
        show_direction(direction_of(trained), console)
    if not audit.passed:
        raise typer.Exit(1)


@commands.command("fit", rich_help_panel=PANEL)
def fit_command(
    log: Annotated[
        Path, typer.Argument(metavar="LOG", help="CSV, TSV or Parquet, gzipped or not; or a folder of `tsdr shard`.")
    ],
    out: Annotated[Path, typer.Option(metavar="BUNDLE", help="Folder for the trained model.")],
    backbone: BackboneName = BACKBONE,
    method: MethodName = METHOD,
    size: Size = None,
    validation: Validation = VALIDATION,
    window: Window = None,
    learn: Learned = None,
    skips: SkipsRead = None,
    minimum: Minimum = MINIMUM,
    seed: Annotated[int, typer.Option(min=0)] = SEED,
    device: DeviceName = "auto",
    stop_by: Stopping = "loss",
    engine: Annotated[Fitting, typer.Option(help="Train here, or by workers of a Ray cluster together.")] = "process",
    workers: Annotated[int | None, typer.Option(min=1, help="How many share each batch, with --engine ray.")] = None,
    address: Annotated[str | None, typer.Option(help="Of a Ray cluster; one on this machine if left out.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint of an interrupted run.")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Take the place of a bundle that is there.")] = False,
    column: Columns = None,
    concept_separator: ConceptSeparator = None,
    separator: Separator = None,
    unzipped_limit: UnzippedLimit = UNZIPPED_LIMIT,
) -> None:
    """Train a model on all students but the validation share, and write it as a bundle."""
    from tsdr.files import alone
    from tsdr.fitting import fit
    from tsdr.models.bundle import check_target, is_bundle
    from tsdr.report.terminal import show_use

    out = out.resolve()
    check_target(out)
    training = TrainingOptions(seed=seed, device=device, stop_by=stop_by)
    checkpoint = out.with_name(f"{out.name}.checkpoint")
    if is_bundle(out) and not replace:
        if resume and not checkpoint.exists():
            console.print(f"{out}: is finished; --replace trains another model in its place", soft_wrap=True)
            return
        raise InputError(f"{out}: is a bundle already; name another folder, or take its place with --replace")
    with (
        alone(out.with_name(f".{out.name}.fitting"), f"{out}: is being fitted by another command; let it end"),
        TrainingProgress(training, console) as progress,
        resumable("The same command with --resume"),
    ):
        model = fit(
            read_log_or_shards(log, column, concept_separator, separator, unzipped_limit),
            backbone=backbone,
            method=method,
            options=_options(size),
            window=window,
            learned=learn,
            skips=skips,
            minimum=minimum,
            validation=validation,
            training=training,
            checkpoint=checkpoint,
            resume=resume,
            on_epoch=progress.epoch,
            engine=engine,
            workers=workers,
            address=address,
        )
        model.save(out)
    checkpoint.unlink(missing_ok=True)
    about = model.training
    show_use(about["account"], minimum, console)
    console.print(
        f"{out}: {backbone} by {method}, {about['epochs']} epochs, validation {about['validation_score_name']} "
        f"{about['validation_score']:.4f} on {about['validation_students']} students",
        soft_wrap=True,
    )


@commands.command("evaluate", rich_help_panel=PANEL)
def evaluate_command(
    context: typer.Context,
    log: LogFile,
    model: Annotated[
        list[Path] | None,
        typer.Option(metavar="BUNDLE", help="Judge trained models as they are, all by the same answers; repeat it."),
    ] = None,
    backbone: BackboneName = BACKBONE,
    method: Annotated[str, typer.Option(help=f"{METHOD_HELP} One of {', '.join(NAMES[:-1])}.")] = METHOD,
    size: Size = None,
    folds: Annotated[int, typer.Option(min=2)] = FOLDS,
    out: Annotated[Path, typer.Option(help="Folder for the records, one a fold.")] = Path("runs/evaluate"),
    name: RecordName = None,
    window: Window = None,
    score: Scored = None,
    learn: Learned = None,
    skips: SkipsRead = None,
    minimum: Minimum = MINIMUM,
    students: Students = None,
    seed: Annotated[int, typer.Option(min=0)] = SEED,
    workers: Workers = 1,
    device: DeviceName = "auto",
    stop_by: Stopping = "loss",
    column: Columns = None,
    concept_separator: ConceptSeparator = None,
    separator: Separator = None,
    unzipped_limit: UnzippedLimit = UNZIPPED_LIMIT,
) -> None:
    """Cross-validate a model by student, beside baselines; folds that have a record are not run again.

    With --model, nothing is trained: OLD and NEW predict the same answers of the log.
    """
    from tsdr.comparison import compare, show_judged
    from tsdr.judging.trained import judge
    from tsdr.models.model import load
    from tsdr.sampling import sampled

    if model:
        of_training = [name for name in _given(context) if name not in OF_THE_LOG]
        if of_training:
            options = ", ".join(f"--{name.replace('_', '-')}" for name in of_training)
            raise InputError(f"--model judges models as they are, and trains none: leave out {options}")
        told = sampled(read(log, column, concept_separator, separator, unzipped_limit), students, seed)
        with console.status("Predicting"):
            judged = judge(told, [load(folder) for folder in model])
        show_judged([str(folder) for folder in model], judged, console)
        return
    compare(
        read(log, column, concept_separator, separator, unzipped_limit),
        backbone=backbone,
        methods=[method],
        options=_options(size),
        folds=folds,
        window=window,
        scored=score,
        learned=learn,
        skips=skips,
        minimum=minimum,
        students=students,
        training=TrainingOptions(seed=seed, device=device, stop_by=stop_by),
        out=out,
        name=name or log.name.split(".")[0],
        workers=workers,
        console=console,
    ).show(console)


@commands.command("compare", rich_help_panel=PANEL)
def compare_command(
    source: Annotated[
        Path | None, typer.Argument(metavar="[LOG]", help="A log, or a folder written by simulate.")
    ] = None,
    gamma: Annotated[float, typer.Option(min=0, max=1, help="Without a log: simulate one, this selected.")] = 0.8,
    backbone: BackboneName = BACKBONE,
    methods: Annotated[
        str,
        typer.Option(
            help=f"{METHOD_HELP} Separated by commas, of {', '.join(NAMES)}; the last on simulated logs only."
        ),
    ] = ",".join(COMPARED),
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
    folds: Annotated[int, typer.Option(min=2)] = FOLDS,
    out: Annotated[Path, typer.Option(help="Folder for the records, one a method and fold.")] = Path("runs/compare"),
    name: RecordName = None,
    window: Window = None,
    score: Scored = None,
    learn: Learned = None,
    skips: SkipsRead = None,
    minimum: Minimum = MINIMUM,
    students: Students = None,
    seed: Annotated[int, typer.Option(min=0, help="Of folds, training and, without a log, the simulator.")] = SEED,
    workers: Workers = 1,
    device: DeviceName = "auto",
    stop_by: Stopping = "loss",
    column: Columns = None,
    concept_separator: ConceptSeparator = None,
    separator: Separator = None,
    unzipped_limit: UnzippedLimit = UNZIPPED_LIMIT,
) -> None:
    """Compare methods on the same folds: on logged answers and, for a simulated log, against the truth."""
    from tsdr.comparison import compare
    from tsdr.log import Log
    from tsdr.simulator import Simulation, read_simulation, simulate

    log: Log | Simulation
    if source is None:
        log = simulate(gamma, seed=seed)
    elif source.is_dir():
        refuse_shards(source)
        log, name = read_simulation(source), name or source.name
    else:
        log, name = (
            read(source, column, concept_separator, separator, unzipped_limit),
            name or source.name.split(".")[0],
        )
    compare(
        log,
        backbone=backbone,
        methods=listed(methods),
        options=_options(size),
        folds=folds,
        window=window,
        scored=score,
        learned=learn,
        skips=skips,
        minimum=minimum,
        students=students,
        training=TrainingOptions(seed=seed, device=device, stop_by=stop_by),
        watch_bound=watch_bound,
        estimate_risk=estimate_risk,
        out=out,
        name=name,
        workers=workers,
        console=console,
    ).show(console)


@commands.command("tune", rich_help_panel=PANEL)
def tune_command(
    log: LogFile,
    backbone: BackboneName = BACKBONE,
    trials: Annotated[int, typer.Option(min=1, help="How many settings to try, those of earlier calls included.")] = 20,
    storage: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Where trials are kept; sqlite:///LOG.tune.db, in this folder, if left out."),
    ] = None,
    size: Size = None,
    validation: Annotated[float, typer.Option(min=0.01, max=0.9, help="Share of students to tune on.")] = VALIDATION,
    window: Window = None,
    minimum: Minimum = MINIMUM,
    seed: Annotated[int, typer.Option(min=0)] = SEED,
    device: DeviceName = "auto",
    column: Columns = None,
    concept_separator: ConceptSeparator = None,
    separator: Separator = None,
    unzipped_limit: UnzippedLimit = UNZIPPED_LIMIT,
) -> None:
    """Tune smoothness, alpha and the clip of tsdr's weights on validation students; call again to go on."""
    from tsdr.backbones.contract import skips_are_read, usual_window
    from tsdr.experiments.tuning import tune
    from tsdr.sequences import Sequences

    in_view = window or usual_window(backbone)
    told = read(log, column, concept_separator, separator, unzipped_limit)
    skips = skips_are_read(backbone, told.skipped_offers)
    sequences = Sequences.from_log(told, window=in_view, minimum=minimum, skips=skips)
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


def _given(context: typer.Context) -> list[str]:
    """The options that were given, not left at their defaults."""
    return [name for name in context.params if str(context.get_parameter_source(name)).endswith("COMMANDLINE")]


def _options(size: str | None) -> dict[str, str]:
    return {} if size is None else {"size": size}
