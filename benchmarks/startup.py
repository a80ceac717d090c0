"""How long commands take to begin: those about logs do not wait for torch.

    python -m benchmarks.startup

The claim: on a warm machine `tsdr --help` answers within 0.6 s. Commands take turns and the best of five counts, beside
that of a Python that does nothing and of one that imports torch.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROUNDS = 5


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.csv"
        log.write_text("student,concept,correct\n" + "a,c,1\na,c,0\n" * 10)
        tsdr = [sys.executable, "-m", "tsdr"]
        commands = {
            "python, doing nothing": [sys.executable, "-c", "pass"],
            "python, importing torch": [sys.executable, "-c", "import torch"],
            "tsdr --help": [*tsdr, "--help"],
            "tsdr fit --help": [*tsdr, "fit", "--help"],
            "tsdr datasets": [*tsdr, "datasets"],
            "tsdr inspect, 20 rows": [*tsdr, "inspect", str(log)],
        }
        best = dict.fromkeys(commands, float("inf"))
        for _ in range(ROUNDS):
            for name, command in commands.items():
                begin = time.perf_counter()
                subprocess.run(command, check=True, capture_output=True)
                best[name] = min(best[name], time.perf_counter() - begin)
    table = Table("", "seconds", "over nothing", title=f"Best of {ROUNDS}, in turns")
    for name, seconds in best.items():
        table.add_row(name, f"{seconds:.2f}", f"{seconds / best['python, doing nothing']:.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
