"""Work in the background gives way to questions: somebody waits for their answers.

A low priority is not enough for that. Cores share caches and memory, and threads of one process its interpreter lock.
Who gives way waits until no question is under way, at most as long as it has worked since it waited last: where one
question follows the other, it still has half of the time.
"""

from __future__ import annotations

import mmap
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LOOK_SECONDS = 0.002
"""How often those who wait look whether a question is still under way."""
MOST_SECONDS = 0.1
"""The longest that anybody waits at a time. A question that takes longer mostly waits itself, for another service."""
PLACES = 64


class Turn:
    """For how long somebody may be made to wait: as long as they have worked since, and `MOST_SECONDS` at most."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left_seconds, self._at = 0.0, clock()

    def may_wait(self, *, has_waited: bool) -> bool:
        """Return whether they may wait now, having waited or worked since the last call."""
        before, self._at = self._at, self._clock()
        passed = self._at - before
        self._left_seconds = min(MOST_SECONDS, self._left_seconds + (-passed if has_waited else passed))
        return self._left_seconds > 0


class Questions:
    """The questions that this process, and those forked from the same one, are answering.

    `clock` is one that all processes of a machine share. `sleep` waits for some seconds.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        # When the last question of each process began, 0 where none is under way: in memory that is inherited, at a
        # place for each process. Two that share one count as one of them.
        self._began = memoryview(mmap.mmap(-1, 8 * PLACES)).cast("d")
        self._lock = threading.Lock()
        self._of_process = (0, 0)
        self._own = threading.local()

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Have a question count as under way until the block ends."""
        self._count(1)
        try:
            yield
        finally:
            self._count(-1)

    def are_under_way(self) -> bool:
        """Return whether a process answers a question that began at most `MOST_SECONDS` ago."""
        since = self._clock() - MOST_SECONDS
        return any(began > since for began in self._began)

    @property
    def are_given_way(self) -> bool:
        """Whether this thread gives way to them."""
        return hasattr(self._own, "turn")

    @contextmanager
    def given_way(self) -> Iterator[None]:
        """Have this thread work in the background until the block ends: `let_pass` makes it wait."""
        self._own.turn = Turn(self._clock)
        try:
            yield
        finally:
            del self._own.turn

    def let_pass(self) -> None:
        """Wait for the questions under way, in a thread that gives way to them."""
        turn: Turn | None = getattr(self._own, "turn", None)
        has_waited = False
        while turn is not None and turn.may_wait(has_waited=has_waited) and self.are_under_way():
            self._sleep(LOOK_SECONDS)
            has_waited = True

    def _count(self, more: int) -> None:
        with self._lock:
            process, count = self._of_process
            if process != os.getpid():  # a fork's, which has threads of its own
                process, count = os.getpid(), 0
            self._of_process = process, count + more
            if more > 0:
                self._began[process % PLACES] = self._clock()
            elif count + more == 0:
                self._began[process % PLACES] = 0.0


QUESTIONS = Questions()
"""Those of this service."""
