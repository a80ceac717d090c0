"""Limits of connections, over real sockets."""

import socket
import threading
import time
from collections.abc import Iterator

import pytest
import uvicorn
from postgres import free_port
from starlette.types import Receive, Scope, Send

from tsdr.serving import connections
from tsdr.serving.connections import LARGEST_HEAD, Connection
from tsdr.serving.guard import Guard
from tsdr.serving.measures import Measures


async def greet(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"hi"})


@pytest.fixture
def port() -> Iterator[int]:
    found = free_port()
    config = uvicorn.Config(
        Guard(greet, Measures()), port=found, http=Connection, lifespan="off", log_level="critical", access_log=False
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield found
    server.should_exit = True
    thread.join()


def opened(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=20)


def told(connection: socket.socket, *parts: bytes) -> bytes:
    """What comes back until the other side closes."""
    for part in parts:
        connection.sendall(part)
    found = b""
    while part := connection.recv(65536):
        found += part
    return found


HEAD = b"POST / HTTP/1.1\r\nHost: a\r\n"


@pytest.mark.parametrize(
    "parts",
    [
        [HEAD + b"X: ", *[b"x" * 30_000] * 3],
        [HEAD + b"X: " + b"x" * LARGEST_HEAD + b"\r\n\r\n"],
        [HEAD + b"a: b\r\n" * 100 + b"\r\n"],
        [b"GET /", b"x" * LARGEST_HEAD, b" HTTP/1.1\r\n\r\n"],
        [HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX: ", *[b"x" * 30_000] * 20],
    ],
    ids=["unfinished", "in one piece", "fields", "address", "behind a body"],
)
def test_what_is_too_much_before_or_behind_a_body_is_refused(parts: list[bytes], port: int) -> None:
    with opened(port) as connection:
        found = told(connection, *parts)
    assert found.startswith(b"HTTP/1.1 431 ")
    assert b"application/problem+json" in found
    assert found.count(b"HTTP/1.1") == 1


def test_what_is_large_and_allowed_is_answered(port: int) -> None:
    """A body is bounded elsewhere; and a connection may bring one request after the other, in however many pieces."""
    large = HEAD + b"Content-Length: 500000\r\nX: " + b"x" * 30_000 + b"\r\n\r\n" + b"y" * 500_000
    with opened(port) as connection:
        found = told(connection, large, large[:70_000], large[70_000:], b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n")
    assert found.count(b"HTTP/1.1 200 OK") == 3


@pytest.mark.parametrize("half", [b"", b"GET / HTT", HEAD, HEAD + b"Content-Length: 9\r\n\r\nabc"])
def test_half_a_request_is_closed_in_time(half: bytes, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.3)
    with opened(port) as connection:
        assert told(connection, half).startswith(b"HTTP/1.1 408 ")
    with opened(port) as connection:
        assert told(connection, b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n").endswith(b"hi")


def test_those_who_say_nothing_make_room(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "most_connections", lambda: 5)
    silent = [opened(port) for _ in range(12)]
    with opened(port) as connection:
        assert told(connection, b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n").endswith(b"hi")
    gone = 0
    for connection in silent:
        connection.settimeout(0.1)
        try:
            gone += connection.recv(1) == b""
        except ConnectionResetError:
            gone += 1
        except TimeoutError:
            pass
        connection.close()
    assert gone == 8
