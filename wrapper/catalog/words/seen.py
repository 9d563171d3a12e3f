"""Which documents a caller with a filter sees, held in memory: every question by words needs them all."""

from __future__ import annotations

import threading

from cachetools import LRUCache

from schemas.records import Collection
from schemas.where import Where
from wrapper.catalog.contract import Transaction
from wrapper.catalog.reads import all_positions
from wrapper.catalog.words.segments import Places

MOST_BYTES = 16 << 20
"""The most memory that the positions may take, at 8 bytes for each document that is seen."""
ENTRY_BYTES = 500


class SeenPositions:
    """The positions of the documents that match filters, in at most `most_bytes`; safe for any number of threads.

    A collection's are held at one revision, and those asked for longest ago make room.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._held: LRUCache[tuple[int, str], tuple[int, Places]] = LRUCache(
            most_bytes, getsizeof=lambda entry: ENTRY_BYTES + int(entry[1].nbytes)
        )
        self._guard = threading.Lock()

    def of(self, transaction: Transaction, collection: Collection, seen: Where) -> Places:
        """Return the positions (n,) of all documents that match `seen`, in no particular order.

        `collection` is that of the transaction's snapshot.
        """
        key = collection.key, repr(seen)  # by its text: in Python, the filters for 1 and for true are equal
        with self._guard:
            revision, found = self._held.get(key, (None, None))
        if found is not None and revision == collection.revision:
            return found
        found = all_positions(transaction, collection, seen)
        with self._guard:
            # An older snapshot does not replace what newer ones ask for.
            newest = self._held.get(key, (-1, None))[0]
            if newest < collection.revision and ENTRY_BYTES + found.nbytes <= self._held.maxsize:
                self._held[key] = collection.revision, found
        return found
