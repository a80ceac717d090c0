"""Running the service: one process or several, which share the store and count together."""

import gc
import ipaddress
import json
import os
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from tsdr.backbones.plugins import load_plugin, loaded_plugins
from tsdr.errors import InputError
from tsdr.models.model import load
from tsdr.processes import end_with_parent
from tsdr.serving.app import create_app
from tsdr.serving.measures import SHARED
from tsdr.serving.page import diagnosis_of
from tsdr.serving.store import Store

TOKEN = "TSDR_TOKEN"
_SETTINGS = "TSDR_SERVE"
SWITCH_SECONDS = 0.0005
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True)
class Settings:
    """What a process of the service needs to know."""

    bundle: str
    store: str
    host: str
    port: int
    workers: int
    plugins: list[str]


def check(bundle: Path, store: str) -> None:
    """Refuse a bundle or a store that cannot be used, before any process is started with it."""
    diagnosis_of(load(bundle))
    Store(store).close()


def serve(bundle: Path, store: str, host: str, port: int, workers: int) -> None:
    """Serve until stopped. The token, if there is to be one, is in the environment: arguments can be seen by all."""
    plugins = [str(plugin.path) for plugin in loaded_plugins()]
    settings = Settings(str(bundle.resolve()), store, host, port, workers, plugins)
    os.environ[_SETTINGS] = json.dumps(asdict(settings))
    with tempfile.TemporaryDirectory(prefix="tsdr-metrics-") as counts:
        if workers > 1:
            os.environ[SHARED] = counts
        uvicorn.run(
            "tsdr.serving.server:process",
            factory=True,
            host=host,
            port=port,
            workers=workers,
            log_level="warning",
            access_log=False,  # paths name students
            server_header=False,
            timeout_worker_healthcheck=60,  # a process that is loading torch does not answer
        )


def process() -> FastAPI:
    """The application of one process, by the settings in the environment."""
    settings = Settings(**json.loads(os.environ[_SETTINGS]))
    for plugin in settings.plugins:
        load_plugin(plugin)
    # A thread that has its turn to write must not wait for 5 ms, as is usual, whenever another one computes.
    sys.setswitchinterval(SWITCH_SECONDS)
    if settings.workers > 1:
        end_with_parent()
    token = os.environ.get(TOKEN) or None
    hosts = None if token or not is_loopback(settings.host) else {settings.host, *_LOOPBACK}
    app = create_app(load(settings.bundle), Store.served(settings.store), token=token, hosts=hosts)
    # What was loaded stays: to look through it for garbage again and again would hold up requests.
    gc.collect()
    gc.freeze()
    return app


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine only.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError as error:
        raise InputError(f"--host {host}: give an address, such as 127.0.0.1 or 0.0.0.0") from error
