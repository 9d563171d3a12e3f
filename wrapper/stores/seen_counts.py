"""How many documents of collections callers with a filter see, remembered: each list of collections and each search
needs them all."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

from cachetools import LRUCache

from schemas.records import Collection
from schemas.where import Where

MOST_COUNTS = 10_000
"""The number of collections, at one revision and for one filter, whose counts are remembered."""


class SeenCounts:
    """`count` counts the documents of the collection of that full name that match a filter."""

    def __init__(self, count: Callable[[str, Where], tuple[int, Collection]]) -> None:
        self._count = count
        self._counts: LRUCache[tuple[int, int, str], int] = LRUCache(MOST_COUNTS)
        self._guard = threading.Lock()

    def counted(self, collection: Collection, seen: Where) -> Collection:
        """Return a collection as if it had only the documents that match `seen`; where they have to be counted, as it
        is now. Raises CollectionNotFoundError when it was deleted meanwhile."""
        state = collection.key, collection.revision, repr(seen)
        with self._guard:
            known = self._counts.get(state)
        if known is not None:
            count, now = known, collection
        else:
            count, now = self._count(collection.name, seen)
            with self._guard:
                self._counts[now.key, now.revision, repr(seen)] = count
        return replace(now, count=count, dimension=now.dimension if count else None)
