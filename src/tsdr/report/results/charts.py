"""The figures of the results page: the paper's, drawn anew from records, each where there are records for it."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from markupsafe import Markup

from tsdr.methods import NAIVE, ORACLE, OWN, TSDR, Method
from tsdr.paper import GAMMAS
from tsdr.records.changes import mean, standard_error, value
from tsdr.records.collection import Cell, Setup, on_common_folds
from tsdr.records.run import LogName, Record
from tsdr.report.results.names import METRIC_NAMES, basis, log_name
from tsdr.report.results.panels import (
    BLUE,
    GREY,
    LEGEND,
    PALE,
    RED,
    STYLES,
    Chart,
    errorbar,
    new_panel,
    svg_of,
)
from tsdr.report.results.tables import Labels, Paper, paper_values

BARS = "Error bars: ± one standard error over runs."
# The steps of the paper's ablation, as options of tsdr: trained jointly or not, and whose states are kept smooth.
STEPS = {
    (False, "off"): "frozen",
    (True, "off"): "joint",
    (True, "kt"): "smooth\nbackbone",
    (True, "imputation"): "smooth\nimputation",
}
_WHOLE = (True, "imputation")
_BINS = ("answers", "predicted", "right")


def charts(cells: Sequence[Cell], timed: Sequence[Cell], labels: Labels, paper: Paper) -> list[Chart]:
    """Every figure that there are records for."""
    simulated = _by_gamma(cells)
    drawn = [
        observed_against_gamma(simulated, paper),
        truth_against_gamma(simulated),
        *against_smoothness(cells, labels),
        *ablation(cells, labels, paper),
        calibration(cells),
        overhead(timed, paper),
    ]
    return [chart for chart in drawn if chart.panels]


def observed_against_gamma(simulated: dict[str, dict[float, Cell]], paper: Paper) -> Chart:
    """AUC, ACC and RMSE on logged answers against the strength of selection (the paper's Figure 3)."""
    chart = _chart_against_gamma(
        simulated,
        "OBSERVED: logged answers against the strength of selection",
        "AUC, ACC and RMSE on logged answers of held-out students of simulated logs.",
        (NAIVE, TSDR),
    )
    chart.legend.append(("dashed and faint: the paper's", PALE, True))
    chart.panels.extend(
        _against_gamma(backbone, by_gamma, metric, (NAIVE, TSDR), paper)
        for metric in ("auc", "acc", "rmse")
        for backbone, by_gamma in simulated.items()
    )
    return chart


def truth_against_gamma(simulated: dict[str, dict[float, Cell]]) -> Chart:
    """Cross-entropy over all cells against the strength of selection."""
    methods = (NAIVE, TSDR, ORACLE)
    chart = _chart_against_gamma(
        simulated,
        "TRUE: every concept at every step against the strength of selection",
        "Cross-entropy against the true success probability of every concept at every step of held-out simulated "
        "students; less is better.",
        methods,
    )
    chart.panels.extend(
        _against_gamma(backbone, by_gamma, "true_bce", methods) for backbone, by_gamma in simulated.items()
    )
    return chart


def against_smoothness(cells: Iterable[Cell], labels: Labels) -> list[Chart]:
    """AUC and ACC against λ (the paper's Figure 4), for each log that tsdr was run on at several λ."""
    found: dict[LogName, list[tuple[str, list[float], list[list[Record]]]]] = defaultdict(list)
    for cell in cells:
        by_lambda = by_smoothness(cell)
        if len(by_lambda) > 1:
            common = on_common_folds([by_lambda[value] for value in by_lambda] + [cell.methods.get(NAIVE, [])])
            if common[0]:
                found[cell.log].append((labels[cell.dataset, cell.model], list(by_lambda), common))
    drawn = []
    for log, models in found.items():
        runs = [run for _, _, groups in models for run in groups[0]]
        chart = Chart(
            f"λ, the weight of smoothness: {log_name(log)}",
            f"AUC and ACC on logged answers, on the folds that every λ was run on: {basis(runs)}. {BARS}",
            [("+TSDR at this λ", BLUE, False), ("original", GREY, True)],
        )
        for metric in ("auc", "acc"):
            for label, lambdas, (*at_lambda, naive) in models:
                figure, panel = new_panel(label, "λ", METRIC_NAMES[metric])
                errorbar(panel, range(len(lambdas)), at_lambda, metric, TSDR)
                panel.set_xticks(range(len(lambdas)), [f"{value:g}" for value in lambdas])
                panel.axhline(mean(naive, metric), color=GREY, linestyle="--", linewidth=1)
                said = ", ".join(
                    f"{mean(group, metric):.4f} at {value:g}" for value, group in zip(lambdas, at_lambda, strict=True)
                )
                chart.panels.append(
                    svg_of(figure, f"{log_name(log)}, {label}, {METRIC_NAMES[metric]} against λ: {said}")
                )
        drawn.append(chart)
    return drawn


def ablation(cells: Iterable[Cell], labels: Labels, paper: Paper) -> list[Chart]:
    """What each step of the method adds to AUC over naive training (the paper's ablation table)."""
    found: dict[LogName, list[tuple[str, str, dict[str, list[float]], list[Record]]]] = defaultdict(list)
    for cell in cells:
        steps = _steps(cell)
        if len(steps) > 1:
            naive, *others = on_common_folds([cell.methods.get(NAIVE, []), *steps.values()])
            gains = {
                step: [value(run, "auc") - value(base, "auc") for run, base in zip(runs, naive, strict=True)]
                for step, runs in zip(steps, others, strict=True)
            }
            if naive:
                found[cell.log].append((cell.model.backbone, labels[cell.dataset, cell.model], gains, naive))
    drawn = []
    for log, models in found.items():
        runs = [run for *_, naive in models for run in naive]
        chart = Chart(
            f"Ablation: {log_name(log)}",
            f"What each step adds to the AUC on logged answers over naive training: {basis(runs)}. {BARS} Frozen: the "
            "auxiliary models are trained first; joint: along; then the states of the backbone or of the imputation "
            "model are kept smooth. The paper's gains are on Prob.",
            [("gain over original", BLUE, False), ("the paper's, on Prob (diamonds)", RED, True)],
        )
        for backbone, label, gains, _ in models:
            chart.panels.append(_ablation_panel(log, label, gains, _paper_steps(paper, backbone)))
        drawn.append(chart)
    return drawn


def calibration(cells: Iterable[Cell]) -> Chart:
    """Share right against predicted success, in ten bins pooled over backbones and folds, one panel a log."""
    found: dict[LogName, dict[Method, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for cell in cells:
        ours = cell.ours()
        for method, runs in zip((NAIVE, TSDR), cell.paired(NAIVE, ours), strict=True):
            found[cell.log][method] += [run for run in runs if run.calibration]
    chart = Chart(
        "Calibration on logged answers",
        "Share of right answers against predicted success in ten bins, pooled over backbones, seeds and folds: "
        + "; ".join(f"{log_name(log)}: {basis(runs[NAIVE])}" for log, runs in found.items() if runs[NAIVE])
        + ". Bins with fewer than 100 answers are left out; the diagonal is perfect.",
        [(LEGEND[method], STYLES[method][0], False) for method in (NAIVE, TSDR)],
    )
    for log, groups in found.items():
        if not all(groups.values()):
            continue
        figure, panel = new_panel(log_name(log), "predicted success", "share right")
        panel.plot([0, 1], [0, 1], color=PALE, linewidth=0.8)
        for method, runs in groups.items():
            predicted, right = pooled_bins(runs)
            colour, marker = STYLES[method]
            panel.plot(predicted, right, color=colour, marker=marker, markersize=3.5, linewidth=1.2)
        chart.panels.append(svg_of(figure, f"Calibration of original and +TSDR on {log_name(log)}"))
    return chart


def overhead(timed: Iterable[Cell], paper: Paper) -> Chart:
    """Time of an epoch and peak memory of tsdr relative to naive training (the paper's overhead table)."""
    found = {cell.model.backbone: cell.paired(NAIVE, cell.ours()) for cell in timed}
    pairs = {backbone: (naive, runs) for backbone, (naive, runs) in found.items() if naive}
    all_runs = [run for naive, _ in pairs.values() for run in naive]
    logs = ", ".join(sorted({log_name(run.log) for run in all_runs}))
    chart = Chart(
        "What it costs",
        f"Time of an epoch and peak memory of +TSDR over those of the original, each run alone in a process of its "
        f"own, on {logs}: {basis(all_runs)}. The paper's are on Prob, on a GPU. Labels: ours in seconds or MiB, "
        "original to +TSDR.",
        [("ours", BLUE, False), ("the paper's", PALE, False)],
    )
    if not pairs:
        return chart
    shown: list[tuple[str, Callable[[Record], float], str, str]] = [
        (
            "time of an epoch, times the original's",
            lambda run: run.seconds_an_epoch,
            "s_per_epoch",
            "{:.2g}",
        ),
        ("peak memory, times the original's", lambda run: run.peak_memory_mib, "mb", "{:.0f}"),
    ]
    for title, measured, key, form in shown:
        figure, panel = new_panel(title, "", "")
        for place, (backbone, (naive, runs)) in enumerate(pairs.items()):
            before, after = (float(np.mean([measured(run) for run in group])) for group in (naive, runs))
            panel.barh(place - 0.2, after / before, 0.38, color=BLUE)
            said = f" {form.format(before)} to {form.format(after)}"
            panel.text(after / before, place - 0.2, said, va="center", fontsize=7)
            known = paper["overhead_prob"].get(backbone)
            if known:
                panel.barh(place + 0.2, known[f"dr_{key}"] / known[f"base_{key}"], 0.38, color=PALE)
        panel.axvline(1, color="0.4", linewidth=0.8)
        panel.set_yticks(range(len(pairs)), list(pairs))
        panel.set_xlim(right=panel.get_xlim()[1] * 1.3)
        panel.invert_yaxis()
        chart.panels.append(svg_of(figure, f"{title}, for {', '.join(pairs)}"))
    return chart


def pooled_bins(runs: Iterable[Record]) -> tuple[list[float], list[float]]:
    """Mean prediction and share right of each calibration bin over runs, of bins with 100 answers or more."""
    answers, predicted, right = np.zeros((3, 10))
    for run in runs:
        assert run.calibration is not None
        weight, *means = (np.nan_to_num(np.array(run.calibration[key], dtype=float)) for key in _BINS)
        answers, predicted, right = answers + weight, predicted + weight * means[0], right + weight * means[1]
    enough = answers >= 100
    return (predicted[enough] / answers[enough]).tolist(), (right[enough] / answers[enough]).tolist()


def _by_gamma(cells: Iterable[Cell]) -> dict[str, dict[float, Cell]]:
    """For each backbone that was run on simulated logs of several gammas, its cells; of its settings, the fullest."""
    found: dict[str, dict[Setup, dict[float, Cell]]] = defaultdict(lambda: defaultdict(dict))
    for cell in cells:
        gamma = cell.log.gamma
        if gamma is not None and cell.log.is_the_papers and NAIVE in cell.methods:
            found[cell.model.backbone][cell.model][gamma] = cell
    fullest = {backbone: max(models.values(), key=len) for backbone, models in found.items()}
    return {backbone: dict(sorted(by_gamma.items())) for backbone, by_gamma in fullest.items() if len(by_gamma) > 1}


def _chart_against_gamma(
    simulated: dict[str, dict[float, Cell]], title: str, what: str, methods: Sequence[Method]
) -> Chart:
    runs = [run for by_gamma in simulated.values() for cell in by_gamma.values() for run in cell.methods[NAIVE]]
    legend = [(LEGEND[method], STYLES[method][0], False) for method in methods]
    return Chart(
        title, f"{what} Each point: at most {basis(runs)}; points that rest on others are not joined. {BARS}", legend
    )


def _against_gamma(
    backbone: str,
    by_gamma: dict[float, Cell],
    metric: str,
    methods: Sequence[Method],
    paper: Paper | None = None,
) -> Markup:
    figure, panel = new_panel(backbone, "gamma", METRIC_NAMES[metric])
    if paper is not None:
        known = {gamma: paper_values(LogName.simulated(gamma), backbone, metric, paper) for gamma in GAMMAS}
        for place, method in enumerate((NAIVE, TSDR)):
            line = [(gamma, values[place]) for gamma, values in known.items() if values]
            panel.plot(*np.transpose(line), color=STYLES[method][0], linestyle="--", linewidth=1, alpha=0.4)
    said = []
    paired = {gamma: _paired(cell, methods) for gamma, cell in by_gamma.items()}
    for method in methods:
        there = {gamma: groups[method] for gamma, groups in paired.items() if groups.get(method)}
        errorbar(panel, list(there), list(there.values()), metric, method)
        said += [f"{LEGEND[method]} {mean(group, metric):.4f} at gamma {gamma:g}" for gamma, group in there.items()]
    return svg_of(figure, f"{backbone}, {METRIC_NAMES[metric]}: {', '.join(said)}")


def _paired(cell: Cell, methods: Sequence[Method]) -> dict[Method, list[Record]]:
    """The runs of those methods that were run, on the folds that all of them have."""
    run_as = {method: cell.ours() if method == TSDR else method for method in methods}
    there = {method: ours for method, ours in run_as.items() if ours in cell.methods}
    return dict(zip(there, cell.paired(*there.values()), strict=True))


def by_smoothness(cell: Cell) -> dict[float, list[Record]]:
    """The runs of tsdr-own by their λ, with nothing else changed."""
    found = {}
    for runs in cell.methods.values():
        debias = runs[0].debias
        if _by_own(runs[0]) and not runs[0].tuned and (debias["joint"], debias["smooth"]) == _WHOLE:
            found[float(debias["smoothness"])] = runs
    return dict(sorted(found.items()))


def _steps(cell: Cell) -> dict[str, list[Record]]:
    """The runs of each step of the ablation that was run; the last one is tsdr-own itself."""
    found = {}
    for runs in cell.methods.values():
        debias = runs[0].debias
        if _by_own(runs[0]) and (step := (debias["joint"], debias["smooth"])) != _WHOLE:
            found[step] = runs
    if OWN in cell.methods and found:
        found[_WHOLE] = cell.methods[OWN]
    return {STEPS[step]: found[step] for step in STEPS if step in found}


def _by_own(run: Record) -> bool:
    """Whether it is of the method that λ, joint learning and smoothness belong to."""
    return run.method.name == OWN.name and run.debias.get("weights") == "imputation"


def _paper_steps(paper: Paper, backbone: str) -> dict[str, float]:
    """The paper's gains in AUC over the original, by step."""
    rows = [row for row in paper["ablation_prob"] if row["backbone"] == backbone]
    smooth = {(False, False): "off", (False, True): "kt", (True, False): "imputation"}
    return {
        STEPS[row["joint"], smooth[row["smooth_imputation"], row["smooth_kt"]]]: row["auc"]
        - paper["real"]["Prob"]["auc"][backbone]["original"]
        for row in rows
    }


def _ablation_panel(log: LogName, label: str, gains: dict[str, list[float]], paper: dict[str, float]) -> Markup:
    figure, panel = new_panel(label, "", "gain in AUC")
    means = [float(np.mean(values)) for values in gains.values()]
    errors = [standard_error(values) or 0.0 for values in gains.values()]
    panel.bar(range(len(gains)), means, 0.6, yerr=errors, color=BLUE, ecolor="0.3", capsize=2)
    known = [(place, paper[step]) for place, step in enumerate(gains) if step in paper]
    if known:
        panel.plot(*zip(*known, strict=True), linestyle="", marker="D", markersize=4, color=RED, fillstyle="none")
    panel.axhline(0, color="0.4", linewidth=0.8)
    panel.set_xticks(range(len(gains)), list(gains), fontsize=7)
    said = ", ".join(f"{step.replace(chr(10), ' ')} {gain:+.4f}" for step, gain in zip(gains, means, strict=True))
    return svg_of(figure, f"{log_name(log)}, {label}, gain in AUC over the original: {said}")
