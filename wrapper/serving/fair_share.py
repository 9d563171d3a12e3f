"""An even spread of connections over the workers of one service.

All workers accept from one socket, and the first to wake takes the connection: of a hundred connections one of two
workers may have seventy, and they are answered by one core. A worker that has more than another therefore leaves a new
connection to the others, but only for a moment, because one of them may hang.
"""

from __future__ import annotations

import math
import mmap
import time
from collections.abc import Callable

LEFT_TO_OTHERS_SECONDS = 0.005
PAUSE_SECONDS = 0.0005
FORGOTTEN_SECONDS = 0.05
"""The time after which a connection that was left has gone to another worker: the next one is new."""
NOBODY = -1


class ConnectionCounts:
    """The number of connections of each worker, in memory that forked processes share.

    Slots are taken and freed by the process that forks; only a slot's worker writes its count.
    """

    def __init__(self, slots: int) -> None:
        self._counts = memoryview(mmap.mmap(-1, 4 * slots)).cast("i")
        self._taken = [False] * slots
        for slot in range(slots):
            self._counts[slot] = NOBODY

    def take(self) -> int | None:
        """Return a slot for a worker that is about to start, None when there are more workers than slots."""
        for slot, is_taken in enumerate(self._taken):
            if not is_taken:
                self._taken[slot] = True
                return slot
        return None

    def free(self, slot: int | None) -> None:
        if slot is not None:
            self._taken[slot] = False
            self._counts[slot] = NOBODY

    def write(self, slot: int, count: int) -> None:
        self._counts[slot] = count

    def fewest(self) -> int:
        """Return the lowest count of the workers that have begun to accept, 0 when none has."""
        return min((count for count in self._counts if count != NOBODY), default=0)


class FairShare:
    """One worker's part in the even spread."""

    def __init__(
        self,
        counts: ConnectionCounts,
        slot: int,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._counts = counts
        self._slot = slot
        self._clock = clock
        self._sleep = sleep
        self._left_until = -math.inf

    def tell(self, connections: int) -> None:
        self._counts.write(self._slot, connections)

    def leaves_to_others(self, connections: int) -> bool:
        """Return whether this worker, with this number of connections, should not take a new one yet."""
        if connections <= self._counts.fewest():
            return False
        now = self._clock()
        if now > self._left_until + FORGOTTEN_SECONDS:
            self._left_until = now + LEFT_TO_OTHERS_SECONDS
        if now >= self._left_until:
            self._left_until = -math.inf
            return False
        self._sleep(PAUSE_SECONDS)
        return True
