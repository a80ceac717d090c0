"""How fast answers are served: sessions in Python, and the service over loopback under a steady load.

    python -m benchmarks.serving [--seconds 20] [--rate 200]

Models are of the paper's sizes with 1,769 concepts and 8,000 questions, untrained: time does not depend on the weights.
Sessions run on one thread, over histories twice as long as the window. The load comes from this process, at a fixed
rate whether or not answers come back in time, so that waiting counts; it shares the machine with the service. Its 500
students have 60 answers each at the start, more than the window.
"""

import argparse
import asyncio
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
import torch

from tsdr import Vocabulary, build_backbone
from tsdr.backbones.contract import tensors_in
from tsdr.experiments.paper import BACKBONES
from tsdr.serving.model import Model
from tsdr.serving.store import Answer, Store
from tsdr.training.bundle import Bundle

CONCEPTS, QUESTIONS, WINDOW = 1769, 8000, 50
TARGETS = {"dkt": 20, "simplekt": 80, "sparsekt": 80, "akt": 160, "folibikt": 160, "diskt": 160}  # ms, p99
STUDENTS = 500
SERVICE_TARGET = 250  # ms, p99


def new_bundle(backbone: str) -> Bundle:
    """An untrained model of the paper's size."""
    vocabulary = Vocabulary(tuple(f"c{i:04}" for i in range(CONCEPTS)), tuple(f"q{i:04}" for i in range(QUESTIONS)))
    torch.manual_seed(0)
    model = build_backbone(backbone, n_concepts=CONCEPTS, n_questions=QUESTIONS)
    return Bundle(model, backbone, model.options, vocabulary, WINDOW, {})


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
def service(bundle: Path, store: str, workers: int) -> Iterator[str]:
    """The service, as a user starts it."""
    command = [sys.executable, "-m", "tsdr", "serve", str(bundle), "--store", store, "--port", "8099"]
    process = subprocess.Popen([*command, "--workers", str(workers)], start_new_session=True)
    url = "http://127.0.0.1:8099"
    try:
        for _ in range(600):
            try:
                if httpx.get(f"{url}/health").status_code == 200:
                    break
            except httpx.TransportError:
                time.sleep(0.2)
        yield url
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
    """Requests as a platform sends them: 60 % answers, 30 % mastery, 10 % what to ask next."""

    def __init__(self, client: httpx.AsyncClient, name: str) -> None:
        self.client, self.name = client, name
        self.drawn = random.Random(name)
        self.sent = 0
        self.times: dict[str, list[float]] = {"answers": [], "mastery": [], "next": []}
        self.statuses: Counter[int | str] = Counter()

    async def one(self) -> None:
        """One request, and how long it took."""
        kind = self.drawn.choices(list(self.times), (60, 30, 10))[0]
        path = f"/students/s{self.drawn.randrange(STUDENTS)}/{kind}"
        self.sent += 1
        concept, question = self.drawn.randrange(CONCEPTS), self.drawn.randrange(QUESTIONS)
        body = {
            "event": f"{self.name} {self.sent}",
            "question": f"q{question:04}",
            "concept": f"c{concept:04}",
            "correct": self.drawn.randrange(2),
        }
        begin = time.perf_counter()
        try:
            if kind == "answers":
                response = await self.client.post(path, json=body)
            else:
                response = await self.client.get(path)
            self.statuses[response.status_code] += 1
        except httpx.TransportError as error:
            self.statuses[type(error).__name__] += 1
        self.times[kind].append(1000 * (time.perf_counter() - begin))

    async def steadily(self, rate: float, seconds: float) -> float:
        """Requests at fixed moments, answered or not; gives the rate at which they were answered."""
        begin, under_way = time.perf_counter(), set()
        for i in range(int(rate * seconds)):
            await asyncio.sleep(max(0.0, begin + i / rate - time.perf_counter()))
            task = asyncio.create_task(self.one())
            under_way.add(task)
            task.add_done_callback(under_way.discard)
        await asyncio.gather(*under_way)
        return self.sent / (time.perf_counter() - begin)

    async def as_fast_as_possible(self, clients: int, seconds: float) -> float:
        """Clients that send the next request when the last is answered."""
        begin = time.perf_counter()

        async def client() -> None:
            while time.perf_counter() < begin + seconds:
                await self.one()

        await asyncio.gather(*(client() for _ in range(clients)))
        return self.sent / (time.perf_counter() - begin)


async def measure(url: str, run: Callable[[Load], object], label: str) -> None:
    """One load on the service."""
    limits = httpx.Limits(max_connections=64)
    async with httpx.AsyncClient(base_url=url, timeout=30, limits=limits) as client:
        load = Load(client, label)
        rate = await run(load)  # type: ignore[misc]
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
        with service(Path(folder) / "model", store, workers) as url:
            asyncio.run(measure(url, lambda load: load.steadily(50, 3), "warming up"))
            asyncio.run(
                measure(url, lambda load: load.steadily(rate, seconds), f"dkt, {workers} workers, {rate:.0f} a second")
            )
            asyncio.run(
                measure(url, lambda load: load.as_fast_as_possible(16, seconds / 2), "the same, 16 clients that wait")
            )


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
