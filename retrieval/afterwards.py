"""What is written after an answer went out: in batches, by a thread of its own, with an end to what may wait."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

import structlog

log = structlog.get_logger(__name__)

T = TypeVar("T")
MOST_AT_ONCE = 500


class Afterwards(Generic[T]):
    """`write` gets what was put since its last call, in order, and raises nothing that matters to those who put it:
    what it could not write is lost. When `most_waiting` wait, others are refused. `busy` is called, in turns, with True
    before the first of a row of items waits and with False when none is left."""

    def __init__(
        self,
        name: str,
        write: Callable[[list[T]], None],
        *,
        most_waiting: int,
        busy: Callable[[bool], None] = lambda is_busy: None,
    ) -> None:
        self._write = write
        self._most_waiting = most_waiting
        self._busy = busy
        self._changed = threading.Condition()
        self._waiting: list[T] = []
        self._is_writing = False
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, item: T) -> bool:
        """False when too many wait already, or nothing is written any more."""
        with self._changed:
            if self._is_closed or len(self._waiting) >= self._most_waiting:
                return False
            if not self._waiting and not self._is_writing:
                self._busy(True)
            self._waiting.append(item)
            self._changed.notify_all()
            return True

    def flush(self, within_seconds: float) -> bool:
        """Return when all that was put is written; False when that took longer."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting and not self._is_writing, within_seconds)

    def close(self) -> None:
        """Write what waits, and no more after it."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._waiting) or self._is_closed)
                if not self._waiting:
                    return
                batch, self._waiting = self._waiting[:MOST_AT_ONCE], self._waiting[MOST_AT_ONCE:]
                self._is_writing = True
            try:
                self._write(batch)
            except Exception:
                log.exception("what was to be written afterwards is lost", writer=self._thread.name, items=len(batch))
            with self._changed:
                self._is_writing = False
                if not self._waiting:
                    self._busy(False)
                self._changed.notify_all()
