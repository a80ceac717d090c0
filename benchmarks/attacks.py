"""Whether the service holds: each attack says what it did and what came of it, and fails where something did not hold.

    PYTHONPATH=tests:tests/serving python -m benchmarks.attacks [headers halves idle row frozen file ...]

Nothing is measured here but what has to be in time. What is acknowledged is counted by clients, and looked for in the
store when all is over: lost, doubled or out of order is a failure. Needs Linux; PostgreSQL from Debian's package.
"""

import argparse
import os
import random
import resource
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import httpx
import psycopg
from postgres import backends, postgres_server
from services import Service, running

from served import random_bundle
from tsdr.serving.store import Store

SOON = 5.0  # seconds within which everything is answered, in whatever way
STUDENTS, WRITERS = 4, 4
BROKEN: list[str] = []
# Every request has a connection of its own, as those of different clients have.
CLIENT = httpx.Client(timeout=60, limits=httpx.Limits(max_connections=None, max_keepalive_connections=0))


def held(what: str, holds: bool) -> None:
    """Say what was looked at, and remember if it does not hold."""
    print(f"  {'held  ' if holds else 'BROKEN'} {what}", flush=True)
    if not holds:
        BROKEN.append(what)


@contextmanager
def scene(store: str | None = None, workers: int = 1) -> Iterator[tuple[Path, Service]]:
    """A folder with a bundle in it, and a service of it that has answered."""
    with tempfile.TemporaryDirectory(prefix="attack-") as name:
        folder = Path(name)
        random_bundle().write(folder / "model")
        with running(folder / "model", store or f"sqlite:///{folder}/students.db", workers) as service:
            yield folder, service


def answer(event: object) -> dict[str, object]:
    """An answer to be sent."""
    return {"event": str(event), "question": "q01", "concept": "c03", "correct": 1}


def asked(method: str, url: str, **more: object) -> tuple[int, float]:
    """The status of a request, 0 for none, and how long it took."""
    begin = time.monotonic()
    try:
        status = CLIENT.request(method, url, **more).status_code  # type: ignore[arg-type]
    except httpx.TransportError:
        status = 0
    return status, time.monotonic() - begin


def post(service: Service, student: str, event: object) -> tuple[int, float]:
    """Send an answer."""
    return asked("POST", f"{service.url}/students/{student}/answers", json=answer(event))


def processes(service: Service) -> list[int]:
    """The service's processes."""
    group = service.pid
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if int((entry / "stat").read_text().rpartition(")")[2].split()[2]) == group:
                found.append(int(entry.name))
    return sorted(found)


def memory(service: Service) -> float:
    """MB that its processes hold."""
    pages = 0
    for process in processes(service):
        with suppress(OSError):
            pages += int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def opened(service: Service) -> socket.socket:
    """A connection to it."""
    host, _, port = service.url.removeprefix("http://").rpartition(":")
    return socket.create_connection((host, int(port)), timeout=60)


def said(connection: socket.socket) -> bytes:
    """What comes until the other side closes."""
    found = b""
    with suppress(OSError):
        while part := connection.recv(65536):
            found += part
    return found


def headers() -> None:
    """200 MB in one header, thousands of fields, a long address: while others ask whether it is well."""
    os.environ["TSDR_TOKEN"] = "secret"
    with scene() as (_, service):
        before, worst, ended = memory(service), 0.0, threading.Event()

        def look() -> None:
            nonlocal worst
            while not ended.is_set():
                worst = max(worst, asked("GET", f"{service.url}/health")[1])

        looking = threading.Thread(target=look)
        looking.start()
        piece = b"x" * 65536
        for name, begin, pieces in (
            ("one header of 200 MB", b"GET /metrics HTTP/1.1\r\nHost: a\r\nX: ", [piece] * 3200),
            ("100,000 fields", b"GET /metrics HTTP/1.1\r\nHost: a\r\n", [b"a: b\r\n" * 1000] * 100),
            ("an address of 200 MB", b"GET /", [piece] * 3200),
            ("200 MB behind a body", _CHUNKED + b"5\r\nhello\r\n0\r\nX: ", [piece] * 3200),
        ):
            with opened(service) as connection:
                with suppress(OSError):
                    connection.sendall(begin)
                    for part in pieces:
                        connection.sendall(part)
                found = said(connection)
            held(f"{name}: {found[:40]!r}", found.startswith(b"HTTP/1.1 431"))
        ended.set()
        looking.join()
        held(f"memory grew by {memory(service) - before:.0f} MB", memory(service) - before < 30)
        held(f"/health took at most {worst:.2f} s meanwhile", worst < 2)
    del os.environ["TSDR_TOKEN"]


_CHUNKED = b"POST /predict HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nAuthorization: Bearer secret\r\n\r\n"


def halves() -> None:
    """Requests of which the rest never comes."""
    with scene() as (_, service):
        halves = [b"GET /health HTTP/1.1\r\nHost", b"POST /predict HTTP/1.1\r\nContent-Length: 9\r\n\r\n{", b""]
        connections = [opened(service) for _ in range(51)]
        for i, connection in enumerate(connections):
            connection.sendall(halves[i % 3])
        held("others are served meanwhile", post(service, "ada", 1)[0] == 200)
        time.sleep(25)
        still = 0
        for connection in connections:
            connection.settimeout(0.2)
            try:
                while connection.recv(65536):
                    pass
            except TimeoutError:
                still += 1
            except OSError:
                pass
            connection.close()
        held(f"{still} of {len(connections)} open after 25 s", still == 0)


def idle() -> None:
    """Thousands of connections that say nothing, to a service that may open 1,024 files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
    with scene() as (_, service):
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 10_000), hard))
        connections = [opened(service) for _ in range(3000)]
        for i, connection in enumerate(connections):
            if i % 2:
                with suppress(OSError):
                    connection.sendall(b"GET /health HTTP/1.1\r\n")
        found = [post(service, "ada", i) for i in range(5)]
        held(f"3,000 idle connections; posts then: {_told(found)}", all(s == 200 and t < SOON for s, t in found))
        for connection in connections:
            connection.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _told(found: list[tuple[int, float]]) -> str:
    statuses = dict(Counter(status for status, _ in found))
    return f"statuses {statuses}, the slowest after {max(seconds for _, seconds in found):.1f} s"


def _under_lock(service: Service, others: bool) -> None:
    """What is answered while a student, or with `others` everything, is held by another process."""
    with ThreadPoolExecutor(40) as pool:
        for_one = [pool.submit(post, service, "ada", f"locked-{i}") for i in range(12)]
        for_others = [pool.submit(post, service, f"other-{i}", i) for i in range(6)]
        reads = [pool.submit(asked, "GET", f"{service.url}/students/ada/mastery") for _ in range(6)]
        health = [pool.submit(asked, "GET", f"{service.url}/health") for _ in range(4)]
        one, rest, read, well = ([each.result() for each in part] for part in (for_one, for_others, reads, health))
    held(f"for the one who is held: {_told(one)}", all(s == 503 and t < SOON for s, t in one))
    if others:
        held(f"for others: {_told(rest)}", all(s == 200 and t < SOON for s, t in rest))
    else:
        held(f"for others, who are held too: {_told(rest)}", all(s == 503 and t < SOON for s, t in rest))
    held(f"reads: {_told(read)}", all(s == 200 and t < SOON for s, t in read))
    held(f"/health: {_told(well)}", all(t < SOON for _, t in well))


def row() -> None:
    """A student's row in PostgreSQL, held by another."""
    with postgres_server() as url, scene(url) as (_, service):
        post(service, "ada", 0)
        with psycopg.connect(url) as holding:
            holding.execute("SELECT * FROM students WHERE id = 'ada' FOR UPDATE")
            _under_lock(service, others=True)
        held("afterwards it is served", post(service, "ada", "after")[0] == 200)


def lock() -> None:
    """SQLite's one writer is another process."""
    with scene() as (folder, service):
        post(service, "ada", 0)
        holding = sqlite3.connect(folder / "students.db", isolation_level=None)
        holding.execute("BEGIN IMMEDIATE")
        _under_lock(service, others=False)
        status = asked("GET", f"{service.url}/health")[0]
        held(f"/health, after that: {status}", status == 503)
        holding.execute("ROLLBACK")
        held("afterwards it is served", post(service, "ada", "after")[0] == 200)
        held("and well", asked("GET", f"{service.url}/health")[0] == 200)


def frozen() -> None:
    """PostgreSQL is stopped by SIGSTOP and goes on later."""
    with postgres_server() as url, scene(url) as (_, service):
        post(service, "ada", 0)
        with stopped(url):
            with ThreadPoolExecutor(40) as pool:
                posts = [pool.submit(post, service, f"s{i % 7}", i) for i in range(20)]
                health = [pool.submit(asked, "GET", f"{service.url}/health") for _ in range(4)]
                found, well = [each.result() for each in posts], [each.result() for each in health]
            held(f"posts: {_told(found)}", all(s == 503 and t < SOON for s, t in found))
            held(f"/health: {_told(well)}", all(s == 503 and t < SOON for s, t in well))
        time.sleep(1.5)
        held("afterwards it is served", post(service, "ada", "after")[0] == 200)


@contextmanager
def stopped(url: str) -> Iterator[None]:
    """All of a server's processes are stopped meanwhile."""
    family = backends(url)
    for process in family:
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in family:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGCONT)


def workers() -> None:
    """Processes are killed: just so, while the bundle is away, while the database is; and then nothing comes back."""
    with scene(workers=2) as (folder, service):
        until(lambda: len(at_work(service)) == 2, 60)
        for _ in range(2):
            kill_one(service)
            held(f"replaced after {until(lambda: len(at_work(service)) == 2, 60):.1f} s", _last < SOON)
        (folder / "model").rename(folder / "away")
        kill_one(service)
        time.sleep(8)
        held("the other serves while the bundle is away", post(service, "ada", 1)[0] == 200)
        (folder / "away").rename(folder / "model")
        held(f"replaced {until(lambda: len(at_work(service)) == 2, 60):.1f} s after it is back", _last < SOON)
        (folder / "model").rename(folder / "away")
        for process in at_work(service):
            os.kill(process, signal.SIGKILL)
        seconds = until(lambda: service.code() is not None, 100)
        held(f"none can start: exit code {service.code()} after {seconds:.0f} s", service.code() == 2)
    with postgres_server() as url, scene(url, workers=2) as (_, service):
        until(lambda: len(at_work(service)) == 2, 60)
        with stopped(url):
            kill_one(service)
            held(f"replaced without a database after {until(lambda: len(at_work(service)) == 2, 60):.1f} s", _last < 5)
        time.sleep(1.5)
        found = [post(service, "ada", i) for i in range(20)]
        held(f"once it is back: {_told(found)}", all(status == 200 for status, _ in found))


def kill_one(service: Service) -> None:
    """kill -9 of one of its processes that take requests."""
    killed = at_work(service)[-1]
    os.kill(killed, signal.SIGKILL)
    until(lambda: killed not in at_work(service), 10)


_last = 0.0


def until(condition: Callable[[], bool], patience: float) -> float:
    """Seconds until something is so."""
    global _last
    begin = time.monotonic()
    while not condition() and time.monotonic() < begin + patience:
        time.sleep(0.05)
    _last = time.monotonic() - begin
    return _last


def at_work(service: Service) -> list[int]:
    """Its processes that take requests: those that wait for connections on its port, but for the first."""
    port = int(service.url.rpartition(":")[2])
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    sockets = {f"socket:[{line[9]}]" for line in lines if line[3] == "0A" and int(line[1].split(":")[1], 16) == port}
    found = []
    for process in processes(service)[1:]:
        with suppress(OSError):
            files = {os.readlink(file) for file in Path(f"/proc/{process}/fd").iterdir()}
            if files & sockets and any(file.startswith("anon_inode:[eventpoll]") for file in files):
                found.append(process)
    return found


def metrics() -> None:
    """A cleaner of temporary files, and tokens that cannot be sent."""
    with tempfile.TemporaryDirectory(prefix="attack-") as temporary:
        os.environ["TMPDIR"] = temporary
        with scene(workers=2) as (_, service):
            for entry in Path(temporary).iterdir():
                if not entry.name.startswith("attack-"):
                    shutil.rmtree(entry, ignore_errors=True)
            post(service, "ada", 1)
            held("/metrics after a cleaner", asked("GET", f"{service.url}/metrics")[0] == 200)
            kill_one(service)
            until(lambda: len(at_work(service)) == 2, 60)
            found = httpx.get(f"{service.url}/metrics").text
            held("what a process counted that was killed is kept", "tsdr_answers_stored_total 1.0" in found)
        left = [entry.name for entry in Path(temporary).iterdir() if not entry.name.startswith("attack-")]
        held(f"killed, it leaves {left}", not left)
        del os.environ["TMPDIR"]
        random_bundle().write(Path(temporary) / "model")
        for name, token in (("not ASCII", "日本"), ("1,001 characters", "x" * 1001)):
            for number in ("1", "2"):
                command = ["serve", f"{temporary}/model", "--store", f"sqlite:///{temporary}/s.db", "--workers", number]
                ended = subprocess.run(
                    [sys.executable, "-m", "tsdr", *command],
                    env=os.environ | {"TSDR_TOKEN": token},
                    capture_output=True,
                    timeout=90,
                )
                held(f"token, {name}, {number} workers: {ended.stderr.decode()[:100]!r}", ended.returncode == 2)


def file() -> None:
    """The store's file is deleted, moved and brought back, or replaced, while it is served."""
    for name, attack in (("deleted", "rm"), ("moved", "mv"), ("replaced", "cp"), ("its last part deleted", "wal")):
        with scene(workers=2) as (folder, service):
            found = [post(service, "ada", i) for i in range(4)]
            store = folder / "students.db"
            if attack == "rm":
                store.unlink()
            elif attack == "mv":
                store.rename(folder / "elsewhere.db")
            elif attack == "cp":
                shutil.copy(store, folder / "other.db")
                (folder / "other.db").rename(store)
            else:
                (folder / "students.db-wal").unlink()
            found = [post(service, "ada", f"after {i}") for i in range(10)]
            well = [asked("GET", f"{service.url}/health") for _ in range(4)]
            held(f"{name}: {_told(found)}", all(status == 503 for status, _ in found))
            held(f"{name}, /health: {_told(well)}", all(status == 503 for status, _ in well))
            if attack == "mv":
                (folder / "elsewhere.db").rename(store)
                found = [post(service, "ada", f"back {i}") for i in range(4)]
                held(f"brought back: {_told(found)}", all(status == 200 for status, _ in found))


class Writer(threading.Thread):
    """Sends a client's answers in order, each until it is acknowledged."""

    def __init__(self, urls: list[str], number: int, ended: threading.Event) -> None:
        super().__init__(daemon=True)
        self.urls, self.number, self.ended = urls, number, ended
        self.acknowledged: dict[str, list[str]] = {f"s{i}": [] for i in range(STUDENTS)}
        self.statuses: Counter[int] = Counter()

    def run(self) -> None:
        """Until it is told to end."""
        count = 0
        while not self.ended.is_set():
            student, event = f"s{count % STUDENTS}", f"{self.number}-{count}"
            url = self.urls[count % len(self.urls)]
            status, _ = asked("POST", f"{url}/students/{student}/answers", json=answer(event))
            self.statuses[status] += 1
            if status == 200:
                self.acknowledged[student].append(event)
                count += 1
            else:
                time.sleep(0.05)


@contextmanager
def writing(store: str, *services: Service, full: bool = False) -> Iterator[list[Writer]]:
    """Clients send answers meanwhile; then all that was acknowledged is looked for."""
    ended = threading.Event()
    writers = [Writer([service.url for service in services], number, ended) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    yield writers
    time.sleep(1)
    ended.set()
    for writer in writers:
        writer.join()
    opened_store, lost, doubled, disordered, total = Store(store), 0, 0, 0, 0
    for student in writers[0].acknowledged:
        known = opened_store.find(student)
        stored = [] if known is None else [each.event for each in opened_store.latest(known, 1_000_000)]
        doubled += len(stored) - len(set(stored))
        for writer in writers:
            sent = writer.acknowledged[student]
            own = [event for event in stored if event.startswith(f"{writer.number}-")]
            lost += len(set(sent) - set(own))
            disordered += own[: len(sent)] != sent
            total += len(sent)
    opened_store.close()
    statuses = sum((writer.statuses for writer in writers), Counter())
    held(
        f"{total} acknowledged: {lost} lost, {doubled} doubled, {disordered} out of order; statuses {dict(statuses)}",
        not (lost or doubled or disordered) and total > 0 and set(statuses) <= {0, 200, 503},
    )


def kill() -> None:
    """kill -9 of all of it, ten times on each kind of store."""
    moments = random.Random(3)
    with scene(workers=2) as (folder, service), writing(f"sqlite:///{folder}/students.db", service):
        _kill_often(service, moments)
    with postgres_server() as url, scene(url) as (_, service), writing(url, service):
        _kill_often(service, moments)


def _kill_often(service: Service, moments: random.Random) -> None:
    for _ in range(5):
        time.sleep(1 + moments.random())
        service.kill()
        service.start()


def database() -> None:
    """PostgreSQL is frozen and shut down under clients that write, and comes back."""
    with postgres_server() as url, scene(url, workers=2) as (_, service), writing(url, service):
        for _ in range(3):
            time.sleep(1.5)
            with stopped(url):
                time.sleep(4)
            time.sleep(1.5)
            with psycopg.connect(url, autocommit=True) as connection:  # as when it is restarted
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
                )


def two() -> None:
    """Two services on one store, of which one is killed."""
    with tempfile.TemporaryDirectory(prefix="attack-") as name:
        random_bundle().write(Path(name) / "model")
        store = f"sqlite:///{name}/students.db"
        model = Path(name) / "model"
        with running(model, store) as one, running(model, store) as other, writing(store, one, other):
            time.sleep(4)
            other.kill()
            other.start()
            time.sleep(2)


def disk() -> None:
    """The disk of a SQLite store is full, and has room again later."""
    with tempfile.TemporaryDirectory(prefix="attack-") as name:
        small = Path(name) / "small"
        small.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", small], check=True)
        try:
            random_bundle().write(Path(name) / "model")
            store = f"sqlite:///{small}/students.db"
            with running(Path(name) / "model", store) as service, writing(store, service):
                time.sleep(0.3)  # what was written last is still beside the file, and cannot grow then
                with (small / "filler").open("wb", buffering=0) as filler, suppress(OSError):
                    while filler.write(b"x" * 4096):
                        pass
                seconds = until(lambda: post(service, "ben", time.monotonic())[0] == 503, 60)
                status = asked("GET", f"{service.url}/health")[0]
                held(f"full: refused after {seconds:.1f} s, /health {status}", status == 503)
                (small / "filler").unlink()
                held("with room again", until(lambda: post(service, "ben", time.monotonic())[0] == 200, 10) < SOON)
                held("and well", asked("GET", f"{service.url}/health")[0] == 200)
        finally:
            subprocess.run(["umount", small], check=False)


def hostile() -> None:
    """Requests that nobody would send."""
    drawn = random.Random(5)
    values: list[object] = [
        None,
        "",
        "x" * 5000,
        -1,
        1e308,
        True,
        [],
        {},
        "\ud800",
        "a\0b",
        "'; DROP TABLE answers; --",
    ]
    values += ["%s", "../../etc/passwd", 10**30, {"a": {"b": []}}, "日本", "c03"]
    names = ["event", "question", "concept", "correct", "time", "skipped", "offer", "other"]
    with scene() as (_, service), httpx.Client(timeout=30) as client:
        statuses: Counter[int] = Counter()
        for _ in range(400):
            sent = {name: drawn.choice(values) for name in drawn.sample(names, drawn.randint(1, 6))}
            name = drawn.choice(["ada", "a" * 500, "a%00b", "%2e%2e%2f", "%ff", "%20", quote("日本")])
            path = drawn.choice([f"/students/{name}/answers", "/predict", "/"])
            body = repr(sent).replace("'", '"').encode("utf-8", "replace") if drawn.random() < 0.3 else None
            with suppress(UnicodeEncodeError):
                response = (
                    client.post(service.url + path, content=body)
                    if body
                    else client.post(service.url + path, json=sent)
                )
                statuses[response.status_code] += 1
        for query in (
            "target=2",
            "target=x",
            "count=-1",
            "explore=nan",
            "concepts=",
            "concepts=" + "x," * 3000,
            "%00=%ff",
            "a=b",
        ):
            for path in (
                "/students/ada/next",
                "/students/ada/mastery",
                "/",
                "/log",
                "/health",
                "/metrics",
                "/openapi.json",
            ):
                statuses[client.get(f"{service.url}{path}?{query}").status_code] += 1
        for raw in _RAW:
            with opened(service) as connection:
                connection.sendall(raw)
                connection.shutdown(socket.SHUT_WR)
                found = said(connection)
            statuses[int(found[9:12]) if found[:5] == b"HTTP/" else 0] += 1
        count = sum(statuses.values())
        held(f"{count} requests: {dict(sorted(statuses.items()))}", not any(status >= 500 for status in statuses))
        held("and it is well", asked("GET", f"{service.url}/health")[0] == 200)


_RAW = [
    b"\0" * 100,
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET  HTTP/1.1\r\n\r\n",
    b"BREW /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -5\r\n\r\n",
    b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
    b"POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    b"GET /%ff%fe HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    b"GET http://evil.example/health HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nExpect: 200-maybe\r\n\r\n",
    b"GET /health HTTP/1.1\r\n" * 50 + b"\r\n",
]

ATTACKS = {
    attack.__name__: attack
    for attack in (
        headers,
        halves,
        idle,
        row,
        lock,
        frozen,
        workers,
        metrics,
        file,
        kill,
        database,
        two,
        disk,
        hostile,
    )
}


def main() -> None:
    """Those that are asked for, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("attacks", nargs="*", metavar="ATTACK", help=", ".join(ATTACKS))
    for name in parser.parse_args().attacks or ATTACKS:
        print(f"{name}: {ATTACKS[name].__doc__}", flush=True)
        ATTACKS[name]()
    print(f"\n{len(BROKEN)} did not hold" if BROKEN else "\nall of it held")
    raise SystemExit(bool(BROKEN))


if __name__ == "__main__":
    main()
