"""The vectors of questions that indexes have lately answered, as samples for measuring recall."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque

import numpy as np

from schemas.records import Vector

KEPT = 10
COLLECTIONS = 64
"""Of how many collections vectors are kept: those that were asked last."""


class AskedVectors:
    """The last different questions of each collection, in memory alone; safe for use by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[int, deque[Vector]] = OrderedDict()

    def note(self, collection_key: int, vector: Vector) -> None:
        """Keep the vector of a question, (dimension,), unless it is kept already."""
        with self._lock:
            kept = self._kept.setdefault(collection_key, deque(maxlen=KEPT))
            self._kept.move_to_end(collection_key)
            if len(self._kept) > COLLECTIONS:
                self._kept.popitem(last=False)
            if not any(np.array_equal(vector, each) for each in kept):
                kept.append(vector)

    def of(self, collection_key: int) -> list[Vector]:
        """Return what is kept of a collection, the oldest first. Their dimension may not be the collection's now."""
        with self._lock:
            return list(self._kept.get(collection_key, ()))
