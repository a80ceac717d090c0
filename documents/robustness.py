"""The table of robustness in docs/method.md, from the records under results/robustness.

    python -m documents.robustness

Records are made by `tsdr reproduce robustness --backbones dkt --folds 2 --seeds 21,22,23
--windows 50,200 --stop-by loss --out results/robustness`.
"""

from documents.filling import ROOT, fill
from tsdr.methods import NAIVE
from tsdr.records.baselines import grouped
from tsdr.records.changes import mean
from tsdr.records.folder import RecordFolder
from tsdr.records.run import Record
from tsdr.report.quality import mean_errors_of
from tsdr.report.results.names import log_name, seeds_by_folds

HEADER = (
    "| log | in view | method | propensities | imputation | runs | error of a concept's mean, logged | imputed "
    "| of that, noise | mean error, logged | imputed | true BCE, naive | debiased |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|---|---|\n"
)


def main() -> None:
    """Fill the table in."""
    found = table(list(RecordFolder(ROOT / "results" / "robustness")))
    fill("docs/method.md", "documents.robustness", found)


def table(records: list[Record]) -> str:
    """A row for each method and each of its conditions."""
    groups = grouped(record for record in records if record.has_truth)
    rows = []
    for (log, backbone, method), runs in groups.items():
        if "propensities" not in dict(method.changes):
            continue
        debias = runs[0].debias
        naive = [run for run in groups[log, backbone, NAIVE] if run.model_settings == runs[0].model_settings]
        imputation = "crippled" if debias["crippled"] else "good"
        seen = [log_name(runs[0].log), str(runs[0].options["window"])]
        about = [*seen, method.name, debias["propensities"], imputation, seeds_by_folds(runs)]
        truth = [f"{mean(of, 'true_bce'):.4f}" for of in (naive, runs)]
        rows.append(f"| {' | '.join([*about, *mean_errors_of(runs), *truth])} |\n")
    return HEADER + "".join(rows)


if __name__ == "__main__":
    main()
