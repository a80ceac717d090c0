"""What the service counts of itself, in Prometheus's text format, over all its processes."""

import json
import struct
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SHARED_BYTES = 256 << 10  # a process's counts: some thousand
_BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, float("inf"))
_SIZE, _NUMBER = struct.Struct("=q"), struct.Struct("=d")


class Counts:
    """Numbers by name, in memory that processes may share: one writes, all read, and who replaces it counts on.

    First comes how many bytes are used; then, for each name, its length, itself and its number.
    """

    def __init__(self, memory: Any) -> None:
        self._memory = memoryview(memory).cast("B")
        self._lock = threading.Lock()
        self._places = {name: place for name, place in self._entries()}

    def add(self, amount: float, *name: str) -> None:
        """Count so much more; a name for which there is no room is not counted."""
        with self._lock:
            place = self._places.get(name) or self._new(name)
            if place:
                _NUMBER.pack_into(self._memory, place, _NUMBER.unpack_from(self._memory, place)[0] + amount)

    def found(self) -> dict[tuple[str, ...], float]:
        """All of them, as they are now."""
        return {name: _NUMBER.unpack_from(self._memory, place)[0] for name, place in self._entries()}

    def _entries(self) -> Iterator[tuple[tuple[str, ...], int]]:
        used, at = _SIZE.unpack_from(self._memory, 0)[0], _SIZE.size
        while at < used:
            begin = at + _SIZE.size
            length = _SIZE.unpack_from(self._memory, at)[0]
            at = begin + _padded(length)
            yield tuple(json.loads(bytes(self._memory[begin : begin + length]))), at
            at += _NUMBER.size

    def _new(self, name: tuple[str, ...]) -> int | None:
        text = json.dumps(name).encode()
        at = max(_SIZE.unpack_from(self._memory, 0)[0], _SIZE.size)
        place = at + _SIZE.size + _padded(len(text))
        end = place + _NUMBER.size
        if end > len(self._memory):
            return None
        _SIZE.pack_into(self._memory, at, len(text))
        self._memory[at + _SIZE.size : at + _SIZE.size + len(text)] = text
        _SIZE.pack_into(self._memory, 0, end)  # last: now it can be read
        self._places[name] = place
        return place


def _padded(length: int) -> int:
    """So that every number lies where it is written at once."""
    return -(-length // 8) * 8


class Measures:
    """Requests by route, method and status, how long they took, and answers, skips and offers stored."""

    def __init__(self, memories: Sequence[Any] = (), own: int = 0) -> None:
        """`memories` are those of all processes, of which one is our `own`; without them there is one process."""
        self._all = [Counts(memory) for memory in memories or [bytearray(SHARED_BYTES)]]
        self._own = self._all[own]

    def request(self, route: str, method: str, status: int, seconds: float) -> None:
        """A request was answered."""
        self._own.add(1, "requests", route, method if method.isalpha() else "other", str(status))
        bucket = next(i for i, most in enumerate(_BUCKETS) if seconds <= most)
        self._own.add(1, "bucket", route, str(bucket))
        self._own.add(seconds, "seconds", route)

    def stored(self, answers: int, skips: int) -> None:
        """Answers and skipped offers were stored."""
        self._own.add(answers, "answers")
        self._own.add(skips, "skips")

    def offer(self, explored: bool) -> None:
        """An offer was made."""
        self._own.add(1, "offers", str(explored).lower())

    def text(self) -> bytes:
        """All of it."""
        registry = CollectorRegistry()
        registry.register(self)
        return generate_latest(registry)

    def collect(self) -> Iterator[Metric]:
        """What all processes have counted, together."""
        total: Counter[tuple[str, ...]] = Counter()
        for counts in self._all:
            total.update(counts.found())
        requests = CounterMetricFamily("tsdr_requests", "Requests.", labels=("route", "method", "status"))
        seconds = HistogramMetricFamily("tsdr_request_seconds", "How long requests took.", labels=("route",))
        offers = CounterMetricFamily("tsdr_offers_made", "Offers made.", labels=("explored",))
        for (kind, *labels), value in sorted(total.items()):
            if kind == "requests":
                requests.add_metric(labels, value)
            elif kind == "offers":
                offers.add_metric(labels, value)
            elif kind == "seconds":
                within = accumulate(total["bucket", *labels, str(i)] for i in range(len(_BUCKETS)))
                names = (str(most).replace("inf", "+Inf") for most in _BUCKETS)
                seconds.add_metric(labels, list(zip(names, within, strict=True)), value)
        yield from (requests, seconds, offers)
        yield CounterMetricFamily("tsdr_answers_stored", "Answers stored.", total["answers",])
        yield CounterMetricFamily("tsdr_skips_stored", "Skipped offers stored.", total["skips",])
