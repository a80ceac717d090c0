"""How fast answers are served: sessions in Python, and the service over loopback under a steady load.

    python -m benchmarks.serving [--seconds 20] [--rate 200]

Models are of the paper's sizes with 1,769 concepts and 8,000 questions, untrained: time does not depend on the weights.
Sessions run on one thread, over histories twice as long as the window. The load comes from this process, at a fixed
rate whether or not answers come back in time, so that waiting counts; it shares the machine with the service. Its 500
students have 60 answers each at the start, more than the window.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch

from tsdr import Vocabulary, build_backbone
from tsdr.backbones.contract import tensors_in
from tsdr.defaults import Extent
from tsdr.models.bundle import Bundle
from tsdr.models.model import Model
from tsdr.paper import BACKBONES
from tsdr.serving.store import Answer, Store

CONCEPTS, QUESTIONS, WINDOW = 1769, 8000, 50
TARGETS = {"dkt": 20, "simplekt": 80, "sparsekt": 80, "akt": 160, "folibikt": 160, "diskt": 160}  # ms, p99
STUDENTS, CONNECTIONS, PORT = 500, 32, 8099
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
SERVICE_TARGET = 250  # ms, p99


def new_bundle(backbone: str, window: Extent = WINDOW) -> Bundle:
    """An untrained model of the paper's size."""
    vocabulary = Vocabulary(tuple(f"c{i:04}" for i in range(CONCEPTS)), tuple(f"q{i:04}" for i in range(QUESTIONS)))
    torch.manual_seed(0)
    model = build_backbone(backbone, n_concepts=CONCEPTS, n_questions=QUESTIONS)
    return Bundle(model, backbone, model.options, vocabulary, window, {})


def session_times(model: Model, answers: int) -> list[float]:
    """Milliseconds of observing an answer and asking for the mastery of all concepts, one after the other."""
    drawn, found = random.Random(1), []
    session = model.session()
    for _ in range(answers):
        concept, question = drawn.randrange(CONCEPTS), drawn.randrange(QUESTIONS)
        begin = time.perf_counter()
        session.observe(f"q{question:04}", f"c{concept:04}", drawn.randrange(2))
        session.mastery()
        found.append(1000 * (time.perf_counter() - begin))
        if session.answers == 2 * WINDOW:
            session = model.session()
    return found


def held_kilobytes(model: Model) -> float:
    """What a session with a full window keeps of its student."""
    session = model.session()
    for i in range(WINDOW):
        session.observe(None, f"c{i:04}", 1)
        session.mastery_of_all()
    return sum(t.numel() * t.element_size() for t in tensors_in(session.history)) / 1000


def measure_sessions(answers: int) -> None:
    """The table of sessions."""
    torch.set_num_threads(1)
    print(f"observe + mastery of {CONCEPTS:,} concepts, one thread, {answers} answers up to twice the window\n")
    print("| backbone | p50, ms | p99, ms | target, ms | p99 / target | memory a student, kB |")
    print("|---|---|---|---|---|---|")
    for backbone in BACKBONES:
        model = Model(new_bundle(backbone))
        session_times(model, 10)
        p50, p99 = np.percentile(session_times(model, answers), (50, 99))
        target = TARGETS[backbone]
        print(
            f"| {backbone} | {p50:.1f} | {p99:.1f} | {target} | {p99 / target:.2f} | {held_kilobytes(model):.0f} |",
            flush=True,
        )


@contextmanager
def service(bundle: Path, store: str, workers: int) -> Iterator[tuple[str, int]]:
    """The service, as a user starts it."""
    command = [sys.executable, "-m", "tsdr", "serve", str(bundle), "--store", store, "--port", str(PORT)]
    process = subprocess.Popen([*command, "--workers", str(workers)], start_new_session=True)
    try:
        for _ in range(600):
            try:
                socket.create_connection(("127.0.0.1", PORT)).close()
                break
            except ConnectionError:
                time.sleep(0.2)
        yield "127.0.0.1", PORT
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()


def enroll_students(store: str) -> None:
    """Students with more answers than the window, so that every session is at its longest."""
    drawn, opened = random.Random(3), Store(store)
    for student in range(STUDENTS):
        answers = [
            Answer(f"before {i}", f"q{drawn.randrange(QUESTIONS):04}", f"c{drawn.randrange(CONCEPTS):04}", i % 2)
            for i in range(WINDOW + 10)
        ]
        opened.add(f"s{student}", answers)
    opened.close()


class Load:
    """Requests as a platform sends them: 60 % answers, 30 % mastery, 10 % what to ask next.

    They go over a bounded number of connections that stay open, written and read by hand: a client library would take
    more of the machine than the service does. A request's time begins when it is due, a connection being free or not.
    """

    def __init__(self, address: tuple[str, int], name: str) -> None:
        self.address, self.name = address, name
        self.drawn = random.Random(name)
        self.sent = 0
        self.times: dict[str, list[float]] = {"answers": [], "mastery": [], "next": []}
        self.statuses: Counter[int] = Counter()

    def draw(self) -> tuple[str, bytes]:
        """The kind of the next request, and the request."""
        kind = self.drawn.choices(list(self.times), (60, 30, 10))[0]
        path = f"/students/s{self.drawn.randrange(STUDENTS)}/{kind}"
        self.sent += 1
        if kind != "answers":
            return kind, f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
        answer = {
            "event": f"{self.name} {self.sent}",
            "question": f"q{self.drawn.randrange(QUESTIONS):04}",
            "concept": f"c{self.drawn.randrange(CONCEPTS):04}",
            "correct": self.drawn.randrange(2),
        }
        body = json.dumps(answer)
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        return kind, f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()

    async def connect(self, count: int) -> list[Connection]:
        """Connections, opened one after the other: of many at once the process that wakes first would take all."""
        found = []
        for _ in range(count):
            found.append(await asyncio.open_connection(*self.address))
            await asyncio.sleep(0.02)
        return found

    async def exchange(self, connection: Connection, kind: str, request: bytes, begin: float) -> None:
        """Send a request, read what comes back, and keep how long it took."""
        reader, writer = connection
        writer.write(request)
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        await reader.readexactly(int(head.split("content-length: ")[1].split("\r\n")[0]))
        self.statuses[int(head.split()[1])] += 1
        self.times[kind].append(1000 * (time.perf_counter() - begin))

    async def steadily(self, rate: float, seconds: float) -> float:
        """Requests at fixed moments, answered or not; gives the rate at which they were answered."""
        due: asyncio.Queue[tuple[str, bytes, float] | None] = asyncio.Queue()

        async def take(connection: Connection) -> None:
            while (taken := await due.get()) is not None:
                await self.exchange(connection, *taken)

        takers = [asyncio.create_task(take(connection)) for connection in await self.connect(CONNECTIONS)]
        begin = time.perf_counter()
        for i in range(int(rate * seconds)):
            moment = begin + i / rate
            await asyncio.sleep(max(0.0, moment - time.perf_counter()))
            due.put_nowait((*self.draw(), moment))
        for _ in takers:
            due.put_nowait(None)
        await asyncio.gather(*takers)
        return self.sent / (time.perf_counter() - begin)

    async def as_fast_as_possible(self, clients: int, seconds: float) -> float:
        """Clients that send the next request when the last is answered."""
        connections = await self.connect(clients)
        begin = time.perf_counter()

        async def client(connection: Connection) -> None:
            while time.perf_counter() < begin + seconds:
                await self.exchange(connection, *self.draw(), time.perf_counter())

        await asyncio.gather(*(client(connection) for connection in connections))
        return self.sent / (time.perf_counter() - begin)


async def measure(address: tuple[str, int], run: Callable[[Load], Awaitable[float]], label: str) -> None:
    """One load on the service."""
    load = Load(address, label)
    rate = await run(load)
    every = [value for values in load.times.values() for value in values]
    print(f"\n{label}: {load.sent:,} requests, {rate:.0f} a second, statuses {dict(load.statuses)}\n")
    print("| request | number | p50, ms | p99, ms |\n|---|---|---|---|")
    for kind, values in {**load.times, "all": every}.items():
        p50, p99 = np.percentile(values, (50, 99))
        print(f"| {kind} | {len(values):,} | {p50:.1f} | {p99:.1f} |")
    print(f"\np99 / target ({SERVICE_TARGET} ms): {np.percentile(every, 99) / SERVICE_TARGET:.2f}", flush=True)


def measure_service(rate: float, seconds: float, workers: int = 2) -> None:
    """The service of a DKT on SQLite."""
    with tempfile.TemporaryDirectory() as folder:
        new_bundle("dkt").write(Path(folder) / "model")
        store = f"sqlite:///{folder}/students.db"
        enroll_students(store)
        with service(Path(folder) / "model", store, workers) as address:
            loads: dict[str, Callable[[Load], Awaitable[float]]] = {
                "warming up": lambda load: load.steadily(50, 3),
                f"dkt, {workers} workers, {rate:.0f} a second": lambda load: load.steadily(rate, seconds),
                "the same, 16 clients that wait": lambda load: load.as_fast_as_possible(16, seconds / 2),
            }
            for label, run in loads.items():
                asyncio.run(measure(address, run, label))


def main() -> None:
    """Both parts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--answers", type=int, default=400)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--rate", type=float, default=200)
    asked = parser.parse_args()
    measure_sessions(asked.answers)
    measure_service(asked.rate, asked.seconds)


if __name__ == "__main__":
    main()
