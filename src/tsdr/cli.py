"""The command line: `tsdr COMMAND`."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import typer
from pydantic import ValidationError
from rich.console import Console
from rich.progress import track

from tsdr.backbones import backbone_names
from tsdr.backbones.checks import check_backbone
from tsdr.comparison import compare, show_grid
from tsdr.datasets import SOURCES, Sample, Unanswered, prepare
from tsdr.debias.objective import METHODS, DebiasOptions
from tsdr.errors import InputError, extra_missing, in_a_sentence
from tsdr.evaluation.crossval import ALL_METHODS, Experiment, cross_validate, cross_validate_baselines
from tsdr.evaluation.diagnostics import diagnose
from tsdr.evaluation.records import RecordFolder
from tsdr.experiments.engines import Engine, Processes, RayCluster
from tsdr.experiments.paper import BACKBONES, FOLDS, LAMBDAS, SEED, STUDIES, plan_study, source_named
from tsdr.experiments.tuning import tune
from tsdr.inspection import inspect_log
from tsdr.log import Log, read_log
from tsdr.report.progress import TrainingProgress, complain, resumable
from tsdr.report.terminal import (
    show_account,
    show_audit,
    show_datasets,
    show_inspection,
    show_mastery,
    show_records,
    show_verdict,
)
from tsdr.sequences import Folds, Sequences, Unknown
from tsdr.serving.model import load
from tsdr.simulator import Recommender, Truth, read_simulation, simulate
from tsdr.tables import write_table
from tsdr.training.bundle import check_target, keep_diagnosis, read_bundle
from tsdr.training.fitting import fit_bundle
from tsdr.training.trainer import Device, TrainingOptions

Number = TypeVar("Number", int, float)
EngineName = Literal["processes", "ray"]

app = typer.Typer(
    help="Debiased knowledge tracing: what students really know, from selected logs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
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
METHOD_HELP = "Options are changed behind a name, as in tsdr:smoothness=0:clip=0.5/2."
BackboneName = Annotated[str, typer.Option(help=f"One of {', '.join(backbone_names())}.")]
Size = Annotated[str | None, typer.Option(help="paper or light; the backbone's default if left out.")]
Window = Annotated[int, typer.Option(min=2, help="How many of a student's latest answers are used.")]
Minimum = Annotated[int, typer.Option(min=2, help="Students with fewer answers are left out.")]
DeviceName = Annotated[Device, typer.Option(help="Where to compute.")]
BundleFolder = Annotated[Path, typer.Argument(metavar="BUNDLE", help="A model that `tsdr fit` wrote.")]
UnknownConcepts = Annotated[Unknown, typer.Option(help="What to do with concepts that the model does not know.")]
StoreUrl = Annotated[str, typer.Option(metavar="URL", help="sqlite:///FILE or postgresql://...")]
DEFAULT_STORE = "sqlite:///students.db"
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


@app.command("datasets")
def datasets_command() -> None:
    """List the data sets that can be prepared: where they are published, on which terms, which files are expected."""
    show_datasets(SOURCES.values(), console)


@app.command("prepare")
def prepare_command(
    name: Annotated[str, typer.Argument(help="A data set of `tsdr datasets`, such as ednet.")],
    raw: Annotated[Path, typer.Argument(help="The folder that its download unpacked to.")],
    out: Annotated[Path, typer.Option(metavar="LOG.parquet", help="Where to write the log.")],
    sample: Annotated[
        str, typer.Option(help="How many students to draw; paper: as many as the paper did; all: do not draw.")
    ] = "paper",
    seed: Annotated[int, typer.Option(min=0, help="Of the sample.")] = 42,
    minimum: Annotated[int, typer.Option(min=1, help="Students with fewer answers are left out.")] = 5,
    unanswered: Annotated[
        Unanswered, typer.Option(help="What becomes of \"I don't know\" (Slepemapy); drop is the paper's rule.")
    ] = "skipped",
) -> None:
    """Turn the files of a data set, as they are downloaded, into a log, and account for every row."""
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


@app.command("audit")
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


@app.command("fit")
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
    sequences = Sequences.from_log(_read(log, column, concept_separator, separator), window=window, minimum=minimum)
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


@app.command("evaluate")
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
    sequences = Sequences.from_log(_read(log, column, concept_separator, separator), window=window, minimum=minimum)
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


@app.command("compare")
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
        log, dataset = _read(source, column, concept_separator, separator), source.name.split(".")[0]
    sequences = Sequences.from_log(log, window=window, minimum=minimum)
    assignment = Folds.by_student(sequences.student, folds, seed=seed)
    experiment = Experiment(name or dataset, sequences, assignment, RecordFolder(out), truth)
    compare(
        experiment,
        backbone=backbone,
        methods=_listed(methods),
        options=_options(size),
        training=TrainingOptions(seed=seed, device=device),
        console=console,
        watch_bound=watch_bound,
        estimate_risk=estimate_risk,
    )


@app.command("diagnose")
def diagnose_command(
    source: Annotated[Path, typer.Argument(metavar="LOG", help="A log, or a folder written by simulate.")],
    out: Annotated[Path, typer.Option(metavar="PAGE.html", help="The page; its numbers are written beside it.")],
    model: Annotated[
        Path | None,
        typer.Option(metavar="BUNDLE", help="Measure this model, not a quick dkt, and keep what is found with it."),
    ] = None,
    window: Annotated[
        int | None, typer.Option(min=2, help="How many of a student's latest answers are used; the model's, or 50.")
    ] = None,
    minimum: Minimum = 5,
    seed: Annotated[int, typer.Option(min=0)] = 42,
    column: Columns = None,
    concept_separator: ConceptSeparator = None,
    separator: Separator = None,
) -> None:
    """Say whether a log is a fair sample, how it was selected, and whether weights can repair it."""
    from tsdr.report.diagnosis import write_diagnosis  # the charts take long to import, and other commands draw none

    bundle = read_bundle(model) if model else None
    log = read_simulation(source).offers() if source.is_dir() else _read(source, column, concept_separator, separator)
    with console.status("Diagnosing") as status:
        diagnosis = diagnose(log, bundle, window=window, minimum=minimum, seed=seed, on_stage=status.update)
        numbers = write_diagnosis(diagnosis, source.name.split(".")[0], out)
        if model:
            keep_diagnosis(model, diagnosis.model_dump_json(indent=1))
    show_verdict(diagnosis, console)
    console.print(f"\nThe page: {out}\nIts numbers: {numbers}", soft_wrap=True)


@app.command("reproduce")
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
        str, typer.Option(help="Of several, each fold takes the one that is best on its validation students.")
    ] = ",".join(f"{value:g}" for value in LAMBDAS),
    engine: Annotated[EngineName, typer.Option(help="Where to compute.")] = "processes",
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; as many as cores if left out.")] = None,
    address: Annotated[str | None, typer.Option(help="Of a Ray cluster; one on this machine if left out.")] = None,
    column: Columns = None,
) -> None:
    """Run an experiment of the paper; runs that have a record are not run again."""
    if study not in STUDIES:
        raise InputError(f"there is no study {study!r}; choose from {', '.join(STUDIES)}")
    chosen = STUDIES[study]
    mapping = _mapping(column)
    names = _listed(datasets) if datasets else list(chosen.datasets)
    records = RecordFolder(out)
    jobs = list(
        plan_study(
            chosen,
            [source_named(name, data, mapping) for name in names],
            _listed(backbones),
            chosen.methods(_numbers("--lambdas", lambdas, float)),
            records,
            folds=folds,
            seeds=_numbers("--seeds", seeds, int),
        )
    )
    if (engine == "processes" and address) or (engine == "ray" and workers):
        raise InputError("--address is of the ray engine, --workers of the other")
    if engine == "ray" and chosen.timed:
        raise InputError(f"{study} measures runs that are alone on the machine; use --engine processes")
    computing: Engine = Processes(1 if chosen.timed else workers, fresh=chosen.timed)
    if engine == "ray":
        computing = RayCluster(address)
    if not show_grid(jobs, records, computing, console):
        raise typer.Exit(1)


@app.command("tune")
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
    sequences = Sequences.from_log(_read(log, column, concept_separator, separator), window=window, minimum=minimum)
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


@app.command("report")
def report_command(
    results: Annotated[Path, typer.Argument(help="A folder of records; those in its folders count, too.")],
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
) -> None:
    """Write what records came to, beside the paper's numbers, as one HTML page that needs nothing else."""
    from tsdr.report.results.page import write_results  # the plots take long to import

    with console.status("Working out intervals and drawing"):
        found = write_results(results, out)
    skipped = f"; {found.unread} JSON files are no records" if found.unread else ""
    console.print(f"{out}: {len(found.records)} runs, {found.repeated} found twice{skipped}", soft_wrap=True)


@app.command("predict")
def predict_command(
    bundle: BundleFolder,
    log: LogFile,
    out: Annotated[Path, typer.Option(metavar="TABLE", help="Where to write them: .parquet or .csv.")],
    unknown: UnknownConcepts = "error",
    column: Columns = None,
    concept_separator: ConceptSeparator = None,
    separator: Separator = None,
) -> None:
    """Predict every answer of a log from the student's answers before it."""
    model = load(bundle)
    with console.status("Predicting"):
        predicted = model.predict_log(_read(log, column, concept_separator, separator), unknown=unknown)
    write_table(predicted, out)
    console.print(
        f"{out}: {predicted.height:,} answers, {predicted['success'].null_count():,} of them without a prediction",
        soft_wrap=True,
    )


@app.command("mastery")
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
) -> None:
    """Say what the students of a log master after their last answer, concept by concept."""
    model = load(bundle)
    with console.status("Predicting"):
        found = model.mastery_log(_read(log, column, concept_separator, separator), unknown=unknown)
    if student is not None and student not in found["student"]:
        raise InputError(f"{log}: there is no student {student!r} in it with an answer that the model can read")
    show_mastery(found, student, console)
    if out is not None:
        write_table(found, out)
        console.print(f"Every student and concept: {out}", soft_wrap=True)


@app.command("export")
def export_command(
    bundle: BundleFolder,
    onnx: Annotated[Path, typer.Option("--onnx", metavar="FILE", help="The ONNX file to write.")],
) -> None:
    """Write a model as ONNX, to run where there is no torch."""
    from tsdr.serving.onnx import export_onnx

    with console.status("Exporting, which takes up to a minute"):
        export_onnx(load(bundle), onnx)
    console.print(f"{onnx}: what goes in and comes out is in docs/serving.md", soft_wrap=True)


@app.command("enroll")
def enroll_command(
    log: LogFile,
    store: StoreUrl = DEFAULT_STORE,
    column: Columns = None,
    concept_separator: ConceptSeparator = None,
    separator: Separator = None,
) -> None:
    """Bring the answers of a log into a store, so that the service knows its students; twice adds nothing."""
    with _serving_installed():
        from tsdr.serving.store import without_password
        from tsdr.serving.transfer import enroll
    read = _read(log, column, concept_separator, separator)
    added = 0
    with resumable("The same command", "the last student"):
        enrolled = enroll(read, store)
        for count in track(enrolled, "Enrolling", len(read.students), console=console, transient=True):
            added += count
    where = without_password(store)
    console.print(f"{where}: {added:,} answers of {len(read.students):,} students added", soft_wrap=True)


@app.command("collect")
def collect_command(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Gets log.parquet and offers.parquet.")],
    store: StoreUrl = DEFAULT_STORE,
) -> None:
    """Take the answers of a store as a log to learn from, and the offers with their propensities."""
    with _serving_installed():
        from tsdr.serving.transfer import collect
    log, offers = collect(store, out)
    console.print(
        f"{out}: {len(log):,} answers of {len(log.students):,} students (log.parquet), {offers.height:,} offers "
        "(offers.parquet)",
        soft_wrap=True,
    )


@app.command("serve")
def serve_command(
    bundle: BundleFolder,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535)] = 8000,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Processes.")] = 1,
    store: StoreUrl = DEFAULT_STORE,
) -> None:
    """Serve a model: answers in, mastery out, over HTTP, with a page; TSDR_TOKEN in the environment is asked for."""
    with _serving_installed():
        from tsdr.serving.server import TOKEN, check, is_loopback, serve
        from tsdr.serving.store import without_password
    if not is_loopback(host) and not os.environ.get(TOKEN):
        complain("warning:", f"{host} is reached from other machines, and no {TOKEN} is set: anybody may read it all")
    check(bundle, store)
    shown = f"[{host}]" if ":" in host else host
    console.print(
        f"Serving {bundle} at http://{shown}:{port}/ (Ctrl-C stops it); students in {without_password(store)}",
        soft_wrap=True,
    )
    serve(bundle, store, host, port, workers)


@app.command("demo")
def demo_command(
    out: Annotated[Path, typer.Option(help="Folder for what the demo makes.")] = Path("runs/demo"),
    students: Annotated[int, typer.Option(min=50, help="How many to simulate; fewer take less time.")] = 1000,
) -> None:
    """Run the main job on a built-in simulated log: what is lost by learning from it plainly, and what is won back."""
    with _serving_installed():
        from tsdr.demo import run_demo  # the plots take long to import

    run_demo(out, console, students)


@contextmanager
def _serving_installed() -> Iterator[None]:
    """Say what to install if the extra is missing."""
    try:
        yield
    except ImportError as error:
        raise extra_missing(f"{error.name} is missing", "serve") from error


def main() -> None:
    """Run the command line; input that is refused ends in one sentence and exit code 2."""
    try:
        app()
    except InputError as error:
        _fail(str(error))
    except OSError as error:
        _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except ValidationError as error:
        _fail(in_a_sentence(error))


def _read(path: Path, columns: list[str] | None, concept_separator: str | None, separator: str | None) -> Log:
    return read_log(path, _mapping(columns), concept_separator=concept_separator, separator=separator)


def _mapping(columns: list[str] | None) -> dict[str, str]:
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


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")]


def _numbers(option: str, text: str, kind: Callable[[str], Number]) -> list[Number]:
    try:
        return [kind(part) for part in _listed(text)]
    except ValueError as error:
        raise InputError(f"{option} {text}: give numbers, separated by commas") from error


def _options(size: str | None) -> dict[str, str]:
    return {} if size is None else {"size": size}


def _fail(message: str) -> None:
    complain("error:", message)
    sys.exit(2)
