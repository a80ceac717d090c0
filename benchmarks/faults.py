"""What becomes of `tsdr fit --engine ray` when a worker, the head of the cluster or the command itself is ended.

    python -m benchmarks.faults [--students 600] [worker head command]

A cluster of two cores is started on this machine as docs/scale.md has it, with a token. A model without dropout learns
there, and once the first epoch is through: a worker is killed (SIGKILL); or the head, all of it, and a
new one is started, where the command goes on with --resume; or the command is stopped (Ctrl-C), and goes on. Told are
how the command ended, what it said, how long it took to be at the next epoch, and how far the weights are from those of
one process that nobody disturbed. Claim: the first ends with a bundle by itself, the others by --resume, none is
further than 1e-3; ends with 1 if it does not hold. Needs Linux, and some minutes.
"""

import argparse
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import tsdr

FURTHEST = 1e-3
TSDR = [sys.executable, "-m", "tsdr"]
PLUGIN = """
import tsdr
from tsdr.backbones.dkt import DKT

@tsdr.register_backbone("without-dropout")
class WithoutDropout(DKT):
    def __init__(self, n_concepts, n_questions):
        super().__init__(n_concepts, n_questions, d=16, dropout=0.0)
        self.options = {}
"""


def processes(beginning: str) -> list[int]:
    """Those whose command begins so."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if path.read_text().startswith(beginning):
                found.append(int(path.parent.name))
    return found


def started_by(process: int) -> list[int]:
    """A process and all that it has started."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [process, *(one for child in children for one in started_by(int(child)))]


@contextmanager
def head(port: int) -> Iterator[subprocess.Popen[str]]:
    """The head of a cluster of two cores, on the loopback; a short path, since Ray's sockets lie in it."""
    with tempfile.TemporaryDirectory(prefix="ray") as folder:
        where = f"--node-ip-address 127.0.0.1 --port {port} --num-cpus 2 --temp-dir {folder}"
        command = f"start --head --block {where} --include-dashboard=false --disable-usage-stats"
        ray = Path(sys.executable).with_name("ray")
        process = subprocess.Popen([ray, *command.split()], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert process.stdout is not None
        next(line for line in process.stdout if "Ray runtime started" in line)
        try:
            yield process
        finally:
            process.terminate()
            process.wait()


class Command:
    """`tsdr fit`, by two workers of the cluster or in one process."""

    def __init__(self, folder: Path, port: int | None, *more: str) -> None:
        self.bundle = folder / ("alone" if port is None else "model")
        engine = [] if port is None else ["--engine", "ray", "--workers", "2", "--address", f"127.0.0.1:{port}"]
        what = [f"{folder}/log.parquet", "--backbone", "without-dropout", "--plugin", f"{folder}/plugin.py"]
        how = ["--method", "naive", "--out", str(self.bundle), *engine, *more]
        self.process = subprocess.Popen([*TSDR, "fit", *what, *how], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)

    def after_an_epoch(self) -> None:
        """Wait until it has written the next checkpoint."""
        checkpoint = self.bundle.with_name(f"{self.bundle.name}.checkpoint")
        before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else None
        while self.process.poll() is None and (not checkpoint.exists() or checkpoint.stat().st_mtime_ns == before):
            time.sleep(0.05)

    def end(self) -> str:
        """How it ended, and what it said last."""
        said = self.process.communicate()[1].decode().strip().splitlines()
        return f"{self.process.returncode}, {said[-1] if said else 'nothing said'}"


def disturbed(folder: Path, what: str) -> None:
    """Train, with one disturbance; what happens is printed."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with head(port) as first:
        command = Command(folder, port)
        command.after_an_epoch()
        if what == "worker":
            os.kill(processes("ray::RayTrainWorker")[0], signal.SIGKILL)
        elif what == "command":
            command.process.send_signal(signal.SIGINT)
        else:
            for process in started_by(first.pid):
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
        begin = time.perf_counter()
        if what == "worker":
            command.after_an_epoch()
            print(f"  the next epoch after {time.perf_counter() - begin:.0f} s", flush=True)
        print(f"  ended with {command.end()}; {time.perf_counter() - begin:.0f} s after", flush=True)
        if what == "command":
            time.sleep(2)
            print(f"  {len(processes('ray::RayTrainWorker'))} workers are left of it", flush=True)
            print(f"  with --resume: {Command(folder, port, '--resume').end()}", flush=True)
    if what == "head":
        with head(port):
            print(f"  a new head, with --resume: {Command(folder, port, '--resume').end()}", flush=True)


def main() -> None:
    """One disturbance after the other."""
    parser = argparse.ArgumentParser()
    parser.add_argument("disturbances", nargs="*", default=["worker", "head", "command"])
    parser.add_argument("--students", type=int, default=600)
    asked = parser.parse_args()
    os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32), RAY_worker_niceness="0")
    held = True
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tsdr.simulate(students=asked.students, questions=50, concepts=10, seed=1).log.write(folder / "log.parquet")
        (folder / "plugin.py").write_text(PLUGIN)
        tsdr.load_plugin(folder / "plugin.py")
        print(f"in one process: {Command(folder, None).end()}", flush=True)
        alone = tsdr.load(folder / "alone").backbone.state_dict()
        for what in asked.disturbances:
            print(f"{what}:", flush=True)
            disturbed(folder, what)
            found = tsdr.load(folder / "model").backbone.state_dict()
            far = max(float((found[key] - alone[key]).abs().max()) for key in alone)
            print(f"  furthest weight: {far:.1g}", flush=True)
            held = held and far <= FURTHEST
            for path in sorted((folder / "model").iterdir()):
                path.unlink()
            (folder / "model").rmdir()
    sys.exit(0 if held else 1)


if __name__ == "__main__":
    main()
