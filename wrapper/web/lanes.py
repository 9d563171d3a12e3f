"""Lanes: requests that need the same thing wait for each other, and for no other request.

gunicorn has a thread for every request that a lane may hold. So there is always one for the routes that tell how the
service is, and one to refuse a request whose lane is full. Within a lane, those who wait for the same connections to
other services have at most as many places as they leave free, so a service that hangs leaves room for the others. Who
waits for more connections waits for all that these wait for, and counts with them; not the other way round.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from schemas.access.turns import turns_by
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


ASKING = (Lane.SERVICE, Lane.COMPUTING)
"""The lanes whose requests may ask other services."""


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


NOBODY: frozenset[str] = frozenset()
"""The connections of a request that waits for none."""
NAMED = 3
"""The most connections that a refusal names."""

Wait = Callable[[Callable[[], object]], None]
"""Waits for a turn, and calls the function it is given before, if there is a wait at all."""


@dataclass(eq=False, slots=True)
class _Turn:
    """What waits for a place, and for which connections."""

    connections: frozenset[str]
    event: threading.Event = field(default_factory=threading.Event)


class Places:
    """The places of one lane, given in the order of asking. Those who ask the same connections, or some of them, have
    no more places than they leave free, and as much of the queue."""

    def __init__(self, width: Width, clock: Callable[[], float] = time.monotonic) -> None:
        self._width = width
        self._clock = clock
        self._lock = threading.Lock()
        self._taken = 0
        self._taken_for: Counter[frozenset[str]] = Counter()
        self._waiting: deque[_Turn] = deque()

    def take(
        self,
        is_gone: Callable[[], bool],
        connections: frozenset[str] = NOBODY,
        *,
        before_waiting: Callable[[], object] = lambda: None,
        wait_seconds: float = WAIT_SECONDS,
    ) -> None:
        """Wait for a place to ask these connections, which the caller gives back with `leave`. `before_waiting` is
        called only if none is free.

        Raises BusyError when too many wait already or the turn does not come in time, and ClientGoneError when the
        client `is_gone` meanwhile.
        """
        with self._lock:
            if self._takes_free_place(connections):
                return
        before_waiting()
        with self._lock:
            if self._takes_free_place(connections):
                return
            alike = sum(each.connections <= connections for each in self._waiting if each.connections)
            if len(self._waiting) + alike >= self._width.waiting:
                raise _too_many(connections)
            turn = _Turn(connections)
            self._waiting.append(turn)
        ends_at = self._clock() + wait_seconds
        while not turn.event.wait(LOOK_SECONDS):
            has_left = is_gone()
            if (has_left or self._clock() >= ends_at) and self._gives_up(turn):
                raise ClientGoneError if has_left else _too_many(connections)

    def leave(self, connections: frozenset[str] = NOBODY) -> None:
        with self._lock:
            self._give_back(connections)
            self._give_turns()

    def move(self, before: frozenset[str], connections: frozenset[str]) -> bool:
        """Use a place for other connections than before. Return whether there was room for that; else it is given
        back."""
        with self._lock:
            self._give_back(before)
            has_room = self._takes_free_place(connections)
            self._give_turns()
        return has_room

    def held(self) -> tuple[int, int]:
        """Return how many requests have a place, and how many wait for one."""
        with self._lock:
            return self._taken, len(self._waiting)

    def _takes_free_place(self, connections: frozenset[str]) -> bool:
        alike = sum(number for each, number in self._taken_for.items() if each and each <= connections)
        if alike >= self._width.at_once - self._taken:
            return False
        self._taken += 1
        self._taken_for[connections] += 1
        return True

    def _give_back(self, connections: frozenset[str]) -> None:
        self._taken -= 1
        self._taken_for[connections] -= 1
        if not self._taken_for[connections]:
            del self._taken_for[connections]

    def _give_turns(self) -> None:
        for turn in [*self._waiting]:
            if self._takes_free_place(turn.connections):
                self._waiting.remove(turn)
                turn.event.set()

    def _gives_up(self, turn: _Turn) -> bool:
        """Return False when the turn has come in this very moment."""
        with self._lock:
            if turn.event.is_set():
                return False
            self._waiting.remove(turn)
            return True


def _too_many(connections: frozenset[str]) -> BusyError:
    if not connections:
        return BusyError("Too many requests are waiting")
    names = sorted(connections)[:NAMED]
    return BusyError(f"Too many requests wait for connection {', '.join(map(repr, names))}", connections=names)


class _Place:
    """A request's place. It belongs to one thread at a time."""

    def __init__(self, places: Places, is_gone: Callable[[], bool], around: Callable[[Wait], object]) -> None:
        self._places = places
        self._is_gone = is_gone
        self._around = around
        self._connections: frozenset[str] | None = None  # None: it is not held

    def take(self, connections: frozenset[str] = NOBODY) -> None:
        def wait(before_waiting: Callable[[], object]) -> None:
            self._places.take(self._is_gone, connections, before_waiting=before_waiting)
            self._connections = connections

        self._around(wait)

    def turn(self, connections: frozenset[str]) -> Callable[[], None]:
        """Use the place for these connections, and wait without it while they have no room; one that is used for some
        already stays so. Return the function that ends that. Raises BusyError as `Places.take` does."""
        if self._connections != NOBODY:
            return _nothing
        if self._places.move(NOBODY, connections):
            self._connections = connections
        else:
            self._connections = None
            self.take(connections)
        return self._end_turn

    def leave(self) -> None:
        if self._connections is not None:
            self._places.leave(self._connections)
        self._connections = None

    def _end_turn(self) -> None:
        if self._connections is not None:
            self._places.move(self._connections, NOBODY)
            self._connections = NOBODY


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
        self, lane: Lane, is_gone: Callable[[], bool], around: Callable[[Wait], object] = lambda wait: wait(_nothing)
    ) -> Callable[[], None]:
        """Wait for a place as `Places.take` does, and return the function that gives it back, which may be called
        twice. `around` is called with each wait, also one for a turn with connections. Raises what `Places.take`
        does."""
        if lane is Lane.EMBEDDING:
            lane = self._embedding
        places = self._places.get(lane)
        if places is None:
            return _nothing
        with ExitStack() as stack:
            place = _Place(places, is_gone, around)
            stack.callback(place.leave)
            place.take()
            if lane in ASKING:
                stack.enter_context(turns_by(place.turn))
            if lane is Lane.SERVICE and self._deadline is not None:
                stack.enter_context(self._deadline(self._service_seconds))
            return stack.pop_all().close


def _nothing() -> None:
    pass
