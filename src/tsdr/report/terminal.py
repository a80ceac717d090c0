"""Results as text on a terminal."""

import statistics
from collections.abc import Iterable

import polars as pl
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tsdr.backbones.checks import Audit
from tsdr.datasets import Account, Source
from tsdr.evaluation.changes import Change, change, corrected
from tsdr.evaluation.collection import on_common_folds
from tsdr.evaluation.diagnosis import Diagnosis
from tsdr.evaluation.gap import GapShare, gap_share
from tsdr.evaluation.metrics import METRICS
from tsdr.evaluation.offpolicy import ESTIMATED, RESTS_ON
from tsdr.evaluation.records import Record
from tsdr.inspection import Inspection

TRUE_METRICS = ("true_bce", "true_rmse", "true_auc")
CHANGED = ("auc", "log_loss", "true_bce", "true_auc", *ESTIMATED)
SHOWN_CONCEPTS = 30
ENDS = ("naive", "random-exposure")  # of the gap


def show_inspection(inspection: Inspection, console: Console) -> None:
    """Print what is in a log and the first thing that looks wrong."""
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in inspection.rows():
        table.add_row(name, value)
    console.print(table)
    if inspection.oddity:
        console.print(Text.assemble("\n", ("Looks wrong:", "bold yellow"), " ", inspection.oddity), soft_wrap=True)
    else:
        console.print("\nNothing looks wrong.")


def show_mastery(mastery: pl.DataFrame, student: str | None, console: Console) -> None:
    """Print mastery by concept, the weakest first: of one student, or the mean over all with their spread."""
    own = mastery if student is None else mastery.filter(pl.col("student") == student)
    found = own.group_by("concept").agg(
        mean=pl.col("mastery").mean(), low=pl.col("mastery").quantile(0.1), high=pl.col("mastery").quantile(0.9)
    )
    table = Table(box=None, pad_edge=False)
    table.add_column("concept", overflow="fold")
    table.add_column("mastery", justify="right")
    if student is None:
        table.add_column("middle 80 % of students", justify="right", no_wrap=True)
    for concept, mean, low, high in found.sort("mean", "concept").head(SHOWN_CONCEPTS).iter_rows():
        table.add_row(concept, f"{mean:.3f}", *([f"{low:.3f} to {high:.3f}"] if student is None else []))
    console.print(table)
    who = f"student {student}" if student else f"mean over {mastery['student'].n_unique():,} students"
    more = f"; the weakest {SHOWN_CONCEPTS} of {found.height:,} concepts" if found.height > SHOWN_CONCEPTS else ""
    console.print(f"Chance that the next answer is right, {who}{more}.", soft_wrap=True)


def show_account(account: Account, console: Console) -> None:
    """Print what became of the rows that were read, and how large the log is, beside the paper's."""
    rows = Table(show_header=False, box=None, pad_edge=False)
    rows.add_column(overflow="fold")
    rows.add_column(justify="right", no_wrap=True)
    rows.add_row(f"{account.dataset}: rows read", f"{account.read:,}", style="bold")
    for reason, count in account.dropped.items():
        rows.add_row(f"  dropped: {reason}", f"{-count:,}")
    rows.add_row("rows of the log", f"{account.counts.interactions + account.skipped:,}", style="bold")
    for what, count in account.notes.items():
        rows.add_row(f"  note: {what}", f"{count:,}")
    console.print(rows)
    sizes = Table("", "here", *(["paper"] if account.paper else []))
    for name in ("students", "questions", "concepts", "interactions"):
        paper = [f"{getattr(account.paper, name):,}"] if account.paper else []
        sizes.add_row(name, f"{getattr(account.counts, name):,}", *paper)
    sizes.add_row("share right", f"{account.share_right:.1%}", *(["-"] if account.paper else []))
    console.print(sizes)


def show_verdict(diagnosis: Diagnosis, console: Console) -> None:
    """Print what a diagnosis comes to."""
    verdict, risk = diagnosis.verdict, diagnosis.risk
    console.print(Text(verdict.headline, "bold"), soft_wrap=True)
    for reason in verdict.reasons:
        console.print(Text(f"- {reason}"), soft_wrap=True)
    unknown = diagnosis.subject.unknown_concept_answers
    if unknown:
        console.print(f"- {unknown:,} answers to concepts that the model does not know are left out.", soft_wrap=True)
    console.print(
        f"Risk of the {diagnosis.subject.model} over all concepts: naive {risk.naive.value:.4f}, snips "
        f"{risk.snips.value:.4f}, dr {risk.dr.value:.4f}; the last two are {RESTS_ON}.",
        soft_wrap=True,
    )
    console.print(Text("What to do next", "bold"))
    for step in verdict.next:
        console.print(Text(f"- {step}"), soft_wrap=True)


def show_datasets(sources: Iterable[Source], console: Console) -> None:
    """Print what can be prepared: a block for each, so that nothing is cut off on a narrow or piped terminal."""
    for source in sources:
        console.print(Text(source.name, "bold"))
        lines = {
            "what": source.what,
            "published": source.published,
            "terms": source.terms,
            "files": source.files,
        }
        if source.paper:
            size = source.paper
            lines["paper"] = (
                f"{size.students:,} students, {size.questions:,} questions, {size.concepts:,} concepts, "
                f"{size.interactions:,} interactions"
            )
        for name, value in lines.items():
            console.print(Text(f"  {name:<10} {value}"), soft_wrap=True)


def show_audit(audit: Audit, console: Console) -> None:
    """Print every check with its worst deviation and where it is."""
    table = Table("check", "worst deviation", "allowed", "where", "")
    for check in audit.checks:
        verdict = Text("pass", "green") if check.passed else Text("FAIL", "bold red")
        table.add_row(check.name, f"{check.worst:.2g}", f"{check.allowed:.2g}", check.where, verdict)
    console.print(table)


def show_records(records: Iterable[Record], console: Console) -> None:
    """Print the mean of each metric on logged answers over folds and seeds, with its deviation between them."""
    table = _table(*METRICS, caption="on logged answers of held-out students: mean ± sd over runs")
    for key, runs in grouped(records).items():
        table.add_row(*key, str(len(runs)), *(_mean_and_spread(runs, name) for name in METRICS))
    console.print(table)


def show_truth(records: Iterable[Record], console: Console) -> None:
    """Print the metrics over all cells of a simulated log and, where it was run, the share of the gap closed."""
    groups = grouped(records)
    metrics = _table(*TRUE_METRICS, caption="on every concept at every step of held-out students: mean ± sd over runs")
    shares = _table(
        "BCE",
        "RMSE",
        "AUC",
        caption="share of the gap from naive to random-exposure that is closed; 95 % interval over students",
    )
    for key, runs in groups.items():
        metrics.add_row(*key, str(len(runs)), *(_mean_and_spread(runs, name) for name in TRUE_METRICS))
        naive, oracle = (groups.get((*key[:2], other), []) for other in ENDS)
        naive, common, oracle = on_common_folds([naive, runs, oracle])
        if common and key[2] not in ENDS:
            closed = (_share(gap_share(naive, common, oracle, metric)) for metric in TRUE_METRICS)
            shares.add_row(*key, str(len(common)), *closed)
    console.print(metrics)
    if shares.row_count:
        console.print(shares)


def show_estimates(records: Iterable[Record], console: Console) -> None:
    """Print the risk over all concepts as it is estimated from the log."""
    table = _table(*ESTIMATED, caption=f"cross-entropy over every concept and step, mean ± sd over runs: {RESTS_ON}")
    for key, runs in grouped(records).items():
        table.add_row(*key, str(len(runs)), *(_mean_and_spread(runs, name) for name in ESTIMATED))
    console.print(table)


def show_costs(records: Iterable[Record], console: Console) -> None:
    """Print the time of an epoch and the peak memory of runs that were alone in their processes, and over naive's."""
    table = _table(
        "s an epoch",
        "over naive's",
        "peak MiB",
        "over naive's",
        caption="each run alone in a process of its own: mean ± sd over runs; ratios of means on the same folds",
    )
    groups = grouped(records)
    for key, runs in groups.items():
        before, after = on_common_folds([groups.get((*key[:2], "naive"), []), runs])
        cells = []
        for name, form in (("seconds_an_epoch", ".2f"), ("peak_memory_mib", ".0f")):
            own, naive, common = ([getattr(run, name) for run in group] for group in (runs, before, after))
            ratio = f"{statistics.mean(common) / statistics.mean(naive):.2f}" if naive else "-"
            cells += [_spread(own, form), ratio]
        table.add_row(*key, str(len(runs)), *cells)
    console.print(table)


def show_changes(records: Iterable[Record], console: Console) -> None:
    """Print what each method changes against naive training, over the same students, with Holm's correction."""
    groups = grouped(records)
    rows, found = [], []
    for key, runs in groups.items():
        naive = groups.get((*key[:2], "naive"), [])
        before, after = on_common_folds([naive, runs])
        if key[2] != "naive" and before:
            rows.append((*key, str(len(after))))
            found += [change(before, after, metric) for metric in CHANGED]
    if not any(found):
        return
    shown = [metric for place, metric in enumerate(CHANGED) if any(found[place :: len(CHANGED)])]
    cells = [_change(one) for one in corrected(found)]
    tests = sum(one is not None and one.p is not None for one in found)
    table = _table(
        *shown,
        caption="change against naive on the same folds, 95 % interval over students; *: stands, over students and "
        f"over runs, after Holm's correction over the {tests} tests",
    )
    for place, row in enumerate(rows):
        of_row = dict(zip(CHANGED, cells[place * len(CHANGED) :][: len(CHANGED)], strict=True))
        table.add_row(*row, *(of_row[metric] for metric in shown))
    console.print(table)


def _change(found: Change | None) -> str:
    if found is None:
        return "-"
    if found.interval is None:
        return f"{found.difference:+.4f}"
    low, high = found.interval
    return f"{found.difference:+.4f}{'*' if found.significant else ''} ({low:+.4f} to {high:+.4f})"


def _table(*columns: str, caption: str) -> Table:
    """A table of runs whose names are not cut off."""
    table = Table(caption=caption)
    for name in ("log", "model", "method", "runs"):
        table.add_column(name, no_wrap=True)
    for name in columns:
        table.add_column(name)
    return table


def grouped(records: Iterable[Record]) -> dict[tuple[str, str, str], list[Record]]:
    """Records by log, model and method."""
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        groups.setdefault((record.dataset, record.backbone, record.method), []).append(record)
    return groups


def _mean_and_spread(runs: list[Record], metric: str) -> str:
    return _spread([run.metrics[metric] for run in runs], ".4f")


def _spread(values: list[float], form: str) -> str:
    deviation = f" ± {statistics.stdev(values):{form}}" if len(values) > 1 else ""
    return f"{statistics.mean(values):{form}}{deviation}"


def _share(closed: GapShare) -> str:
    if closed.share is None or closed.interval is None:
        return "no gap to speak of"
    low, high = closed.interval
    return f"{closed.share:.0%} ({low:.0%} to {high:.0%})"
