"""Processes that end are replaced, and what they have counted is kept."""

import os
import time
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from tsdr import InputError
from tsdr.serving.measures import SHARED_BYTES, Measures
from tsdr.serving.workers import Workers


def test_one_that_ends_is_replaced_and_none_that_can_begin_is_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first life is at work and crashes, the second crashes before, the third says what it is waiting for."""
    monkeypatch.setattr("tsdr.serving.workers.GIVE_UP_SECONDS", 3.0)
    lives = tmp_path / "lives"

    def work(place: int, telling: Connection) -> None:
        with lives.open("a") as file:
            file.write("x")
        life = len(lives.read_text())
        if life == 1:
            telling.send(True)
        if life < 3:
            os._exit(1)
        telling.send("the bundle is away")
        time.sleep(60)

    with pytest.raises(InputError, match=r"none of its processes can begin \(the bundle is away\)"):
        Workers(1, work).run()
    assert lives.read_text() == "xxx"


def test_counts_of_all_processes_are_one_and_go_on() -> None:
    memories = [bytearray(SHARED_BYTES) for _ in range(2)]
    one, other = Measures(memories, 0), Measures(memories, 1)
    one.stored(3, 1)
    other.stored(4, 0)
    one.request("/health", "GET", 200, 0.003)
    other.request("/health", "GET", 200, 3.0)
    replaced = Measures(memories, 0)
    replaced.request("/health", "GET", 503, 0.003)
    for found in (one.text().decode(), other.text().decode(), replaced.text().decode()):
        assert "tsdr_answers_stored_total 7.0" in found
        assert 'tsdr_requests_total{method="GET",route="/health",status="200"} 2.0' in found
        assert 'tsdr_requests_total{method="GET",route="/health",status="503"} 1.0' in found
        assert 'tsdr_request_seconds_bucket{le="0.005",route="/health"} 2.0' in found
        assert 'tsdr_request_seconds_count{route="/health"} 3.0' in found
        assert 'tsdr_request_seconds_sum{route="/health"} 3.006' in found


def test_more_names_than_there_is_room_for_do_no_harm() -> None:
    measures = Measures([bytearray(200)])
    for route in ("/a", "/b", "/c"):
        measures.request(route, "GET", 200, 0.1)
    assert b'tsdr_requests_total{method="GET",route="/a",status="200"} 1.0' in measures.text()
