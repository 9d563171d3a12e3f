"""Work that has a time limit, on threads of its own."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotInTimeError
from typing import TypeVar

from schemas.pipeline import RetrievalTimeoutError

PARALLEL = 32
"""Pieces of work that one worker has at a time; more of them wait, and their time runs."""

T = TypeVar("T")


class Deadline:
    """Usable by several threads. What is not done after `seconds` goes on, and nobody waits for it."""

    def __init__(self, seconds: float, name: str) -> None:
        self._seconds = seconds
        self._pool = ThreadPoolExecutor(PARALLEL, thread_name_prefix=name)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def run(self, work: Callable[[], T]) -> T:
        """What `work` returns or raises. Raises RetrievalTimeoutError."""
        done = self._pool.submit(work)
        try:
            return done.result(self._seconds)
        except NotInTimeError:
            if done.done():
                raise
            done.cancel()
            raise RetrievalTimeoutError(f"No answer within {self._seconds:g} s") from None
