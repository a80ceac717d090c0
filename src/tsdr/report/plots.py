"""Plots, drawn to files."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from tsdr.files import replacing
from tsdr.records.run import Record
from tsdr.simulator import Floats, Simulation

BANDS = np.linspace(0.1, 0.95, 7)
COMPARED = (
    ("auc", "What the log says", "AUC on logged answers (more is better)"),
    ("true_bce", "What is true", "cross-entropy over every concept and step (less is better)"),
)


def plot_selection(simulations: Sequence[Simulation], path: Path) -> None:
    """Draw how the observed share of right answers departs from the true one, by band of truth and by gamma."""
    gammas = [simulation.options["gamma"] for simulation in simulations]
    colours = plt.get_cmap("viridis")(np.linspace(0.0, 0.85, len(simulations)))
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), width_ratios=(1.5, 1), layout="constrained")
    for simulation, gamma, colour in zip(simulations, gammas, colours, strict=True):
        centre, departure, error = observed_departure(simulation)
        left.errorbar(
            centre,
            100 * departure,
            100 * 1.96 * error,
            color=colour,
            marker="o",
            markersize=4,
            label=f"{gamma:g}",
        )
    left.axhline(0, color="0.6", linewidth=0.8)
    left.set_xlabel("true probability of success in the concept (band)")
    left.set_ylabel("observed minus true share right, points")
    left.set_title("Within a band: logged answers against the truth", fontsize=10)
    left.legend(title="gamma", fontsize=8, title_fontsize=8, ncols=3, loc="upper center")
    observed = [simulation.log.frame["correct"].mean() for simulation in simulations]
    true = [_cells(simulation).mean() for simulation in simulations]
    right.plot(gammas, observed, marker="o", color="tab:red", label="observed: logged answers")
    right.plot(gammas, true, marker="s", color="tab:blue", label="true: every concept at every step")
    right.set_xlabel("gamma, how strongly students skip")
    right.set_ylabel("share right")
    right.set_title("Over the whole log", fontsize=10)
    right.legend(fontsize=8)
    students = len(simulations[0].truth.student)
    figure.suptitle(
        f"What a selected log shows, and what is true ({students:,} simulated students, bars: 95 %)",
        fontsize=11,
    )
    save(figure, path)


def plot_comparison(records: Sequence[Record], limit: Sequence[Record], path: Path) -> None:
    """Draw what the log and what the truth say of each model and method, fold by fold, and how far it could be."""
    trained: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        trained[f"{record.backbone}, {record.method}"].append(record)
    figure, panels = plt.subplots(1, 2, figsize=(10, 0.5 * len(trained) + 2), sharey=True, layout="constrained")
    for panel, (metric, title, label) in zip(panels, COMPARED, strict=True):
        for place, runs in enumerate(trained.values()):
            values = [record.metrics[metric] for record in runs]
            colour = f"C{place}"
            panel.scatter(values, [place] * len(values), s=16, color=colour, alpha=0.6)
            panel.scatter([np.mean(values)], [place], s=80, marker="D", color=colour)
        if limit:
            best = float(np.mean([record.metrics[metric] for record in limit]))
            panel.axvline(best, color="0.4", linestyle="--", linewidth=1)
            beyond = best > np.mean([record.metrics[metric] for record in records])
            panel.text(
                best, -0.45, " best possible ", fontsize=7, color="0.4", va="top", ha="right" if beyond else "left"
            )
        panel.set_title(title, fontsize=10)
        panel.set_xlabel(label)
        panel.grid(axis="x", color="0.9")
        panel.set_axisbelow(True)
    panels[0].set_yticks(range(len(trained)), list(trained))
    panels[0].set_ylim(len(trained) - 0.5, -0.5)
    test = sum(record.students["test"] for record in next(iter(trained.values())))
    figure.suptitle(f"{records[0].dataset}, {test:,} held-out students: means (diamonds) and folds", fontsize=11)
    save(figure, path)


def save(figure: Figure, path: Path) -> None:
    """Write a figure as PNG, whole or not at all, and close it."""
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=150, format="png")
    plt.close(figure)


def observed_departure(simulation: Simulation) -> tuple[Floats, Floats, Floats]:
    """For each band of true success: its mean truth over all cells, how far logged answers are off, its error.

    A band holds the cells (student, step, concept) whose concept-level truth lies in it; the logged answers of
    the band are those given in such cells. The standard error is that of a share of independent answers.
    """
    truth = simulation.truth
    cells = _cells(simulation)
    logged = simulation.log.frame
    concept = logged["concept"].replace_strict({name: i for i, name in enumerate(truth.concept.tolist())})
    at_logged = cells[np.arange(len(cells)), concept.to_numpy()]
    correct = logged["correct"].to_numpy()
    centre, departure, error = [], [], []
    for low, high in pairwise(BANDS):
        in_band = (at_logged >= low) & (at_logged < high)
        if not in_band.any():
            continue
        share = correct[in_band].mean()
        mean_truth = cells[(cells >= low) & (cells < high)].mean()
        centre.append(mean_truth)
        departure.append(share - mean_truth)
        error.append(np.sqrt(share * (1 - share) / in_band.sum()))
    return np.array(centre), np.array(departure), np.array(error)


def _cells(simulation: Simulation) -> Floats:
    """The true probabilities at the log's steps, in the order of its rows: [interactions, concepts]."""
    truth = simulation.truth
    steps = np.arange(truth.probability.shape[1]) < truth.length[:, None]
    return truth.probability[steps]
