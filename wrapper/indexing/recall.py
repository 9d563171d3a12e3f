"""Measurement of recall: how many of the really nearest documents an index finds."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np

from schemas.records import Collection, Document, Vector
from wrapper.catalog import reads
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.contract import Transaction
from wrapper.catalog.rows import collection_by_key
from wrapper.distances import EQUAL_DISTANCE, exact_distances, possible_nearest, vectors_at_once
from wrapper.engine.client import EngineClient

NEAREST = 10
QUERIES = 20
VECTORS_AT_ONCE = 2_000


class RecallMeasurement:
    """A measurement of one index's recall@10, with the vectors of some of its documents as queries.

    The truth comes from the catalogue's vectors. The measurement runs in small steps, so that no writer waits for a
    pass over all vectors. Changes meanwhile are left out as far as they can be seen: the result is a measurement, not a
    verdict.
    """

    def __init__(
        self, catalog: Catalog, engine: EngineClient, collection: Collection, asked: Sequence[Document]
    ) -> None:
        self._catalog = catalog
        self._engine = engine
        self._collection = collection
        self._queries = [document.embedding for document in asked[:QUERIES] if document.embedding is not None]
        self._nearest: list[list[float]] = [[] for _ in self._queries]
        self._seen_to = 0

    @property
    def collection_key(self) -> int:
        return self._collection.key

    @property
    def documents(self) -> int:
        """The number of documents in the collection when the measurement began."""
        return self._collection.count

    def step(self) -> bool:
        """Compare some more vectors. Return False when all are done, or when there is nothing left to measure."""
        with self._catalog.read() as transaction:
            if self._now(transaction) is None:
                return False
            limit = min(VECTORS_AT_ONCE, vectors_at_once(self._collection.dimension or 1))
            places, vectors = reads.vectors_after(transaction, self._collection, self._seen_to, limit=limit)
        if not places:
            return False
        self._seen_to = places[-1]
        for number, query in enumerate(self._queries):
            self._nearest[number] = heapq.nsmallest(
                NEAREST, [*self._nearest[number], *_least_distances(query, vectors, self._collection.metric)]
            )
        return True

    def recall(self) -> float | None:
        """Return the share of the nearest documents that the index finds; call it once the steps are done.

        Returns None when there was nothing to find. Raises whatever the engine's client raises.
        """
        if not self._seen_to:
            return None
        assert self._collection.engine_id is not None
        proposed = self._engine.query(self._collection.engine_id, np.stack(self._queries), NEAREST)
        hits = expected = 0
        with self._catalog.read() as transaction:
            collection = self._now(transaction)
            if collection is None:
                return None
            for query, nearest, ids in zip(self._queries, self._nearest, proposed, strict=True):
                _, vectors = reads.vectors_of(transaction, collection, ids)
                distances = exact_distances(query, vectors, collection.metric)
                hits += min(len(nearest), int(np.count_nonzero(distances <= nearest[-1] + EQUAL_DISTANCE)))
                expected += len(nearest)
        return hits / expected

    def _now(self, transaction: Transaction) -> Collection | None:
        """Return the collection in its present state, or None when it no longer has the index being measured."""
        now = collection_by_key(transaction, self._collection.key)
        same = now is not None and (now.engine_id, now.dimension) == (
            self._collection.engine_id,
            self._collection.dimension,
        )
        return now if same else None


def _least_distances(query: Vector, vectors: Vector, metric: str) -> list[float]:
    few = possible_nearest(query, vectors, metric, NEAREST)
    least: list[float] = exact_distances(query, vectors[few], metric).tolist()
    return least
