"""A PostgreSQL server of its own for the tests, from Debian's package; skipped where there is none."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def postgres_server() -> Iterator[str]:
    """The URL of a server that trusts connections from this machine alone."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found:
        pytest.skip("there is no PostgreSQL server to test with (Debian's package postgresql)")
    folder = Path(tempfile.mkdtemp(prefix="tsdr-postgres-", dir="/tmp"))  # where the server's own user can go, too
    programs, port, data = found[-1].parent, free_port(), folder / "data"
    as_user: list[str] = []
    if os.getuid() == 0:  # the server refuses to run as root
        as_user = ["runuser", "-u", "postgres", "--"]
        shutil.chown(folder, "postgres")

    def run(*command: str | Path) -> None:
        subprocess.run([*as_user, *map(str, command)], check=True, capture_output=True, cwd="/", timeout=60)

    run(programs / "initdb", "-D", data, "-U", "tester", "--auth=trust", "--no-sync")
    settings = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder}"
    run(programs / "pg_ctl", "-D", data, "-o", settings, "-l", folder / "server.log", "-w", "start")
    try:
        yield f"postgresql://tester@127.0.0.1:{port}/postgres"
    finally:
        run(programs / "pg_ctl", "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)


def backends(url: str) -> list[int]:
    """All processes of a server that `postgres_server` has started."""
    port = url.rpartition(":")[2].partition("/")[0]
    found = subprocess.run(["pgrep", "-f", f"postgres.* -p {port}"], capture_output=True, check=True, text=True)
    first = int(found.stdout.split()[0])
    return [first, *map(int, Path(f"/proc/{first}/task/{first}/children").read_text().split())]
