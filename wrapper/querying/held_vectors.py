"""The codes of collections' vectors, held in this process's memory: nearest documents without asking the engine.

A collection is held at one revision, so results computed from it are true in any snapshot of that revision and in no
other. Reading vectors pays only when queries follow: a collection is read once the queries of its revision would have
won as much time as the reading costs (the ski-rental rule: never more than twice the cost of the better choice). No
query waits for long: what takes long to read is read apart, while queries are answered as before.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import structlog
from numpy.typing import NDArray

from schemas.errors import RagError
from schemas.records import Collection
from schemas.where import EVERYTHING
from wrapper.catalog import reads
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.contract import Transaction
from wrapper.catalog.rows import find_collection
from wrapper.coalescing import Coalescer, Ticket
from wrapper.distances import vectors_at_once
from wrapper.querying.codes import Bytes, Codes, Encoder, Floats, QueryCode, Rows, multiply, size_bytes
from wrapper.querying.costs import codes_compared

log = structlog.get_logger(__name__)

SOON_MS = 100.0
"""The longest that a query may take to read a collection."""
SAMPLED = 1_024
"""The most vectors, spread over the collection, whose middle is the reference of the codes."""
POSITION_BYTES = 8
TOGETHER_FROM = 1_000_000
"""Collections of at least this many components compute products for several queries at a time."""
QUERIES_AT_ONCE = 16
PRODUCTS_AT_ONCE = max(1, (os.cpu_count() or 1) // 2)
MAX_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """The codes of a collection at a revision, and the documents' positions (n,), rising."""

    revision: int
    positions: NDArray[np.int64]
    codes: Codes

    @property
    def nbytes(self) -> int:
        return self.codes.nbytes + self.positions.nbytes

    def rows_of(self, positions: Sequence[int]) -> Rows:
        """Return the rows of documents, given by their positions at the same revision."""
        return np.searchsorted(self.positions, positions)


@dataclass(slots=True)
class _Account:
    revision: int
    saved_ms: float = 0.0
    is_read: bool = False


_Asked = Ticket[tuple[Held, Bytes], Floats]


class HeldVectors:
    """The held vectors of collections, in at most `max_bytes`. Collections asked for longest ago leave first.

    Several threads can use it. A thread of its own reads large collections of the `catalog`; without one, queries do.
    """

    def __init__(self, max_bytes: int, catalog: Catalog | None = None) -> None:
        self._max_bytes = max_bytes
        self._catalog = catalog
        self._apart = ThreadPoolExecutor(1, thread_name_prefix="vectors")
        self._closing = threading.Event()
        self._held: OrderedDict[int, Held] = OrderedDict()
        self._accounts: OrderedDict[int, _Account] = OrderedDict()
        self._guard = threading.Lock()
        self._products: Coalescer[tuple[Held, Bytes], Floats] = Coalescer(
            _multiply, most=QUERIES_AT_ONCE, at_once=PRODUCTS_AT_ONCE, alike=lambda one, other: one[0] is other[0]
        )

    def fits(self, collection: Collection) -> bool:
        taken = size_bytes(collection.count, collection.dimension or 0) + collection.count * POSITION_BYTES
        return taken <= self._max_bytes

    def of(
        self, transaction: Transaction, collection: Collection, *, saves_ms: float, reading_ms: float
    ) -> Held | None:
        """Return the collection's codes at the transaction's revision, or None when they are not held.

        If, with this query, reading them would have paid, they are read: now if that takes no longer than `SOON_MS`.
        """
        with self._guard:
            held = self._held.get(collection.key)
            if held is not None and held.revision == collection.revision:
                self._held.move_to_end(collection.key)
                return held
            if held is not None and held.revision < collection.revision:
                del self._held[collection.key]  # of no use any more, and in the way of its successor
            account = self._account(collection)
            account.saved_ms += saves_ms
            if account.is_read or account.saved_ms < reading_ms or self._closing.is_set():
                return None
            account.is_read = True  # by this thread or apart; the others do not wait for it
            if self._catalog is not None and reading_ms > SOON_MS:
                self._apart.submit(self._read_apart, self._catalog, collection)
                return None
        try:
            return self._read(transaction, collection)
        except BaseException:
            self._forget(collection.key)
            raise

    def close(self) -> None:
        """Give up what is being read."""
        with self._guard:
            self._closing.set()
        self._apart.shutdown(cancel_futures=True)

    def nearest(self, held: Held, query: QueryCode, top_k: int, rows: Rows | None = None) -> Rows:
        """Return the rows that can be among the `top_k` nearest, of `rows` (n,) if given.

        Simultaneous queries are computed together.
        """
        codes = held.codes
        if rows is not None and codes_compared(len(codes.codes), len(rows)) == len(rows):
            [products] = multiply(codes.codes[rows], [query.code])
        else:
            products = self._all_products(held, query.code)
            products = products if rows is None else products[rows]
        return codes.nearest(query, products, top_k, rows)

    def _all_products(self, held: Held, code: Bytes) -> Floats:
        if held.codes.codes.size < TOGETHER_FROM:
            return multiply(held.codes.codes, [code])[0]
        return self._products.do((held, code))

    def _read_apart(self, catalog: Catalog, asked: Collection) -> None:
        try:
            with catalog.read() as transaction:
                collection = find_collection(transaction, asked.name)
                if collection.count and self.fits(collection) and not self._is_held(collection):
                    self._read(transaction, collection)
            return
        except RagError as error:
            log.info("vectors were not read into memory", collection=asked.name, reason=error.message)
        except Exception:
            log.exception("unexpected failure while vectors were read into memory", collection=asked.name)
        self._forget(asked.key)

    def _is_held(self, collection: Collection) -> bool:
        with self._guard:
            held = self._held.get(collection.key)
            return held is not None and held.revision >= collection.revision

    def _read(self, transaction: Transaction, collection: Collection) -> Held | None:
        """Read the vectors of a collection and hold their codes.

        Returns None when one is too long to be compared by its code, or this is being closed.
        """
        positions = np.sort(np.array(reads.all_positions(transaction, collection, EVERYTHING), dtype=np.int64))
        sampled = min(SAMPLED, vectors_at_once(collection.dimension or 1))
        spread = positions[:: -(-len(positions) // sampled)].tolist()
        _, some = reads.vectors_at(transaction, collection, spread)
        encoder = Encoder(collection.metric, some, len(positions))
        for block, vectors in reads.vectors(transaction, collection, EVERYTHING):
            if self._closing.is_set() or not encoder.add(np.searchsorted(positions, block), vectors):
                return None
        held = Held(collection.revision, positions, encoder.finish())
        self._keep(collection.key, held)
        return held

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
            while sum(each.nbytes for each in self._held.values()) > self._max_bytes:
                key, _ = self._held.popitem(last=False)
                self._accounts.pop(key, None)

    def _forget(self, key: int) -> None:
        """Forget that a collection has been read: its queries have to pay once more."""
        with self._guard:
            self._accounts.pop(key, None)


def _multiply(asked: list[_Asked]) -> None:
    codes = asked[0].request[0].codes.codes
    for ticket, products in zip(asked, multiply(codes, [ticket.request[1] for ticket in asked]), strict=True):
        ticket.succeed(products)
