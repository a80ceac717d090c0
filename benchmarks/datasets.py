"""How preparing a log scales: EdNet-shaped raw data of 1, 5 and 20 million rows.

    python -m benchmarks.datasets [--millions 1 5 20] [--files 1 5]

One large table, and the same rows as one small file a student. Claims for the table: at least 1 million rows a second
on two cores, time at most 1.2 times linear, peak memory under 3 GiB at 20 million rows. Small files are reported. Each
measurement has a process of its own; memory is its whole peak.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table

from benchmarks.measuring import alone
from tsdr.datasets import prepare
from tsdr.processes import peak_memory_mib

QUESTIONS, TAGS, ANSWERS_A_STUDENT = 12_000, 190, 100
COLUMNS = ["timestamp", "solving_id", "question_id", "user_answer", "elapsed_time"]


def write_questions(folder: Path, rng: np.random.Generator) -> None:
    """questions.csv, each question with one to four tags."""
    tags = [";".join(map(str, rng.choice(TAGS, size, replace=False))) for size in rng.integers(1, 5, size=QUESTIONS)]
    pl.DataFrame(
        {
            "question_id": [f"q{i}" for i in range(QUESTIONS)],
            "correct_answer": rng.choice(list("abcd"), QUESTIONS),
            "tags": tags,
        }
    ).write_csv(folder / "questions.csv")


def write_answers(folder: Path, rows: int, as_files: bool) -> None:
    """The answers, a million rows at a time, into one table or into a file a student."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    write_questions(folder, rng)
    at_once = 1_000_000
    for part in range(rows // at_once):
        order = np.arange(at_once) % ANSWERS_A_STUDENT
        student = part * (at_once // ANSWERS_A_STUDENT) + np.arange(at_once) // ANSWERS_A_STUDENT
        frame = pl.DataFrame(
            {
                "user_id": pl.Series(student).cast(pl.String),
                "timestamp": 1_500_000_000_000 + order * 60_000 + rng.integers(0, 50_000, at_once),
                "solving_id": order // 2,
                "question_id": pl.Series(rng.integers(0, QUESTIONS, at_once)).cast(pl.String),
                "user_answer": rng.choice(list("abcd"), at_once),
                "elapsed_time": rng.integers(1_000, 60_000, at_once),
            }
        ).with_columns(pl.col("user_id").str.replace("^", "u"), pl.col("question_id").str.replace("^", "q"))
        if as_files:
            for at in range(0, at_once, ANSWERS_A_STUDENT):
                of_one = frame[at : at + ANSWERS_A_STUDENT]
                of_one.select(COLUMNS).write_csv(folder / f"{of_one['user_id'][0]}.csv")
        else:
            with (folder / "answers.csv").open("ab") as file:
                frame.write_csv(file, include_header=part == 0)


def measure(folder: str, out: str) -> tuple[float, float]:
    """Seconds, and the process's peak in MiB."""
    begin = time.perf_counter()
    prepare("ednet", folder, out, sample="all")
    return time.perf_counter() - begin, peak_memory_mib()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millions", nargs="*", type=int, default=[1, 5, 20])
    parser.add_argument("--files", nargs="*", type=int, default=[1, 5])
    arguments = parser.parse_args()
    table = Table("raw data", "rows", "seconds", "rows a second", "time / linear", "peak, MiB")
    console = Console()
    for shape, sizes in (("one table", arguments.millions), ("a file a student", arguments.files)):
        first = None
        for millions in sizes:
            with tempfile.TemporaryDirectory() as scratch, console.status(f"{shape}, {millions} million rows"):
                folder = Path(scratch) / "raw"
                write_answers(folder, millions * 1_000_000, as_files=shape != "one table")
                seconds, peak = alone(measure, str(folder), f"{scratch}/log.parquet")
            rate = millions * 1e6 / seconds
            first = first or seconds / millions
            table.add_row(
                shape,
                f"{millions} million",
                f"{seconds:.1f}",
                f"{rate:,.0f}",
                f"{seconds / millions / first:.2f}",
                f"{peak:,.0f}",
            )
    console.print(table)


if __name__ == "__main__":
    main()
