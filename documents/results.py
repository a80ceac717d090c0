"""The table of docs/results.md, from the records under results.

    python -m documents.results > docs/results.md

A record is made by `tsdr evaluate LOG --backbone NAME --size SIZE --folds 5 --out results`.
"""

import statistics
from pathlib import Path

from tsdr.methods import BASELINE, COUNTS, NAIVE
from tsdr.paper import BACKBONES, paper_numbers
from tsdr.records.folder import RecordFolder
from tsdr.records.run import Record

RECORDS = Path(__file__).parents[1] / "results"
LOGS = {"assist17": "ASSISTments17", "algebra05": "Algebra05"}
BASELINES = ("global-mean", "concept-mean", COUNTS)
LEAKY = {"sparsekt", "diskt"}
INTRODUCTION = """\
# What the backbones reach, trained plainly

Made by `python -m documents.results` from the records in `results`. Logged answers of held-out
students: the latest 50 answers of students with 5 or more, 5 folds by student, seed 42, 10 % of the training students
for early stopping (patience 15), Adam 1e-3, batches of 64, d 64, dropout 0.05. Mean ± standard deviation over folds;
`gain` is against `counts`, the logistic model that is to be beaten, with how many of the folds it is positive in.
"Paper" is the "original" column of the TSDR paper. Its sparseKT and DisKT (in brackets) come from code in which
predictions see later answers: they are no measure for ours, in which no prediction sees the future.

`size="paper"` has d_ff 1024 and a head of 512-256, `size="light"` d_ff 128 and a head of 128-64; dkt has neither."""


def main() -> None:
    """Print the document."""
    print(document(list(RecordFolder(RECORDS))))


def document(records: list[Record]) -> str:
    """The whole document."""
    parts = [INTRODUCTION]
    published = paper_numbers()["real"]
    for log, title in LOGS.items():
        of_log = [record for record in records if record.dataset == log and record.method in (NAIVE, BASELINE)]
        students = sum(record.students["test"] for record in of_log if record.backbone == "global-mean")
        parts.append(
            f"\n## {title} ({students:,} students)\n\n"
            "| model | size | folds | AUC | paper | gain | ACC | RMSE | log loss | ECE | seconds a fold |\n"
            "|---|---|---|---|---|---|---|---|---|---|---|"
        )
        baseline = {record.fold: record.metrics["auc"] for record in of_log if record.backbone == COUNTS}
        for model in (*BASELINES, *BACKBONES):
            for size in ("", "paper", "light"):
                runs = [record for record in of_log if record.backbone == model and _size(record) == size]
                if runs:
                    parts.append(_row(model, size, runs, published[title]["auc"], baseline))
    return "\n".join(parts)


def _row(
    model: str, size: str, runs: list[Record], paper: dict[str, dict[str, float]], baseline: dict[int, float]
) -> str:
    published = f"{paper[model]['original']:.4f}" if model in paper else "-"
    gains = [run.metrics["auc"] - baseline[run.fold] for run in runs]
    won = sum(gain > 0 for gain in gains)
    gain = "-" if model in BASELINES else f"{statistics.mean(gains):+.4f} ({won} of {len(runs)})"
    cells = [
        model,
        size or "-",
        str(len(runs)),
        _mean([run.metrics["auc"] for run in runs]),
        f"({published})" if model in LEAKY else published,
        gain,
        *(_mean([run.metrics[name] for run in runs]) for name in ("acc", "rmse", "log_loss", "ece")),
        f"{statistics.mean(run.seconds for run in runs):.0f}",
    ]
    return f"| {' | '.join(cells)} |"


def _size(record: Record) -> str:
    return record.size or ""


def _mean(values: list[float]) -> str:
    spread = f" ± {statistics.stdev(values):.4f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.4f}{spread}"


if __name__ == "__main__":
    main()
