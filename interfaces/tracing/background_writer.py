"""Writing after an answer went out: in batches, by a thread of its own, with a bounded queue."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

import structlog

log = structlog.get_logger(__name__)

T = TypeVar("T")
MOST_AT_ONCE = 1_000


class BackgroundWriter(Generic[T]):
    """Passes items to `write` later, in the order in which they were put.

    Items that `write` fails on are lost: nobody who put one waits for it. While `most_waiting` wait, further ones are
    refused.
    """

    def __init__(self, name: str, write: Callable[[list[T]], None], *, most_waiting: int) -> None:
        self._write = write
        self._most_waiting = most_waiting
        self._changed = threading.Condition()
        self._waiting: list[T] = []
        self._is_writing = False
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, item: T) -> bool:
        """Queue an item. Return False when too many wait already or the writer is closed."""
        with self._changed:
            if self._is_closed or len(self._waiting) >= self._most_waiting:
                return False
            self._waiting.append(item)
            self._changed.notify_all()
            return True

    def flush(self, within_seconds: float) -> bool:
        """Wait until all items are written. Return False when that took longer than `within_seconds`."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting and not self._is_writing, within_seconds)

    def close(self) -> None:
        """Write the items that wait, and take no more."""
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
                self._changed.notify_all()
