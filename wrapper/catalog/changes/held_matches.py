"""Which documents filters match, held in memory: what is asked again is brought up to date by the feed of changes."""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass

import numpy as np
from cachetools import LRUCache
from numpy.typing import NDArray

from schemas.errors import BusyError
from schemas.records import Collection
from schemas.where import EVERYTHING, Not, Where
from wrapper.catalog.changes import feed
from wrapper.catalog.contract import Transaction
from wrapper.catalog.filters import count, digest_of, leaves, predicate
from wrapper.catalog.reads import all_positions

MOST_BYTES = 32 << 20
"""The most memory that the positions may take."""
ENTRY_BYTES = 500
POSITION_BYTES = 8
MOST_COUNTED = 1_000
"""The filters whose counts are remembered as asked for, those asked for last."""
LEAST_HELD = 2_000
"""Counting fewer matches, or reading their positions anew after a write, costs as little as learning what changed."""
COUNTS_A_READING = 6
"""So many times as long as counting matches takes reading their positions: then they have been counted often enough."""
MOST_CHANGED = 0.05
"""Where more documents changed than this share of the matches, reading the positions anew costs less than asking which
of them match."""

MOST_LOOKED_AT = 100_000
"""The most conditions times changed documents that are looked at while a write keeps others waiting: 0.1 seconds."""

Positions = NDArray[np.int64]
_Key = tuple[int, bytes]


@dataclass(frozen=True, slots=True, eq=False)
class _Held:
    """The positions (n,) of the matches at a revision, in ascending order."""

    revision: int
    positions: Positions


class HeldMatches:
    """The matches of filters that are asked often, in at most `most_bytes`; safe for any number of threads.

    The filters asked for longest ago make room. What is held is brought to another revision where there are at least
    `least_held` matches, and at most the share `most_changed` of them changed.
    """

    def __init__(
        self, most_bytes: int = MOST_BYTES, least_held: int = LEAST_HELD, most_changed: float = MOST_CHANGED
    ) -> None:
        self._least_held, self._most_changed = least_held, most_changed
        self._held: LRUCache[_Key, _Held] = LRUCache(
            most_bytes, getsizeof=lambda held: ENTRY_BYTES + int(held.positions.nbytes)
        )
        self._counted: LRUCache[_Key, int] = LRUCache(MOST_COUNTED)
        self._guard = threading.Lock()

    def of(self, transaction: Transaction, collection: Collection, where: Where) -> Positions:
        """Return the positions (n,) of all documents that match, in ascending order."""
        key = _key(collection, where)
        held = self._current(transaction, collection, where, key)
        return self._read(transaction, collection, where, key) if held is None else held

    def count(self, transaction: Transaction, collection: Collection, where: Where) -> int:
        """Return exactly how many documents match."""
        if where == EVERYTHING:
            return collection.count
        if isinstance(where, Not):  # a filter and its opposite share what is held
            return collection.count - self.count(transaction, collection, where.part)
        key = _key(collection, where)
        held = self._current(transaction, collection, where, key)
        if held is not None:
            return len(held)
        counted = count(transaction, collection.key, where, collection.count)
        if counted >= self._least_held and ENTRY_BYTES + POSITION_BYTES * counted <= self._held.maxsize:
            with self._guard:
                times = self._counted[key] = self._counted.get(key, 0) + 1
            if times % COUNTS_A_READING == 0:
                self._read(transaction, collection, where, key)
        return counted

    def _current(self, transaction: Transaction, collection: Collection, where: Where, key: _Key) -> Positions | None:
        """Return what is held, brought to the snapshot's revision; None when that does not pay."""
        with self._guard:
            held = self._held.get(key)
        if held is None or held.revision > collection.revision:
            return None
        if held.revision < collection.revision:
            if len(held.positions) < self._least_held:
                return None
            most = int(self._most_changed * len(held.positions))
            positions = _brought(transaction, collection, where, held, most)
            if positions is None:
                return None
            held = _Held(collection.revision, positions)
            self._hold(key, held)
        return held.positions

    def _read(self, transaction: Transaction, collection: Collection, where: Where, key: _Key) -> Positions:
        positions = np.sort(all_positions(transaction, collection, where), kind="stable")
        self._hold(key, _Held(collection.revision, positions))
        return positions

    def _hold(self, key: _Key, held: _Held) -> None:
        with self._guard:
            # An older snapshot does not replace what newer ones ask for.
            newest = self._held.get(key)
            fits = ENTRY_BYTES + held.positions.nbytes <= self._held.maxsize
            if fits and (newest is None or newest.revision < held.revision):
                self._held[key] = held


class OutdatedPlanError(BusyError):
    """Too much changed since a write was planned: nothing of it is stored, and it may be planned anew."""

    def __init__(self, collection: Collection) -> None:
        name = collection.name
        super().__init__(f"The collection '{name}' is written to too often for this filter: try again", collection=name)


class PlannedMatches:
    """What the filters of one write match: evaluated once, and brought from each state in which it is planned to the
    next by what changed between them."""

    def __init__(self) -> None:
        self._held: dict[_Key, _Held] = {}
        self._keeps_others_waiting = False

    def in_lock(self) -> PlannedMatches:
        """Return the same for the write transaction, in which others wait."""
        same = PlannedMatches()
        same._held, same._keeps_others_waiting = self._held, True
        return same

    def of(self, transaction: Transaction, collection: Collection, where: Where) -> Positions:
        """Return the positions (n,) of all documents that match, in ascending order.

        Raises OutdatedPlanError where that would keep others waiting for long."""
        key = _key(collection, where)
        held, found = self._held.get(key), None
        if held is not None and held.revision <= collection.revision:
            most = MOST_LOOKED_AT // max(1, leaves(where)) if self._keeps_others_waiting else sys.maxsize - 1
            found = _brought(transaction, collection, where, held, most)
        if self._keeps_others_waiting:
            if found is None:
                raise OutdatedPlanError(collection)
            return found  # not held: the transaction may end without having been
        if found is None:
            found = np.sort(all_positions(transaction, collection, where))
        self._held[key] = _Held(collection.revision, found)
        return found


def _key(collection: Collection, where: Where) -> _Key:
    return collection.key, digest_of(where)


def _brought(
    transaction: Transaction, collection: Collection, where: Where, held: _Held, most: int
) -> Positions | None:
    """Return the matches at the snapshot's revision, from those of an earlier one.

    Returns None when more than `most` documents changed since, or when not all of them are known.
    """
    changed = feed.positions_since(transaction, collection, held.revision, limit=most + 1)
    if changed is None or sum(map(len, changed)) > most:
        return None
    gone = np.array([*changed.written, *changed.deleted], dtype=np.int64)
    positions = held.positions[~np.isin(held.positions, gone)]
    if not changed.written:
        return positions
    matching = predicate(transaction, collection.key, where, "d.position")
    added = np.sort(
        transaction.numbers(
            f"SELECT d.position FROM documents d WHERE d.collection_key = ? AND d.revision > ? AND {matching.text}",
            (collection.key, held.revision, *matching.parameters),
        )
    )
    return np.insert(positions, np.searchsorted(positions, added), added)
