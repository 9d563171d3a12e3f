"""Lanes: requests that wait for the same thing wait for each other, and for nobody else.

gunicorn has a thread for every request that a lane may hold, so there is always one to answer what tells how the
service is, and to tell the others that their lane is full.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from enum import Enum
from typing import Any

from schemas.errors import BusyError
from schemas.settings import WrapperSettings

WAIT_SECONDS = 60.0
"""How long a request may wait for its turn."""
LOOK_SECONDS = 0.5
"""How often one that waits sees whether its client is still there."""
STATE_REQUESTS = 2
SPARE_THREADS = 8
"""For requests without a lane, and for refusing."""


class Lane(Enum):
    """What a request waits for."""

    LIFE = "nothing"
    STATE = "state of the service"
    READ = "storage read"
    WRITE = "storage write"
    COMPUTING = "computing"
    SERVICE = "another service"
    EMBEDDING = "embedding"
    """Computing, or another service where that is what embeds."""


@dataclass(frozen=True, slots=True)
class Width:
    """So many requests of a lane are worked on `at_once`, and so many more may be `waiting`."""

    at_once: int
    waiting: int


def widths(settings: WrapperSettings) -> dict[Lane, Width]:
    """Of the lanes that have an end, in each process."""
    at_once = {
        Lane.STATE: STATE_REQUESTS,
        Lane.READ: settings.threads,
        Lane.WRITE: settings.writing_threads,
        Lane.COMPUTING: settings.threads,
        Lane.SERVICE: settings.service_threads,
    }
    return {lane: Width(count, settings.max_queue) for lane, count in at_once.items()}


def threads(settings: WrapperSettings) -> int:
    """How many a process needs so that none of its lanes is ever without one. They are made when they are needed."""
    held = sum(width.at_once + width.waiting for width in widths(settings).values())
    return held + settings.waiting_threads + SPARE_THREADS


class Places:
    """The places of one lane, given in the order in which they were asked for."""

    def __init__(self, width: Width, clock: Callable[[], float] = time.monotonic) -> None:
        self._width = width
        self._clock = clock
        self._lock = threading.Lock()
        self._taken = 0
        self._waiting: deque[threading.Event] = deque()

    def take(self, is_gone: Callable[[], bool], *, wait_seconds: float = WAIT_SECONDS) -> None:
        """Return when the caller has a place, which it gives back with `leave`. Raises BusyError when too many wait
        already, when its turn does not come in time, or when the client `is_gone` meanwhile."""
        with self._lock:
            if self._taken < self._width.at_once:
                self._taken += 1
                return
            if len(self._waiting) >= self._width.waiting:
                raise BusyError("Too many requests are waiting")
            turn = threading.Event()
            self._waiting.append(turn)
        ends_at = self._clock() + wait_seconds
        while not turn.wait(LOOK_SECONDS):
            if (self._clock() >= ends_at or is_gone()) and self._gives_up(turn):
                raise BusyError("Too many requests are waiting")

    def leave(self) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._taken -= 1

    def _gives_up(self, turn: threading.Event) -> bool:
        """False when its turn has come in this very moment."""
        with self._lock:
            if turn.is_set():
                return False
            self._waiting.remove(turn)
            return True


class Lanes:
    """The lanes of one process."""

    def __init__(self, settings: WrapperSettings) -> None:
        self._places = {lane: Places(width) for lane, width in widths(settings).items()}
        self._service_seconds = settings.service_seconds
        self._deadline: Callable[[float], Any] | None = None
        self._embedding = Lane.COMPUTING

    def embed_elsewhere(self) -> None:
        """From now on who embeds waits for another service."""
        self._embedding = Lane.SERVICE

    def limit_services(self, deadline: Callable[[float], Any]) -> None:
        """Have `deadline(seconds)` be the context in which other services are asked."""
        self._deadline = deadline

    def enter(self, lane: Lane, is_gone: Callable[[], bool]) -> Callable[[], None]:
        """Wait for a place; what is returned gives it back, however often it is called. Raises BusyError."""
        if lane is Lane.EMBEDDING:
            lane = self._embedding
        places = self._places.get(lane)
        if places is None:
            return _nothing
        with ExitStack() as stack:
            places.take(is_gone)
            stack.callback(places.leave)
            if lane is Lane.SERVICE and self._deadline is not None:
                stack.enter_context(self._deadline(self._service_seconds))
            return stack.pop_all().close


def _nothing() -> None:
    pass
