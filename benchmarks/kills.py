"""Whether `fit`, `compare` and `reproduce` come to the same numbers however often they are killed.

    python -m benchmarks.kills [--times 20] [fit compare reproduce]

Each command runs once without a break, and once killed (SIGKILL to it and all that it started) so many times: at a
random moment once it has written something since it was started, sooner or later. Then it runs to its end. What it
leaves must be the same: a bundle byte for byte, records but for seconds and memory; and nothing half-written beside
it. Where a command is through before it has been killed so often, that is said. Needs Linux.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tsdr.records.folder import RecordFolder
from tsdr.simulator import simulate

Found = dict[str, object]
LONGEST_WAIT = 2.0  # seconds after the first thing that it writes


def model_in(folder: Path) -> Found:
    """The files of a bundle."""
    return {path.name: path.read_bytes() for path in (folder / "model").iterdir()}


def records_in(folder: Path) -> Found:
    """What records say, but how long it took and how much memory."""
    return {
        record.file_name(): record.model_dump_json(exclude={"seconds", "peak_memory_mib"})
        for record in RecordFolder(folder)
    }


# What is added to `tsdr` and the log in a folder, and what the command leaves there.
COMMANDS: dict[str, tuple[str, Callable[[Path], Found]]] = {
    "fit": ("fit {log} --backbone dkt --out {folder}/model --resume", model_in),
    "compare": ("compare {log} --backbone dkt --folds 2 --out {folder}", records_in),
    "reproduce": (
        "reproduce synthetic --datasets simulated-gamma0.8-200x60x8 --backbones dkt --folds 2 --workers 2 "
        "--stop-by loss --out {folder}",
        records_in,
    ),
}


def written(folder: Path) -> dict[str, int]:
    """The files in a folder, and when each was written."""
    found = {}
    for path in folder.rglob("*"):
        try:
            found[str(path)] = path.stat().st_mtime_ns
        except FileNotFoundError:  # replaced at this moment
            continue
    return found


def killed(command: list[str], folder: Path, wait: float) -> bool:
    """Start it and kill it some time after it has written something; whether it was still at work."""
    before = written(folder)
    process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and written(folder) == before:
        time.sleep(0.02)
    end = time.monotonic() + wait
    while process.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    at_work = process.poll() is None
    if at_work:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return at_work


def attack(name: str, log: Path, times: int, chance: random.Random) -> bool:
    """Kill a command so many times, and say whether it comes to what it comes to without a break."""
    said, left = COMMANDS[name]
    with tempfile.TemporaryDirectory(prefix="kills-") as parent:
        folders = Path(parent, "whole"), Path(parent, "killed")
        whole, command = ([_tsdr(), *said.format(log=log, folder=folder).split()] for folder in folders)
        for folder in folders:
            folder.mkdir()
        subprocess.run([part for part in whole if part != "--resume"], check=True, stdout=subprocess.DEVNULL)
        kills = 0
        while kills < times and killed(command, folders[1], chance.uniform(0, LONGEST_WAIT)):
            kills += 1
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        expected, found = (left(folder) for folder in folders)
        half = [path.name for path in folders[1].rglob("*") if path.suffix in (".part", ".pt", ".checkpoint")]
        same = expected == found and not half
        print(f"{name}: killed {kills} times, {len(found)} files", "the same" if same else f"NOT the same {half}")
    return same and kills == times


def _tsdr() -> str:
    return str(Path(sys.executable).with_name("tsdr"))


def main() -> None:
    """Kill those that are asked for, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commands", nargs="*", metavar="COMMAND", help=", ".join(COMMANDS))
    parser.add_argument("--times", type=int, default=20)
    asked = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory(prefix="kills-") as folder:
        log = Path(folder, "log.parquet")
        simulate(0.8, students=200, questions=60, concepts=8).log.write(log)
        chance = random.Random(1)
        held = [attack(name, log, asked.times, chance) for name in asked.commands or COMMANDS]
    raise SystemExit(not all(held))


if __name__ == "__main__":
    main()
