"""Threads that call connections: each connection has a few of its own, so one that hangs holds up no other."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any, TypeVar

from schemas.errors import BusyError, NoThreadError
from schemas.storage.read_limits import awaited
from schemas.threads import begin_thread

T = TypeVar("T")

IDLE_SECONDS = 30.0
"""Seconds after which an idle thread ends."""


class ConnectionThreads:
    """Runs at most `each` jobs of one key at a time while `queued` more wait for them.

    All keys together have at most `most` threads, which are started when there is work.
    """

    def __init__(self, name: str, *, each: int = 16, queued: int = 200, most: int = 256) -> None:
        self._name = name
        self._each, self._queued, self._most = each, queued, most
        self._changed = threading.Condition()
        self._ready: deque[_Job] = deque()
        self._waiting: dict[Hashable, deque[_Job]] = {}
        self._begun: defaultdict[Hashable, int] = defaultdict(int)
        self._threads = 0
        self._idle = 0
        self._is_closed = False

    @property
    def threads(self) -> int:
        """The number of threads now."""
        with self._changed:
            return self._threads

    def submit(self, key: Hashable, work: Callable[[], T]) -> Future[T]:
        """Return a future of `work`'s result, which is `awaited`.

        Raises BusyError when too many jobs of this key are waiting already, and NoThreadError.
        """
        job = _Job(key, awaited(work))
        with self._changed:
            if self._is_closed:
                raise BusyError("The service is closing")
            if self._begun[key] < self._each:
                self._make_ready(job)
                self._begun[key] += 1
            elif len(waiting := self._waiting.setdefault(key, deque())) < self._queued:
                waiting.append(job)
            else:
                raise BusyError("Too many requests wait for this connection")
        return job.answer

    def close(self) -> None:
        """Cancel the jobs that have not begun; those that run end by themselves."""
        with self._changed:
            self._is_closed = True
            jobs = [*self._ready, *(each for waiting in self._waiting.values() for each in waiting)]
            self._ready.clear()
            self._waiting.clear()
            self._changed.notify_all()
        for job in jobs:
            job.answer.cancel()

    def _make_ready(self, job: _Job) -> None:
        self._ready.append(job)
        if self._idle >= len(self._ready):
            self._changed.notify()
        elif self._threads < self._most:
            try:
                begin_thread(self._name, self._run)
            except NoThreadError:
                if not self._threads:  # else those that there are take the job
                    self._ready.remove(job)
                    raise
            else:
                self._threads += 1

    def _run(self) -> None:
        while (job := self._next()) is not None:
            job.run()
            with self._changed:
                self._finish(job.key)

    def _next(self) -> _Job | None:
        with self._changed:
            self._idle += 1
            self._changed.wait_for(lambda: self._ready or self._is_closed, IDLE_SECONDS)
            self._idle -= 1
            if self._ready:
                return self._ready.popleft()
            self._threads -= 1
            return None

    def _finish(self, key: Hashable) -> None:
        waiting = self._waiting.get(key)
        if waiting:
            self._ready.append(waiting.popleft())  # taken by this thread, or by one that gets there first
            return
        self._waiting.pop(key, None)
        self._begun[key] -= 1
        if not self._begun[key]:
            del self._begun[key]


class _Job:
    def __init__(self, key: Hashable, work: Callable[[], Any]) -> None:
        self.key = key
        self.answer: Future[Any] = Future()
        self._work = work

    def run(self) -> None:
        if not self.answer.set_running_or_notify_cancel():
            return
        try:
            found = self._work()
        except BaseException as error:
            self.answer.set_exception(error)
        else:
            self.answer.set_result(found)
