"""The service as a process of its own, to be talked to over loopback and killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
from postgres import free_port

PATIENCE = 120.0  # a busy machine takes long to import torch


class Service:
    """`tsdr serve` in a session of its own."""

    def __init__(self, bundle: Path, store: str, workers: int = 1) -> None:
        self.url = f"http://127.0.0.1:{free_port()}"
        self._command = [sys.executable, "-m", "tsdr", "serve", str(bundle), "--store", store]
        self._command += ["--port", self.url.rpartition(":")[2], "--workers", str(workers)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, on the same port as before, and wait until it answers."""
        self._process = subprocess.Popen(self._command, start_new_session=True)
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            assert self._process.poll() is None, "the service has ended"
            try:
                if httpx.get(f"{self.url}/health").status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.05)
        raise AssertionError("the service does not answer")

    @property
    def pid(self) -> int:
        """Its first process, whose group all of them are."""
        assert self._process is not None
        return self._process.pid

    def code(self) -> int | None:
        """With what it has ended, if it has."""
        assert self._process is not None
        return self._process.poll()

    def kill(self) -> None:
        """kill -9, without a chance to say goodbye."""
        assert self._process is not None
        with suppress(ProcessLookupError):  # it has ended by itself
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def kill_parent(self) -> None:
        """kill -9 of the first process alone; the others let go of the port."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            try:
                httpx.get(f"{self.url}/health")
            except httpx.ConnectError:
                return
            except httpx.TransportError:
                pass
            time.sleep(0.05)
        raise AssertionError("its processes live on")


@contextmanager
def running(bundle: Path, store: str, workers: int = 1) -> Iterator[Service]:
    service = Service(bundle, store, workers)
    service.start()
    try:
        yield service
    finally:
        service.kill()
