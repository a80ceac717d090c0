"""The processes of a service, which share a port: one that ends, or stops doing anything, is replaced."""

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import connection
from multiprocessing.context import ForkContext
from multiprocessing.process import BaseProcess
from typing import Any

from tsdr.errors import InputError
from tsdr.processes import end_with_parent

BEAT_SECONDS = 1  # between two signs of life
STUCK_SECONDS = 30.0  # without one, a process that was at work is replaced
LOOK_SECONDS = 0.5
AGAIN_SECONDS = 1.0  # until one is started again that ended before it was at work
GIVE_UP_SECONDS = 30.0  # for which none could start
ENDING_SECONDS = 10.0


@dataclass
class _Worker:
    """A process: when it was started, when it gave its last sign of life, and what it says of itself."""

    process: BaseProcess
    told: connection.Connection
    started: float
    beat: float | None = None


class Workers:
    """So many processes at `work`, which gets a place from 0 on, and a connection.

    Through it a process says that it lives (`True`, every second once it is at work), or why it cannot begin (a text).
    """

    def __init__(self, number: int, work: Callable[[int, connection.Connection], None]) -> None:
        # Forked from one that has loaded what all of them need, and computes nothing, a new one is there in no time.
        self._context: ForkContext = multiprocessing.get_context("fork")
        self._number, self._work = number, work
        self._ending = False
        self._workers: list[_Worker] = []
        self._failing_since: float | None = None
        self._failure = "they ended before they could begin"

    def run(self) -> None:
        """Keep them at work until a signal says that it is enough; `InputError` if none can begin."""
        handlers = {signal.SIGINT: self._end, signal.SIGTERM: self._end, signal.SIGHUP: self._pass_on}
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        self._workers = [self._start(place) for place in range(self._number)]
        try:
            while not self._ending:
                sentinels = [worker.process.sentinel for worker in self._workers if worker.process.is_alive()]
                connection.wait(sentinels, LOOK_SECONDS)
                self._look()
        finally:
            self._stop()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _look(self) -> None:
        now = time.monotonic()
        for place, worker in enumerate(self._workers):
            self._listen(worker, now)
            if worker.beat is not None and now > worker.beat + STUCK_SECONDS:
                worker.process.kill()
                worker.process.join()
            if worker.process.is_alive():
                continue
            if worker.beat is None:
                self._failed(now)
            if worker.beat is not None or now > worker.started + AGAIN_SECONDS:
                worker.told.close()
                self._workers[place] = self._start(place)
        if self._failing_since is not None and now > self._failing_since + GIVE_UP_SECONDS:
            raise InputError(f"the service ends: none of its processes can begin ({self._failure})")

    def _listen(self, worker: _Worker, now: float) -> None:
        try:
            while worker.told.poll():
                said = worker.told.recv()
                if said is True:
                    worker.beat = now
                    self._failing_since = None
                else:
                    self._failure = said
                    self._failed(now)
        except EOFError:  # it has ended
            pass

    def _failed(self, now: float) -> None:
        """One could not begin; that is an end of it all only where no other is at work."""
        at_work = any(worker.beat is not None and worker.process.is_alive() for worker in self._workers)
        if not at_work and self._failing_since is None:
            self._failing_since = now

    def _start(self, place: int) -> _Worker:
        told, telling = self._context.Pipe(duplex=False)
        process = self._context.Process(target=self._begin, args=(place, telling), daemon=True)
        process.start()
        telling.close()
        return _Worker(process, told, time.monotonic())

    def _begin(self, place: int, telling: connection.Connection) -> None:
        """What a new process does."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        end_with_parent()
        self._work(place, telling)

    def _stop(self) -> None:
        for worker in self._workers:
            worker.process.terminate()
        end = time.monotonic() + ENDING_SECONDS
        for worker in self._workers:
            worker.process.join(max(0.0, end - time.monotonic()))
            worker.process.kill()

    def _end(self, number: int, frame: Any) -> None:
        self._ending = True

    def _pass_on(self, number: int, frame: Any) -> None:
        for worker in self._workers:
            if worker.process.is_alive() and worker.process.pid is not None:
                os.kill(worker.process.pid, number)
