"""How simulation scales: interactions a second, truth included, and peak memory, for growing cohorts.

    python -m benchmarks.simulator

The claim: time grows no faster than 1.2 times linearly with the number of students.
"""

import time

from rich.console import Console
from rich.table import Table

from tsdr import simulate
from tsdr.processes import peak_memory_mib

STUDENTS = (1_000, 10_000, 50_000)
ROUNDS = 3
TITLE = f"Simulated interactions, truth included (best of {ROUNDS}; peak memory above start)"


def main() -> None:
    """Measure and print."""
    simulate(students=100)  # imports and first allocations are not what is measured
    start = peak_memory_mib()
    peak: dict[int, float] = {}
    seconds = dict.fromkeys(STUDENTS, float("inf"))
    interactions: dict[int, int] = {}
    for _ in range(ROUNDS):  # the sizes take turns, so that a slow spell of the machine does not hit one of them
        for students in STUDENTS:
            begin = time.perf_counter()
            interactions[students] = len(simulate(gamma=0.8, students=students).log)
            seconds[students] = min(seconds[students], time.perf_counter() - begin)
            peak.setdefault(students, peak_memory_mib() - start)
    table = Table("students", "interactions", "seconds", "a second", "time / linear", "memory", title=TITLE)
    for students in STUDENTS:
        table.add_row(
            f"{students:,}",
            f"{interactions[students]:,}",
            f"{seconds[students]:.2f}",
            f"{interactions[students] / seconds[students]:,.0f}",
            f"{seconds[students] / students / (seconds[STUDENTS[0]] / STUDENTS[0]):.2f}",
            f"{peak[students]:,.0f} MiB",
        )
    Console().print(table)


if __name__ == "__main__":
    main()
