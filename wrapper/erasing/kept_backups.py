"""Backups and an erasure: none is made meanwhile, and the receipt says how many hold what was there before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from schemas.storage.erasure import Cleaned
from wrapper.backups.making import BackupUnderWayError
from wrapper.backups.service_backups import Backups

PLACE = "backups"
WAIT_SECONDS = 120.0
"""The longest that an erasure waits for the end of a backup."""
POLL_SECONDS = 0.05


class KeptBackups:
    """The backups of a service, as an erasure sees them."""

    def __init__(self, backups: Backups, clock: Callable[[], float], pause: Callable[[float], None]) -> None:
        self._backups = backups
        self._clock = clock
        self._pause = pause

    @contextmanager
    def away(self) -> Iterator[None]:
        """Wait for the end of a backup that is being made, and let none begin during the block: it would hold what is
        being erased. What a killed one left goes. Raises BackupUnderWayError when it does not end in time."""
        until = self._clock() + WAIT_SECONDS
        with ExitStack() as held:
            while True:
                try:
                    held.enter_context(self._backups.none_is_made())
                    break
                except BackupUnderWayError:
                    if self._clock() > until:
                        sentence = "A backup is being made that would hold what is to be erased: nothing was erased"
                        raise BackupUnderWayError(sentence) from None
                self._pause(POLL_SECONDS)
            yield

    def told(self) -> Cleaned:
        """Return the line of the receipt: all that there are by now are from before."""
        number = self._backups.number()
        if not number:
            return Cleaned(PLACE, "the service keeps none from before; others are not known here")
        return Cleaned(PLACE, f"not erased: {number} from before are kept, and a restore brings it back. Delete them")
