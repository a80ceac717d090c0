"""What stands between the network and the application: sizes, origins, hosts, headers, turns, and a count of all."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any
from weakref import WeakValueDictionary

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tsdr.serving.databases import HeldError
from tsdr.serving.measures import Measures

LARGEST_BODY = 1 << 20
TURN_SECONDS = 1.0
LEFT = 499  # a client that left before its request was read
PROBLEM = "application/problem+json"
ACCESS = logging.getLogger("tsdr.access")  # by routes, for paths name students
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def problem(status: int, detail: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """An error as problem+json."""
    content = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    return JSONResponse(content, status, headers, PROBLEM)


class Guard:
    """Refuses what is too large, comes from another site, or asks for another host, before anything is read of it."""

    def __init__(self, app: ASGIApp, measures: Measures, hosts: Iterable[str] | None = None) -> None:
        self.app, self.measures = app, measures
        self.hosts = None if hosts is None else frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begin = time.perf_counter()
        status = 500

        async def told(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        refusal = self._refusal(scope)
        try:
            if refusal is not None:
                await refusal(scope, receive, told)
            else:
                await self._bounded(scope, receive, told)
        finally:
            status = LEFT if scope.get("left") else status
            route, method, seconds = _route(scope), scope["method"], time.perf_counter() - begin
            self.measures.request(route, method, status, seconds)
            ACCESS.info("%s %s %d %.0f ms", method if method.isalpha() else "other", route, status, 1000 * seconds)

    async def _bounded(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body, up to the limit, before the application sees the request."""
        body, more = bytearray(), True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                scope["left"] = True
                return
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > LARGEST_BODY:
                await self._too_large()(scope, receive, send)
                return
        given = False

        async def once() -> Message:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": bytes(body), "more_body": False}

        await self.app(scope, once, send)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        headers = Headers(scope=scope)
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > LARGEST_BODY:
            return self._too_large()
        if self.hosts is not None and _host_name(headers.get("host", "")) not in self.hosts:
            return problem(421, "this service answers on the loopback address only, under its own name")
        if self._foreign(headers, scope):
            return problem(403, "a page of another site may not ask for this")
        return None

    def _foreign(self, headers: Headers, scope: Scope) -> bool:
        """Whether a page of another site asks for more than to be left for this one; to ask what is next writes."""
        reads = scope["method"] in ("GET", "HEAD", "OPTIONS") and not scope["path"].endswith("/next")
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        if site is not None:
            return site in ("cross-site", "same-site") and not (reads and headers.get("sec-fetch-mode") == "navigate")
        return not reads and origin is not None and origin.partition("://")[2] != headers.get("host")

    def _too_large(self) -> JSONResponse:
        return problem(413, f"a request has at most {LARGEST_BODY:,} bytes", {"Connection": "close"})


class Turns:
    """Who may write: one request a student, and fewer requests than there are threads.

    So what another process holds, a student's row or all of a file, stops neither those who read nor other students.
    """

    def __init__(self, writers: int) -> None:
        self._writers = asyncio.Semaphore(writers)
        self._students: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def of(self, student: str) -> AsyncIterator[None]:
        """Wait for the turn of a student and have it until the block ends; `HeldError` if that takes too long."""
        own = self._students.setdefault(student, asyncio.Lock())
        end = asyncio.get_running_loop().time() + TURN_SECONDS
        async with _in_time(own, end), _in_time(self._writers, end):
            yield


@asynccontextmanager
async def _in_time(turn: asyncio.Lock | asyncio.Semaphore, end: float) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout_at(end):
            await turn.acquire()
    except TimeoutError as error:
        raise HeldError("others are writing: send it again") from error
    try:
        yield
    finally:
        turn.release()


def _host_name(host: str) -> str:
    """A Host header without its port."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).lower()


def _route(scope: Scope) -> str:
    """The pattern that a path was matched by; paths themselves name students."""
    route: Any = scope.get("route")
    return getattr(route, "path", "none")
