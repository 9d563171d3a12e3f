"""Lanes: requests that need the same thing wait for each other, and for no other request.

gunicorn has a thread for every request that a lane may hold. So there is always one for the routes that tell how the
service is, and one to refuse a request whose lane is full.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from enum import Enum
from typing import Any

from schemas.errors import BusyError, ClientGoneError
from schemas.settings import WrapperSettings

WAIT_SECONDS = 60.0
"""The seconds that a request may wait for its turn."""
LOOK_SECONDS = 0.5
"""The interval in seconds at which a waiting request checks that its client is still there."""
STATE_REQUESTS = 2
UPLOADS = 4
"""The number of uploads at a time. They mostly wait for their clients and the disk, and must not take the places of
writes."""
FOLLOWERS = 128
"""The number of followers that wait for changes at a time. One thread looks for all of them."""
SPARE_THREADS = 8
"""The number of threads for requests without a lane, and for refusing."""


class Lane(Enum):
    """The resources that requests wait for."""

    LIFE = "nothing"
    STATE = "state of the service"
    READ = "storage read"
    WRITE = "storage write"
    UPLOAD = "upload of files"
    FOLLOWING = "changes of a collection"
    """Waiting for a collection to change, which must not take the places of reads."""
    COMPUTING = "computing"
    SERVICE = "another service"
    EMBEDDING = "embedding"
    """Embedding: computing or, with an embedding service, waiting for that service."""


@dataclass(frozen=True, slots=True)
class Width:
    """The bounds of a lane: the requests that run `at_once`, and those that may be `waiting` besides."""

    at_once: int
    waiting: int


def widths(settings: WrapperSettings) -> dict[Lane, Width]:
    """Return the bounds of the lanes that have bounds, in each process."""
    at_once = {
        Lane.STATE: STATE_REQUESTS,
        Lane.READ: settings.threads,
        Lane.WRITE: settings.writing_threads,
        Lane.UPLOAD: UPLOADS,
        Lane.FOLLOWING: FOLLOWERS,
        Lane.COMPUTING: settings.threads,
        Lane.SERVICE: settings.service_threads,
    }
    return {lane: Width(count, settings.max_queue) for lane, count in at_once.items()}


def threads(settings: WrapperSettings) -> int:
    """Return the number of threads with which no lane of a process is ever without one. They are made on demand."""
    held = sum(width.at_once + width.waiting for width in widths(settings).values())
    return held + settings.waiting_threads + SPARE_THREADS


class Places:
    """The places of one lane, given in the order of asking."""

    def __init__(self, width: Width, clock: Callable[[], float] = time.monotonic) -> None:
        self._width = width
        self._clock = clock
        self._lock = threading.Lock()
        self._taken = 0
        self._waiting: deque[threading.Event] = deque()

    def take(
        self,
        is_gone: Callable[[], bool],
        *,
        before_waiting: Callable[[], object] = lambda: None,
        wait_seconds: float = WAIT_SECONDS,
    ) -> None:
        """Wait for a place, which the caller gives back with `leave`. `before_waiting` is called only if none is free.

        Raises BusyError when too many wait already or the turn does not come in time, and ClientGoneError when the
        client `is_gone` meanwhile.
        """
        with self._lock:
            if self._takes_free_place():
                return
        before_waiting()
        with self._lock:
            if self._takes_free_place():
                return
            if len(self._waiting) >= self._width.waiting:
                raise BusyError("Too many requests are waiting")
            turn = threading.Event()
            self._waiting.append(turn)
        ends_at = self._clock() + wait_seconds
        while not turn.wait(LOOK_SECONDS):
            has_left = is_gone()
            if (has_left or self._clock() >= ends_at) and self._gives_up(turn):
                raise ClientGoneError if has_left else BusyError("Too many requests are waiting")

    def leave(self) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._taken -= 1

    def held(self) -> tuple[int, int]:
        """Return how many requests have a place, and how many wait for one."""
        with self._lock:
            return self._taken, len(self._waiting)

    def _takes_free_place(self) -> bool:
        is_free = self._taken < self._width.at_once
        self._taken += is_free
        return is_free

    def _gives_up(self, turn: threading.Event) -> bool:
        """Return False when the turn has come in this very moment."""
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

    def held(self) -> Iterator[tuple[str, int, int]]:
        """Yield (name of a lane, requests that have a place, requests that wait for one)."""
        for lane, places in self._places.items():
            yield lane.name.lower(), *places.held()

    def name_of(self, lane: Lane) -> str:
        """Return the name of the lane that requests of this lane wait in."""
        return (self._embedding if lane is Lane.EMBEDDING else lane).name.lower()

    def embed_elsewhere(self) -> None:
        """Let requests that embed wait in the lane of other services from now on."""
        self._embedding = Lane.SERVICE

    def limit_services(self, deadline: Callable[[float], Any]) -> None:
        """Ask other services within the context `deadline(seconds)`."""
        self._deadline = deadline

    def enter(
        self, lane: Lane, is_gone: Callable[[], bool], before_waiting: Callable[[], object] = lambda: None
    ) -> Callable[[], None]:
        """Wait for a place as `Places.take` does, and return the function that gives it back, which may be called
        twice. Raises what `Places.take` does."""
        if lane is Lane.EMBEDDING:
            lane = self._embedding
        places = self._places.get(lane)
        if places is None:
            return _nothing
        with ExitStack() as stack:
            places.take(is_gone, before_waiting=before_waiting)
            stack.callback(places.leave)
            if lane is Lane.SERVICE and self._deadline is not None:
                stack.enter_context(self._deadline(self._service_seconds))
            return stack.pop_all().close


def _nothing() -> None:
    pass
