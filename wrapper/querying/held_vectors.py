"""The vectors of small collections, held in this process's memory: nearest documents without asking the engine.

A collection is held at one revision, so results computed from it are true in any snapshot of that revision and in no
other. Reading vectors pays only when queries follow: a collection is read once the queries of its revision would have
won as much time as the reading costs (the ski-rental rule: never more than twice the cost of the better choice).
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from schemas.records import Collection, Vector
from schemas.where import EVERYTHING
from wrapper.catalog import reads
from wrapper.catalog.contract import Transaction
from wrapper.coalescing import Coalescer, Ticket
from wrapper.distances import squares_of

READ_BLOCK = 1_024
TOGETHER_FROM = 1_000_000
"""Collections of at least this many components compute products for several queries at a time."""
QUERIES_AT_ONCE = 16
WORTH_PACKING = 4
"""The number of queries from which on one product of two matrices is computed. It first copies the vectors into the
order it needs, which costs as much as three queries."""
PRODUCTS_AT_ONCE = max(1, (os.cpu_count() or 1) // 2)
MAX_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """All vectors of a collection at a revision.

    positions: (n,), rising; vectors: float32 (n, dimension); squares: float32 (n,), the vectors' dot products with
    themselves.
    """

    revision: int
    positions: NDArray[np.int64]
    vectors: Vector
    squares: NDArray[np.float32]

    def rows_of(self, positions: Sequence[int]) -> NDArray[np.intp]:
        """Return the rows of documents, given by their positions at the same revision."""
        return np.searchsorted(self.positions, positions)


@dataclass(slots=True)
class _Account:
    revision: int
    saved_ms: float = 0.0
    is_read: bool = False


_Asked = Ticket["tuple[Held, Vector]", "NDArray[np.float32]"]


class HeldVectors:
    """The held vectors of collections, in at most `max_bytes`. Collections asked for longest ago leave first.

    Several threads can use it.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._held: OrderedDict[int, Held] = OrderedDict()
        self._accounts: OrderedDict[int, _Account] = OrderedDict()
        self._guard = threading.Lock()
        self._products: Coalescer[tuple[Held, Vector], NDArray[np.float32]] = Coalescer(
            _multiply, most=QUERIES_AT_ONCE, at_once=PRODUCTS_AT_ONCE, alike=lambda one, other: one[0] is other[0]
        )

    def fits(self, collection: Collection) -> bool:
        return collection.count * (collection.dimension or 0) * 4 <= self._max_bytes

    def of(
        self, transaction: Transaction, collection: Collection, *, saves_ms: float, reading_ms: float
    ) -> Held | None:
        """Return the collection's vectors at the transaction's revision, or None when they are not held.

        They are read now if, with this query, reading them would have paid.
        """
        with self._guard:
            held = self._held.get(collection.key)
            if held is not None and held.revision == collection.revision:
                self._held.move_to_end(collection.key)
                return held
            account = self._account(collection)
            account.saved_ms += saves_ms
            if account.is_read or account.saved_ms < reading_ms:
                return None
            account.is_read = True  # by this thread; the others do not wait for it
        held = _read(transaction, collection)
        if held is not None:
            self._keep(collection.key, held)
        return held

    def products(self, held: Held, query: Vector) -> NDArray[np.float32]:
        """Return the float32 dot products (n,) with `query` (dimension,).

        Simultaneous queries are computed together.
        """
        if held.vectors.size < TOGETHER_FROM:
            return held.vectors @ query
        return self._products.do((held, query))

    def _account(self, collection: Collection) -> _Account:
        account = self._accounts.get(collection.key)
        if account is None or account.revision != collection.revision:
            account = self._accounts[collection.key] = _Account(collection.revision)
            while len(self._accounts) > MAX_REMEMBERED:
                self._accounts.popitem(last=False)
        return account

    def _keep(self, key: int, held: Held) -> None:
        with self._guard:
            before = self._held.get(key)
            if before is not None and before.revision > held.revision:
                return
            self._held[key] = held
            self._held.move_to_end(key)
            while sum(each.vectors.nbytes for each in self._held.values()) > self._max_bytes:
                self._forget(next(iter(self._held)))

    def _forget(self, key: int) -> None:
        del self._held[key]
        self._accounts.pop(key, None)


def _read(transaction: Transaction, collection: Collection) -> Held | None:
    """Read the vectors of a collection. Returns None when one is too long to be compared by products."""
    vectors = np.empty((collection.count, collection.dimension or 0), dtype=np.float32)
    positions = np.empty(collection.count, dtype=np.int64)
    filled = 0
    for some, their_vectors in reads.vectors(transaction, collection, EVERYTHING, block=READ_BLOCK):
        part = slice(filled, filled + len(some))
        positions[part], vectors[part] = some, their_vectors
        filled = part.stop
    if np.any(np.diff(positions) < 0):
        order = np.argsort(positions)
        positions, vectors = positions[order], vectors[order]
    squares = squares_of(vectors)
    return None if squares is None else Held(collection.revision, positions, vectors, squares)


def _multiply(asked: list[_Asked]) -> None:
    held = asked[0].request[0]
    if len(asked) < WORTH_PACKING:
        for ticket in asked:
            ticket.succeed(held.vectors @ ticket.request[1])
        return
    products = held.vectors @ np.stack([ticket.request[1] for ticket in asked], axis=1)
    for number, ticket in enumerate(asked):
        ticket.succeed(products[:, number])
