"""Connections with limits: of what comes before a body, of the time that a request may take, of their number."""

import asyncio
import resource
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from tsdr.serving.guard import problem

LARGEST_HEAD, MOST_FIELDS = 32 << 10, 100
REQUEST_SECONDS = 20.0  # within which a request has come whole
LINGER_SECONDS = 1.0  # for which what a refused client still sends is dropped, so that it can read why
MOST_CONNECTIONS, FILES_KEPT = 4000, 200  # files that a process needs for other things


class Connection(HttpToolsProtocol):
    """A client's connection."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._unread = 0  # bytes since there was a body to read, or a whole request
        self._head, self._fields = 0, 0
        self._refusal = 400, "the request cannot be read"
        self._refused = False
        self._deadline: asyncio.TimerHandle | None = None
        self._waits_since: float | None = None  # for the client: while a request is worked on, for nothing

    def connection_made(self, transport: Any) -> None:
        """A client is there, and has so long to send a request; where there are too many, another one goes."""
        super().connection_made(transport)
        if len(self.connections) > most_connections() and not self._make_room():
            self._refuse(503, "there are too many connections")
            return
        self._wait_for_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """A client has left."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, up to the limits."""
        if self._refused:
            return
        if self._deadline is None:
            self._wait_for_request()
        self._unread += len(data)
        super().data_received(data)
        if self._unread > LARGEST_HEAD and not self._refused:
            self._refuse(431, _TOO_LARGE)

    def on_message_begin(self) -> None:
        """A request begins."""
        self._head, self._fields = 0, 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Part of what is asked for."""
        self._count(len(url), 0)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A field of the head, or of what comes after a body."""
        self._count(len(name) + len(value), 1)
        super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        """Part of a body, which the application bounds."""
        self._unread = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """A request has come whole."""
        self._unread = 0
        self._stop_waiting()
        self._waits_since = None
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """It has been answered."""
        super().on_response_complete()
        if self.cycle.response_complete:  # and no other is to be worked on
            self._waits_since = self.loop.time()

    def send_400_response(self, msg: str) -> None:
        """Say why a request was not read to its end."""
        self._refuse(*self._refusal)

    def _count(self, size: int, fields: int) -> None:
        self._head, self._fields = self._head + size, self._fields + fields
        if self._head > LARGEST_HEAD or self._fields > MOST_FIELDS:
            self._refusal = 431, _TOO_LARGE
            raise ValueError(_TOO_LARGE)  # to the parser, which stops and asks for the answer above

    def _wait_for_request(self) -> None:
        self._waits_since = self.loop.time()
        self._deadline = self.loop.call_later(REQUEST_SECONDS, self._too_slow)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_slow(self) -> None:
        self._refuse(408, f"a request has to come within {REQUEST_SECONDS:.0f} seconds")

    def _refuse(self, status: int, detail: str) -> None:
        """Answer without the application, and read no more; what comes meanwhile is dropped."""
        self._refused = True
        self._stop_waiting()
        if self.transport.is_closing():
            return
        if self.cycle is not None:  # what the application might still say comes too late
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        response = problem(status, detail, {"Connection": "close"})
        head = b"".join(b"%s: %s\r\n" % field for field in response.raw_headers)
        self.transport.write(b"%s%s\r\n%s" % (STATUS_LINE[status], head, bytes(response.body)))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.flow.resume_reading()
        self.loop.call_later(LINGER_SECONDS, self.transport.abort)

    def _make_room(self) -> bool:
        """Let the connection go whose client has been waited for longest; whether there was one."""
        others: list[Any] = [other for other in self.connections if other is not self]
        waits = [(other._waits_since, i) for i, other in enumerate(others) if other._waits_since is not None]
        if not waits:
            return False
        gone = others[min(waits)[1]]
        gone._waits_since = None
        gone.transport.abort()
        return True


_TOO_LARGE = f"what comes before the body has at most {LARGEST_HEAD:,} bytes and {MOST_FIELDS} fields"


def most_connections() -> int:
    """How many a process may have, so that files can still be opened.

    >>> 0 < most_connections() <= MOST_CONNECTIONS
    True
    """
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return min(MOST_CONNECTIONS, max(files - FILES_KEPT, files // 2))
