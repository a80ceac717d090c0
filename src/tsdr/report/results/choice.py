"""Which model a log like one of these asks for, and what it gains: the first thing that the results page says."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tsdr.defaults import WINDOW, Extent
from tsdr.methods import COUNTS, NAIVE, OWN, TSDR
from tsdr.records.changes import LESS_IS_BETTER, Change, change, mean
from tsdr.records.collection import on_common_folds
from tsdr.records.run import LIMIT, LogName, Record
from tsdr.records.significance import fold_of
from tsdr.records.views import by_answers, judged_by
from tsdr.report.results.names import counted, log_name, seeds_by_folds
from tsdr.report.results.tables import NOTHING, Table, number, with_interval

Runs = list[Record]


@dataclass(frozen=True)
class Choice:
    """The best model on one log, beside `counts` and the best possible predictor, all on the same answers.

    `by_debiasing` is what tsdr changes for this model, where it was trained plainly, too.
    """

    log: LogName
    metric: str
    best: Runs
    candidates: int
    over_counts: Change | None
    by_debiasing: Change | None
    limit: Runs

    @property
    def model(self) -> str:
        """What it is called, by what it was trained where not plainly, and how much it has in view."""
        run = self.best[0]
        skips = ", skips read" if run.skips_read else ""
        by = "" if run.method == NAIVE else f" by {run.method}"
        return f"{run.backbone}{by}, {run.options.get('window', WINDOW)} in view{skips}"


def choices(records: Iterable[Record]) -> list[Choice]:
    """The choice on each log where there are at least two models to choose from, real logs first."""
    views = defaultdict[str, dict[Extent, Runs]](lambda: defaultdict(list))
    for record in records:
        if not record.timed:
            views[record.dataset][judged_by(record)].append(by_answers(record))
    found = [choice for of_log in views.values() for choice in [_choice(list(of_log.values()))] if choice]
    return sorted(found, key=lambda choice: (choice.log.gamma is not None, str(choice.log)))


def _choice(views: Sequence[Runs]) -> Choice | None:
    """The best of the models that were run on the same folds, of the view that tells most."""
    compared, records = max(((_most_alike(of_view), of_view) for of_view in views), key=lambda pair: _told(pair[0]))
    models = {runs[0].backbone for runs in compared}
    if len(models) < 2:
        return None
    metric = "true_bce" if all(run.has_truth for runs in compared for run in runs) else "auc"
    sign = -1 if metric in LESS_IS_BETTER else 1
    in_order = sorted(compared, key=lambda runs: sign * mean(runs, metric))
    best = in_order[-1]
    counts = next((runs for runs in reversed(in_order) if runs[0].backbone == COUNTS), [])
    plain, debiased = _by_methods(best[0], records)
    limit = [
        run for run in records if run.backbone == LIMIT and run.options.get("window") == best[0].options.get("window")
    ]
    return Choice(
        best[0].log,
        metric,
        best,
        len(models),
        _paired(counts, best, metric) if counts is not best else None,
        _paired(plain, debiased, metric),
        on_common_folds([limit, best])[0] if limit else [],
    )


def _paired(before: Runs, after: Runs, metric: str) -> Change | None:
    before, after = on_common_folds([before, after])
    return change(before, after, metric)


def _told(compared: Sequence[Runs]) -> int:
    return sum(map(len, compared))


def _most_alike(records: Runs) -> list[Runs]:
    """Of all models, as they were trained, those that have the same folds, on as many runs in all as can be had."""
    models = defaultdict[tuple[str, ...], Runs](list)
    for run in records:
        if run.method in (NAIVE, TSDR, OWN):
            models[run.backbone, str(run.method), run.model_settings, run.method_settings].append(run)
    folds = {name: {fold_of(run) for run in runs} for name, runs in models.items()}

    def with_all(of: set[object]) -> list[Runs]:
        return [[run for run in models[name] if fold_of(run) in of] for name in models if of <= folds[name]]

    return max((with_all(set(of)) for of in folds.values()), key=_told, default=[])


def _by_methods(model: Record, records: Runs) -> tuple[Runs, Runs]:
    """The runs of a model that is trained plainly, and by tsdr."""
    alike = [run for run in records if (run.backbone, run.model_settings) == (model.backbone, model.model_settings)]
    return [run for run in alike if run.method == NAIVE], [run for run in alike if run.method == TSDR]


def advice(found: Sequence[Choice]) -> str | None:
    """The choice in two sentences; None where nothing was compared."""
    if not found:
        return None
    often = Counter(choice.best[0].backbone for choice in found).most_common()
    said = ", ".join(f"{name} on {times}" for name, times in often)
    tried = [choice.by_debiasing for choice in found if choice.by_debiasing and choice.by_debiasing.interval]
    better, worse = (sum(_stands(one, sign) for one in tried) for sign in (1, -1))
    gains = (
        f" Debiased by tsdr, that model gains on {better} of the {counted(len(tried), 'log')} where both were run and "
        f"loses on {worse}; on the others the interval holds 0."
        if tried
        else ""
    )
    return f"Which model: of {counted(len(found), 'log')}, the best is {said}.{gains}"


def _stands(found: Change, sign: int) -> bool:
    """Whether the whole interval is on one side, for the better (1) or for the worse (-1)."""
    better = -sign if found.metric in LESS_IS_BETTER else sign
    return found.interval is not None and min(better * end for end in found.interval) > 0


def choice_table(found: Sequence[Choice]) -> Table:
    """A row for each log."""
    groups = [
        (title, [_row(choice) for choice in found if (choice.metric == metric)])
        for metric, title in (
            ("auc", "AUC on logged answers (more is better)"),
            ("true_bce", "Cross-entropy against the truth, every concept at every step (less is better)"),
        )
    ]
    return Table(
        "Which model for a log like mine",
        [],
        ["log", "best model", "comes to", "over counts", "by tsdr", "best possible", "models", "runs"],
        [(title, rows) for title, rows in groups if rows],
        [
            "The best of so many models that were run on the same folds, chosen on these test students: its lead is a "
            "little too large. Over counts: how far it is ahead of the logistic model, the best of its views. By tsdr: "
            "what debiasing changes for this very model, where it was run with and without. Each with its 95 % "
            "interval over students. Best possible: the predictor that knows how students were simulated, at the same "
            "history."
        ],
        "",
    )


def _row(choice: Choice) -> list[str]:
    best = choice.best
    return [
        log_name(choice.log) if choice.log.gamma is not None else choice.log.log,
        choice.model,
        number(mean(best, choice.metric)),
        _or_nothing(choice.over_counts),
        _or_nothing(choice.by_debiasing),
        number(mean(choice.limit, choice.metric)) if choice.limit else NOTHING,
        str(choice.candidates),
        seeds_by_folds(best),
    ]


def _or_nothing(found: Change | None) -> str:
    return NOTHING if found is None else with_interval(found)
