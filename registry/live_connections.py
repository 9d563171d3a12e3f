"""The connections that are open in this process: as many as needed, and none that cannot be asked any more."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass

from providers.base import Provider
from schemas.connections import Connection

MAX_LIVE = 64
"""The number of stored connections that stay open. Those that the operator declared always do."""


@dataclass(frozen=True, eq=False)
class LiveConnection:
    """An open connection.

    `identity` changes with everything that the connection is made from and is never used again, so it tells apart what
    was opened under the same name at different times.
    """

    connection: Connection
    provider: Provider
    identity: str


class LiveConnections:
    """Holds at most one connection per name; beyond `most` stored ones, the least recently used is closed."""

    def __init__(self, most: int = MAX_LIVE) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._live: OrderedDict[str, LiveConnection] = OrderedDict()

    def get(self, connection: Connection, identity: str, connect: Callable[[], Provider]) -> LiveConnection:
        """Return the open connection of that identity, or open it by `connect`."""
        with self._lock:
            found = self._live.get(connection.id)
            if found is not None and found.identity == identity:
                self._live.move_to_end(connection.id)
                return found
            opened = self._live[connection.id] = LiveConnection(connection, connect(), identity)
            self._live.move_to_end(connection.id)
            gone = [] if found is None else [found]
            stored = [name for name, each in self._live.items() if each.connection.origin == "stored"]
            gone += [self._live.pop(name) for name in stored[: max(0, len(stored) - self._most)]]
        _close(gone)
        return opened

    def keep(self, known: Collection[tuple[str, str]]) -> None:
        """Close those whose (id, generation) is not known: another worker has changed or deleted them."""
        with self._lock:
            names = [name for name, each in self._live.items() if each.connection.version not in known]
            gone = [self._live.pop(name) for name in names]
        _close(gone)

    def forget(self, connection_id: str) -> None:
        with self._lock:
            gone = self._live.pop(connection_id, None)
        _close([] if gone is None else [gone])

    def close(self) -> None:
        with self._lock:
            gone = list(self._live.values())
            self._live.clear()
        _close(gone)


def _close(gone: list[LiveConnection]) -> None:
    for each in gone:
        each.provider.close()
