"""What the service counts of itself, in Prometheus's text format, over all its processes."""

import os

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# Where processes leave their counts for each other; to be set before they start.
SHARED = "PROMETHEUS_MULTIPROC_DIR"
_BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Measures:
    """Requests by route, method and status, how long they took, and answers and skips stored."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter("tsdr_requests", "Requests.", ("route", "method", "status"), registry=self._registry)
        self._seconds = Histogram(
            "tsdr_request_seconds", "How long requests took.", ("route",), buckets=_BUCKETS, registry=self._registry
        )
        self._answers = Counter("tsdr_answers_stored", "Answers stored.", registry=self._registry)
        self._skips = Counter("tsdr_skips_stored", "Skipped offers stored.", registry=self._registry)
        self._offers = Counter("tsdr_offers_made", "Offers made.", ("explored",), registry=self._registry)

    def request(self, route: str, method: str, status: int, seconds: float) -> None:
        """A request was answered."""
        self._requests.labels(route, method if method.isalpha() else "other", str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def stored(self, answers: int, skips: int) -> None:
        """Answers and skipped offers were stored."""
        self._answers.inc(answers)
        self._skips.inc(skips)

    def offer(self, explored: bool) -> None:
        """An offer was made."""
        self._offers.labels(str(explored).lower()).inc()

    def text(self) -> bytes:
        """All of it."""
        if SHARED not in os.environ:
            return generate_latest(self._registry)
        together = CollectorRegistry()
        MultiProcessCollector(together)
        return generate_latest(together)
