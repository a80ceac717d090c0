"""The service is killed under load, five times, and has every answer that it acknowledged, once and in order."""

import json
import os
import random
import signal
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from postgres import postgres_server
from services import PATIENCE, Service

from served import random_bundle
from tsdr.models.model import Model
from tsdr.serving.store import Store

KILLS, WRITERS, STUDENTS = 3, 4, 3


class Writer(threading.Thread):
    """Sends answers of students in order, each until it is acknowledged, over however many lives of the service."""

    def __init__(self, url: str, number: int, ended: threading.Event) -> None:
        super().__init__()
        self.url, self.number, self.ended = url, number, ended
        self.acknowledged: dict[str, list[str]] = {f"s{i}": [] for i in range(STUDENTS)}
        self.refused: list[str] = []

    def run(self) -> None:
        count = 0
        while not self.ended.is_set():
            student, event = f"s{count % STUDENTS}", f"{self.number}-{count}"
            sent = {"event": event, "question": "q01", "concept": f"c{count % 11:02}", "correct": count % 2}
            try:
                response = httpx.post(f"{self.url}/students/{student}/answers", json=sent, timeout=10)
            except httpx.TransportError:  # killed: nobody knows whether it was stored, so it is sent again
                time.sleep(0.02)
                continue
            if response.status_code == 200:
                self.acknowledged[student].append(event)
                count += 1
            else:
                self.refused.append(response.text)


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'students.db'}"
        return
    with postgres_server() as url:
        yield url


def test_kill_9_under_load_loses_and_doubles_nothing(store_url: str, tmp_path: Path) -> None:
    random_bundle().write(tmp_path / "model")
    # Several processes share SQLite; that PostgreSQL is shared is what the other tests of it are about.
    service = Service(tmp_path / "model", store_url, workers=2 if store_url.startswith("sqlite") else 1)
    ended, moments = threading.Event(), random.Random(7)
    writers = [Writer(service.url, number, ended) for number in range(WRITERS)]
    service.start()
    try:
        for writer in writers:
            writer.start()
        for _ in range(KILLS):
            before, patience = acknowledged(writers), time.monotonic() + PATIENCE
            while acknowledged(writers) == before:  # it is killed while answers come in
                assert time.monotonic() < patience
                time.sleep(0.01)
            time.sleep(moments.random())
            service.kill()
            service.start()
            known = [writer.acknowledged["s0"][:] for writer in writers]
            stored = {event for event, _ in events_of(store_url, "s0")}
            assert all(set(events) <= stored for events in known)
        ended.set()
        for writer in writers:
            writer.join()
        check_all(store_url, writers, service.url)
    finally:
        ended.set()
        service.kill()


def acknowledged(writers: list[Writer]) -> int:
    return sum(len(events) for writer in writers for events in writer.acknowledged.values())


def events_of(store_url: str, student: str) -> list[tuple[str, int | None]]:
    store = Store(store_url)
    known = store.find(student)
    found = [] if known is None else store.latest(known, 100_000)
    store.close()
    return [(answer.event, answer.correct) for answer in found]


def check_all(store_url: str, writers: list[Writer], url: str) -> None:
    assert not any(writer.refused for writer in writers)
    for student in writers[0].acknowledged:
        stored = [event for event, _ in events_of(store_url, student)]
        assert len(set(stored)) == len(stored)
        for writer in writers:
            own = [event for event in stored if event.startswith(f"{writer.number}-")]
            sent = writer.acknowledged[student]
            assert own[: len(sent)] == sent  # every acknowledged one, in order
            assert len(own) <= len(sent) + 1  # and at most the one that was under way
        assert httpx.get(f"{url}/students/{student}/mastery").json()["answers"] == len(stored)


def test_processes_end_with_the_one_that_started_them(tmp_path: Path) -> None:
    """If only the parent is killed, its processes let go of the port, and state is rebuilt by those that follow."""
    random_bundle("akt").write(tmp_path / "model")
    service = Service(tmp_path / "model", f"sqlite:///{tmp_path / 'students.db'}", workers=2)
    service.start()
    try:
        model = Model(random_bundle("akt"))
        session = model.session()
        for i in range(12):
            sent = {"event": str(i), "question": "q01", "concept": f"c{i % 11:02}", "correct": i % 2}
            assert httpx.post(f"{service.url}/students/ada/answers", json=sent).status_code == 200
            session.observe("q01", f"c{i % 11:02}", i % 2)
        counted = httpx.get(f"{service.url}/metrics").text
        assert "tsdr_answers_stored_total 12.0" in counted  # by both processes together
        service.kill_parent()
        service.start()
        found = httpx.get(f"{service.url}/students/ada/mastery").json()
        assert found["mastery"] == pytest.approx(session.mastery(), abs=1e-5)
    finally:
        service.kill()


def test_a_bundle_is_replaced_under_load_and_no_request_is_lost(tmp_path: Path) -> None:
    """By SIGHUP and by a request, in both of its processes; one that is damaged changes nothing."""
    folder = tmp_path / "model"
    random_bundle("dkt").write(folder)
    service = Service(folder, f"sqlite:///{tmp_path / 'students.db'}", workers=2)
    service.start()
    ended, failures, sent = threading.Event(), list[object](), list[int]()

    def send(student: str) -> None:
        client, count = httpx.Client(base_url=service.url, timeout=20), 0
        while not ended.is_set():
            try:
                answer = {"event": str(count), "concept": "c01", "correct": count % 2}
                stored = client.post(f"/students/{student}/answers", json=answer)
                found = client.get(f"/students/{student}/mastery")
            except httpx.HTTPError as error:
                failures.append(error)
                return
            count += 1
            if stored.status_code != 200 or found.status_code != 200 or found.json()["answers"] != count:
                failures.append((stored.text, found.text))
        sent.append(count)

    threads = [threading.Thread(target=send, args=(f"s{i}",)) for i in range(2)]
    try:
        for thread in threads:
            thread.start()
        random_bundle("counts").write(folder)
        os.kill(service.pid, signal.SIGHUP)
        wait_for(service, "counts")
        whole = {path: path.read_bytes() for path in folder.glob("weights*")}
        for path, content in whole.items():
            path.write_bytes(content[:-1])
        refused = httpx.post(f"{service.url}/model", timeout=20)
        assert refused.status_code == 422
        assert "damaged" in refused.json()["detail"]
        wait_for(service, "counts")
        random_bundle("dkt").write(folder)
        assert httpx.post(f"{service.url}/model", timeout=20).json()["changed"]
        wait_for(service, "dkt")
        ended.set()
        for thread in threads:
            thread.join()
        assert not failures
        assert min(sent) > 5
    finally:
        ended.set()
        service.kill()


def wait_for(service: Service, backbone: str) -> None:
    """Until ten connections, one after the other, all come to a process that serves this model."""
    end, seen = time.monotonic() + PATIENCE, 0
    while seen < 10:
        assert time.monotonic() < end, f"{backbone} is not served"
        with urllib.request.urlopen(f"{service.url}/health", timeout=20) as health:
            seen = seen + 1 if json.load(health)["backbone"] == backbone else 0
