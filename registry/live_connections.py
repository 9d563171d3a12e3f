"""The connections that are open in this process: as many as a service needs, and none that nobody can ask any more."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass

from providers.base import Provider
from schemas.connections import Connection

MAX_LIVE = 64
"""Of stored connections; those of the operator stay open."""


@dataclass(frozen=True, eq=False)
class LiveConnection:
    """`identity` tells apart what was opened of the same name at different times: it changes with all that a connection
    is made from, and never comes again for another one."""

    connection: Connection
    provider: Provider
    identity: str


class LiveConnections:
    """At most one of each name. Beyond `most` stored ones the one that was asked for longest ago is closed."""

    def __init__(self, most: int = MAX_LIVE) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._live: OrderedDict[str, LiveConnection] = OrderedDict()

    def get(self, connection: Connection, identity: str, connect: Callable[[], Provider]) -> LiveConnection:
        """The open one of that identity, opened by `connect` when there is none."""
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
        """Close those whose (id, generation) is none of the known: another worker has changed or deleted them."""
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
