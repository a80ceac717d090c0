"""What a gain is made of: the figure of docs/findings.md and its table, from the records.

    python -m documents.steps

From a plainly trained dkt that sees the latest 50 answers to the best possible predictor, or the best model of a real
log, one thing is changed at a time: who teaches, the weights, how much of the history is in view, the model. A step
without runs is left out; all that are shown are of the same folds and the same answers.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from documents.filling import ROOT, changed, fill, judged_by_the_same_answers
from tsdr.defaults import BACKBONE, WINDOW, Extent
from tsdr.methods import BASELINE, NAIVE, OWN, TSDR, UNWEIGHTED, Method
from tsdr.records.changes import change, mean
from tsdr.records.collection import on_common_folds
from tsdr.records.run import LIMIT, LogName, Record
from tsdr.records.views import by_answers
from tsdr.report.plots import save
from tsdr.report.results.names import log_name, seeds_by_folds

IMAGE = ROOT / "docs" / "images" / "steps.png"
HEADER = "| log | what is changed | measure | comes to | against the row above | runs |\n|---|---|---|---|---|---|\n"
LOGS = {"simulated-gamma0.8": ("true_bce", "true BCE, less is better"), "assist17": ("auc", "AUC, more is better")}


@dataclass(frozen=True)
class Step:
    """What is changed, in words, and what it comes to: a model, by a method, with so much in view.

    `whole` histories are those of 200 answers or all, whichever has more runs: simulated students have no more.
    """

    changed: str
    backbone: str
    method: Method
    whole: bool = False

    def runs(self, records: Sequence[Record], log: str) -> list[Record]:
        """Its records on a log, stopped by their loss."""
        views: tuple[Extent, ...] = ("all", 200) if self.whole else (WINDOW,)
        found = [
            [
                by_answers(record)
                for record in records
                if (record.dataset, record.backbone, record.method) == (log, self.backbone, self.method)
                and record.options["window"] == view
                and record.stop_by in (None, "loss")
            ]
            for view in views
        ]
        most = max(found, key=len)
        return most if len(most) > 1 else []


STEPS = (
    Step("dkt, trained plainly, 50 in view", "dkt", NAIVE),
    Step("a teacher of its own kind", "dkt", OWN),
    Step("a teacher that knows questions: counts", "dkt", UNWEIGHTED),
    Step("weights (this is tsdr)", "dkt", TSDR),
    Step("a longer history in view", "dkt", TSDR, whole=True),
    Step(f"a model that knows questions: {BACKBONE}", BACKBONE, TSDR, whole=True),
    Step(f"{BACKBONE}, trained plainly", BACKBONE, NAIVE, whole=True),
    Step("the best possible predictor", LIMIT, BASELINE, whole=True),
)


def main() -> None:
    """Draw the figure, and fill the table in."""
    records = judged_by_the_same_answers()
    figure, panels = plt.subplots(1, len(LOGS), figsize=(11, 4), layout="constrained")
    lines = [HEADER]
    for panel, log in zip(panels, LOGS, strict=True):
        steps = [(step, step.runs(records, log)) for step in STEPS]
        steps = [(step, runs) for step, runs in steps if runs]
        common = on_common_folds([runs for _, runs in steps])
        named = [step.changed for step, _ in steps]
        draw(panel, log, named, common)
        lines += rows(log, named, common)
    fill("docs/findings.md", "documents.steps", "".join(lines))
    figure.suptitle("What a gain is made of: one thing is changed at a time, judged by the same answers", fontsize=11)
    save(figure, IMAGE)


def rows(log: str, named: Sequence[str], common: Sequence[Sequence[Record]]) -> list[str]:
    """A line of the table for each step, paired with the one before."""
    metric, measure = LOGS[log]
    lines = []
    for number, (what, runs) in enumerate(zip(named, common, strict=True)):
        against = changed(change(common[number - 1], runs, metric)) if number else "–"
        about = log_name(LogName.parse(log)), what, measure.partition(",")[0]
        lines.append(f"| {' | '.join([*about, f'{mean(runs, metric):.4f}', against, seeds_by_folds(runs)])} |\n")
    return lines


def draw(panel: Axes, log: str, named: Sequence[str], common: Sequence[Sequence[Record]]) -> None:
    """Bars from the first step downwards; each says what it comes to."""
    metric, measure = LOGS[log]
    values = [mean(runs, metric) for runs in common]
    span = max(values) - min(values)
    bars = panel.barh(range(len(values)), values, color=["0.6", *["tab:blue"] * (len(values) - 1)], height=0.65)
    panel.bar_label(bars, [f"{value:.4f}" for value in values], padding=3, fontsize=8)
    panel.set_yticks(range(len(named)), named, fontsize=8)
    panel.set_ylim(len(named) - 0.4, -0.6)
    panel.set_xlim(min(values) - 0.25 * span, max(values) + 0.3 * span)
    panel.set_xlabel(f"{measure} (the axis does not begin at 0)", fontsize=8)
    panel.set_title(f"{log_name(LogName.parse(log))} ({seeds_by_folds(common[0])} seeds x folds)", fontsize=10)


if __name__ == "__main__":
    main()
