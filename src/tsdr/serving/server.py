"""Running the service: one process or several, which share the store and count together."""

import gc
import ipaddress
import logging
import mmap
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import connection
from pathlib import Path
from typing import Any, Literal

import uvicorn
from fastapi import FastAPI

from tsdr.errors import InputError
from tsdr.models.model import load
from tsdr.serving.app import create_app
from tsdr.serving.connections import Connection
from tsdr.serving.measures import SHARED_BYTES, Measures
from tsdr.serving.served import Serving, checked_model
from tsdr.serving.store import Store
from tsdr.serving.students import on_one_core
from tsdr.serving.token import Token
from tsdr.serving.workers import BEAT_SECONDS, Workers

LogLevel = Literal["error", "warning", "info"]
TOKEN = "TSDR_TOKEN"
SWITCH_SECONDS = 0.0005
RETRY_SECONDS = 0.5
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True)
class Settings:
    """What a process of the service needs to know."""

    bundle: str
    store: str
    host: str


def check(bundle: Path, store: str) -> None:
    """Refuse a bundle, a store or a token that cannot be used, before any process is started with it."""
    on_one_core()  # processes that are forked from one with threads would wait for them
    Token(os.environ.get(TOKEN))
    checked_model(bundle)
    Store(store).close()


def serve(bundle: Path, store: str, host: str, port: int, workers: int, log_level: LogLevel) -> None:
    """Serve until stopped. The token, if there is to be one, is in the environment: arguments can be seen by all."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("tsdr").setLevel(log_level.upper())
    settings = Settings(str(bundle.absolute()), store, host)
    with _listen(host, port) as listening:
        if workers == 1:
            with suppress(KeyboardInterrupt):
                uvicorn.Server(_config(application(settings, Measures()))).run([listening])
            return
        memories = [mmap.mmap(-1, SHARED_BYTES) for _ in range(workers)]
        Workers(workers, partial(work, settings, listening, memories)).run()


def application(settings: Settings, measures: Measures) -> FastAPI:
    """The application of one process."""
    # A thread that has its turn to write must not wait for 5 ms, as is usual, whenever another one computes.
    sys.setswitchinterval(SWITCH_SECONDS)
    token = os.environ.get(TOKEN) or None
    hosts = None if token or not is_loopback(settings.host) else {settings.host, *_LOOPBACK}
    folder = Path(settings.bundle)
    model, store = load(folder), Store.served(settings.store)
    app = create_app(model, store, token=token, hosts=hosts, measures=measures, folder=folder, tell_others=tell_others)
    follow_on_hangup(app.state.serving)
    # What was loaded stays: to look through it for garbage again and again would hold up requests.
    gc.collect()
    gc.freeze()
    return app


def work(
    settings: Settings, listening: socket.socket, memories: Sequence[Any], place: int, telling: connection.Connection
) -> None:
    """Be one of several processes, as soon as the bundle can be read."""
    app = None
    while app is None:
        try:
            app = application(settings, Measures(memories, place))
        except (InputError, OSError) as error:
            telling.send(str(error))
            time.sleep(RETRY_SECONDS)

    async def beat() -> None:
        telling.send(True)

    with suppress(KeyboardInterrupt):
        uvicorn.Server(_config(app, callback_notify=beat, timeout_notify=BEAT_SECONDS)).run([listening])


def follow_on_hangup(serving: Serving) -> None:
    """Let SIGHUP have the model looked for anew, while requests are answered."""
    signal.signal(signal.SIGHUP, lambda number, frame: threading.Thread(target=serving.follow).start())


def tell_others() -> None:
    """Have the first process, where there are several, pass on to all of them that there may be another model."""
    first = multiprocessing.parent_process()
    if first is not None and first.pid is not None:
        os.kill(first.pid, signal.SIGHUP)


def _config(app: FastAPI, **more: Any) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        log_level="warning",
        access_log=False,  # paths name students; the guard has a log of its own
        server_header=False,
        **more,
    )


def _listen(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise InputError(f"--host {host} --port {port}: cannot be listened on ({error.strerror})") from error


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine only.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError as error:
        raise InputError(f"--host {host}: give an address, such as 127.0.0.1 or 0.0.0.0") from error
