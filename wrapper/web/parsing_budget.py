"""Bounds the memory that bodies take: while they arrive, all of a process together, and while their JSON is parsed.

Three bytes, `{},`, become ninety of an empty object. So a text is measured before it is parsed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from schemas.errors import BusyError, PayloadTooLargeError

MAX_VALUES = 2_000_000
"""The most objects, lists and strings, field names included, of one JSON text. Numbers are free: embeddings consist of
them."""
BYTES_OF_VALUE, BYTES_OF_NUMBER = 90, 40
"""The most bytes that Python allocates for each value and each number, beside the characters of strings."""
SMALL_BYTES = 64 * 1024
"""The size up to which a text is not worth measuring."""
WAIT_SECONDS = 30.0
SCANNED_BYTES = 1 << 20
BUDGET_OF_BODIES = 5
"""The budget as a multiple of the largest body: enough for one such body of embeddings."""
LEAST_BUDGET_BYTES = 64 << 20
BUDGET_OF_ARRIVING = 2
"""The budget of bodies that arrive, as a multiple of the largest body."""
BLOCK_BYTES = 1 << 20
"""The memory that is taken at a time for a body that is larger. Smaller ones, which most requests have, never wait for
large ones that come slowly."""
TOO_MANY = "Too many large bodies are being read"


class ParsingBudget:
    """Memory for parsing. A text that does not fit waits; one that is larger than all of the budget has it alone."""

    def __init__(self, budget_bytes: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._budget_bytes = budget_bytes
        self._clock = clock
        self._turn = threading.Lock()
        self._changed = threading.Condition()
        self._taken_bytes = 0

    @contextmanager
    def room_for(self, content: bytes, *, wait_seconds: float = WAIT_SECONDS) -> Iterator[None]:
        """Hold the room for a JSON text that is parsed and kept within the context.

        Raises PayloadTooLargeError when it has too many values, BusyError when there is no room in time.
        """
        if len(content) <= SMALL_BYTES:
            yield
            return
        needed_bytes = min(self._budget_bytes, parsed_bytes(content))
        self._take(needed_bytes, self._clock() + wait_seconds)
        try:
            yield
        finally:
            with self._changed:
                self._taken_bytes -= needed_bytes
                self._changed.notify_all()

    def _take(self, needed_bytes: int, until: float) -> None:
        # One waits for room and the others for their turn, or small ones would keep a large one out for ever.
        if not self._turn.acquire(timeout=max(0.0, until - self._clock())):
            raise BusyError(TOO_MANY)
        try:
            with self._changed:
                while self._taken_bytes + needed_bytes > self._budget_bytes:
                    left_seconds = until - self._clock()
                    if left_seconds <= 0:
                        raise BusyError(TOO_MANY)
                    self._changed.wait(left_seconds)
                self._taken_bytes += needed_bytes
        finally:
            self._turn.release()


class ArrivingBudget:
    """Memory for bodies that arrive and are kept, taken in blocks as they grow, since a client may announce what it
    never sends. A body that finds no room waits; only the one that came first need not, or all might wait for ever."""

    def __init__(self, budget_bytes: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._budget_bytes = budget_bytes
        self._clock = clock
        self._changed = threading.Condition()
        self._taken: dict[object, int] = {}
        self._taken_bytes = 0

    @contextmanager
    def body(self, *, wait_seconds: float = WAIT_SECONDS) -> Iterator[Callable[[int], None]]:
        """Give a function that makes room for as many bytes of one body altogether, which the context holds.

        It raises BusyError when there is no room in time.
        """
        key = object()
        room_bytes = BLOCK_BYTES

        def grow_to(size_bytes: int) -> None:
            nonlocal room_bytes
            while size_bytes > room_bytes:
                self._take_block(key, wait_seconds)
                room_bytes += BLOCK_BYTES

        try:
            yield grow_to
        finally:
            with self._changed:
                self._taken_bytes -= self._taken.pop(key, 0)
                self._changed.notify_all()

    def _take_block(self, key: object, wait_seconds: float) -> None:
        until = self._clock() + wait_seconds
        with self._changed:
            while self._taken_bytes + BLOCK_BYTES > self._budget_bytes and next(iter(self._taken), key) is not key:
                left_seconds = until - self._clock()
                if left_seconds <= 0:
                    raise BusyError(TOO_MANY)
                self._changed.wait(left_seconds)
            self._taken[key] = self._taken.get(key, 0) + BLOCK_BYTES
            self._taken_bytes += BLOCK_BYTES


def arriving_budget_of(max_body_bytes: int) -> ArrivingBudget:
    """Return the budget of a process that takes bodies of that size."""
    return ArrivingBudget(max(LEAST_BUDGET_BYTES, BUDGET_OF_ARRIVING * max_body_bytes))


def budget_of(max_body_bytes: int) -> ParsingBudget:
    """Return the budget of a process that takes bodies of that size."""
    return ParsingBudget(max(LEAST_BUDGET_BYTES, BUDGET_OF_BODIES * max_body_bytes))


def parsed_bytes(content: bytes) -> int:
    """Estimate the memory of a JSON text once it is parsed. Raises PayloadTooLargeError for too many values."""
    values = content.count(b"{") + content.count(b"[") + content.count(b'"') // 2
    if values > MAX_VALUES:
        values = count_values(content)
    if values > MAX_VALUES:
        raise PayloadTooLargeError(
            f"The JSON has more than {MAX_VALUES:,} objects, lists and strings: send less at a time, or documents as "
            "lines of NDJSON",
            limit=MAX_VALUES,
        )
    return len(content) + BYTES_OF_VALUE * values + BYTES_OF_NUMBER * content.count(b",")


def count_values(content: bytes) -> int:
    """Return the number of objects, lists and strings of a JSON text; brackets within strings do not count."""
    # From left to right, so that every quote that remains begins or ends a string.
    plain = content.replace(b"\\\\", b"").replace(b'\\"', b"")
    found, inside = 0, False
    for begin in range(0, len(plain), SCANNED_BYTES):
        part = np.frombuffer(plain, np.uint8, min(SCANNED_BYTES, len(plain) - begin), begin)
        quotes = part == ord('"')
        within = np.logical_xor.accumulate(quotes) ^ inside
        opening = (part == ord("{")) | (part == ord("["))
        found += int(np.count_nonzero(opening & ~within)) + int(np.count_nonzero(quotes & within))
        inside = bool(within[-1])
    return found
