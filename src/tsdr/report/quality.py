"""What runs came to, as tables on a terminal: on logged answers, against the truth, as estimated, and what it cost."""

import math
import statistics
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table

from tsdr.diagnosis.findings import RESTS_ON
from tsdr.methods import BASELINE, NAIVE, ORACLE, Method
from tsdr.metrics import METRICS
from tsdr.records.baselines import Groups, behind, grouped
from tsdr.records.changes import Change, change, corrected, mean, standard_error
from tsdr.records.collection import on_common_folds
from tsdr.records.gap import GapShare, gap_share
from tsdr.records.run import ESTIMATED, LIMIT, Record

TRUE_METRICS = ("true_bce", "true_rmse", "true_auc")
LOGGED_ERROR, IMPUTED_ERROR = "logged_mean_error", "imputed_mean_error"
SIGNED_ERRORS = "logged_mean_bias", "imputed_mean_bias"
CHANGED = ("auc", "log_loss", "true_bce", "true_auc", *ESTIMATED)


def show_quality(records: Sequence[Record], console: Console) -> None:
    """What was reached on logged answers, against the truth where it is known, and what differs from naive training."""
    show_records(records, console)
    known = [record for record in records if record.has_truth]
    if known:
        show_truth(known, console)
    imputed = [record for record in known if IMPUTED_ERROR in record.metrics]
    if imputed:
        show_means(imputed, console)
    estimated = [record for record in records if ESTIMATED[0] in record.metrics]
    if estimated:
        show_estimates(estimated, console)
    show_changes(records, console)
    for found in behind(records):
        console.print(str(found), soft_wrap=True)


def show_records(records: Iterable[Record], console: Console) -> None:
    """Print the mean of each metric on logged answers over folds and seeds, with its deviation between them."""
    table = _table(*METRICS, caption="on logged answers of held-out students: mean ± sd over runs")
    for key, runs in grouped(records).items():
        table.add_row(*map(str, key), str(len(runs)), *(_mean_and_spread(runs, name) for name in METRICS))
    console.print(table)


def show_truth(records: Iterable[Record], console: Console) -> None:
    """Print the metrics over all cells where the truth is known, and how far methods go towards what is possible."""
    groups = grouped(records)
    metrics = _table(*TRUE_METRICS, caption="on every concept at every step of held-out students: mean ± sd over runs")
    for key, runs in groups.items():
        metrics.add_row(*map(str, key), str(len(runs)), *(_mean_and_spread(runs, name) for name in TRUE_METRICS))
    console.print(metrics)
    caption = "95 % interval over students"
    show_shares(groups, "the best possible predictor at the same history", LIMIT, BASELINE, caption, console)
    note = f"{caption}; an oracle with as few labels as the log has, and no limit"
    show_shares(groups, "random exposure", None, ORACLE, note, console)


def show_means(records: Iterable[Record], console: Console) -> None:
    """Print how far the mean success of concepts is off, by logged answers and as imputed."""
    columns = ("logged", "imputed", "of that, noise", "mean error, logged", "imputed")
    note = (
        "root mean square over concepts of the error of mean success over all cells; the last two: signed, ± se over "
        "runs"
    )
    table = _table(*columns, caption=note)
    for key, runs in grouped(records).items():
        table.add_row(*map(str, key), str(len(runs)), *mean_errors_of(runs))
    console.print(table)


def mean_errors_of(runs: Sequence[Record]) -> list[str]:
    """How far the mean success of concepts is off: logged, imputed, the noise of targeting; and both signed."""
    said = [f"{mean(runs, name):.4f}" for name in (LOGGED_ERROR, IMPUTED_ERROR)]
    noise = mean(runs, "imputed_mean_noise")
    signed_errors = (_signed_mean([run.metrics[name] for run in runs]) for name in SIGNED_ERRORS)
    return [*said, "-" if math.isnan(noise) else f"{noise:.4f}", *signed_errors]


def _signed_mean(errors: Sequence[float]) -> str:
    error = standard_error(errors)
    return f"{statistics.mean(errors):+.4f}" + ("" if error is None else f" ± {error:.4f}")


def show_shares(groups: Groups, what: str, backbone: str | None, method: Method, note: str, console: Console) -> None:
    """Print the share of the way from naive training to something that was run on the same folds.

    It is of another `backbone`, or of the own one if that is None.
    """
    table = _table("BCE", "RMSE", "AUC", caption=f"share of the way from naive to {what} that is closed; {note}")
    for key, runs in groups.items():
        log, own, _ = key
        ends = [groups.get((log, own, NAIVE), []), groups.get((log, backbone or own, method), [])]
        naive, common, end = on_common_folds([ends[0], runs, ends[1]])
        if common and key[2] not in (NAIVE, method) and not key[2].is_baseline:
            closed = (_share(gap_share(naive, common, end, metric)) for metric in TRUE_METRICS)
            table.add_row(*map(str, key), str(len(common)), *closed)
    if table.row_count:
        console.print(table)


def show_estimates(records: Iterable[Record], console: Console) -> None:
    """Print the risk over all concepts as it is estimated from the log."""
    table = _table(*ESTIMATED, caption=f"cross-entropy over every concept and step, mean ± sd over runs: {RESTS_ON}")
    for key, runs in grouped(records).items():
        table.add_row(*map(str, key), str(len(runs)), *(_mean_and_spread(runs, name) for name in ESTIMATED))
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
        before, after = on_common_folds([groups.get((*key[:2], NAIVE), []), runs])
        cells = []
        for name, form in (("seconds_an_epoch", ".2f"), ("peak_memory_mib", ".0f")):
            own, naive, common = ([getattr(run, name) for run in group] for group in (runs, before, after))
            ratio = f"{statistics.mean(common) / statistics.mean(naive):.2f}" if naive else "-"
            cells += [_spread(own, form), ratio]
        table.add_row(*map(str, key), str(len(runs)), *cells)
    console.print(table)


def show_changes(records: Iterable[Record], console: Console) -> None:
    """Print what each method changes against naive training, over the same students, with Holm's correction."""
    groups = grouped(records)
    rows, found = [], []
    for key, runs in groups.items():
        naive = groups.get((*key[:2], NAIVE), [])
        before, after = on_common_folds([naive, runs])
        if key[2] != NAIVE and before:
            rows.append((*map(str, key), str(len(after))))
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
