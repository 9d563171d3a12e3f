"""Checks whether an index in the engine is what the catalogue says it should be.

Counts must agree, stored vectors must find themselves (a damaged index often answers, but not with the nearest
documents), and the files must not be larger than their documents explain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from schemas.records import Collection, Document
from wrapper.catalog import reads
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.rows import collection_by_key
from wrapper.distances import EQUAL_DISTANCE, exact_distances
from wrapper.engine.client import EngineClient
from wrapper.engine.keeper.index_files import most_explained_bytes

CANARIES = 30
AT_FIRST = 6
TOLERATED_MISSES = 0.05
NEIGHBOURS = 20


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check.

    `held` documents are in the index. Its files have `index_bytes`, None when they are not on this machine. `fault`
    says what is wrong, None when nothing is.
    """

    held: int
    index_bytes: int | None
    fault: str | None


class Doctor:
    """The checks of indexes, made by the one thread that writes to the engine, so that no index changes meanwhile."""

    def __init__(self, catalog: Catalog, engine: EngineClient, index_bytes: Callable[[str], int | None]) -> None:
        self._catalog = catalog
        self._engine = engine
        self._index_bytes = index_bytes

    def unused(self) -> tuple[list[str], Finding]:
        """Return the engine's ids of collections that never held a document, and the finding that holds for each.

        Raises whatever the engine's client raises.
        """
        engine_ids = self._engine.unused_collections()
        return engine_ids, Finding(0, self._index_bytes(engine_ids[0]) if engine_ids else None, None)

    def look(self, collection: Collection, canaries: Sequence[Document], *, expected: int | None) -> Finding:
        """Check an index. `canaries` are documents with embeddings that the index must have.

        `expected` is the number of documents that it must have in all, None while that number is not known. Raises
        whatever the engine's client raises.
        """
        assert collection.engine_id is not None
        held = self._engine.count(collection.engine_id)
        size = self._index_bytes(collection.engine_id)
        if expected is not None and held != expected:
            return Finding(held, size, f"the index holds {held} of {expected} documents")
        most = most_explained_bytes(max(held, collection.count), collection.dimension or 0)
        if size is not None and size > most:
            return Finding(held, size, f"the index takes {size >> 20} MB, its documents explain {most >> 20} MB")
        return Finding(held, size, self._lost(collection, canaries))

    def _lost(self, collection: Collection, canaries: Sequence[Document]) -> str | None:
        """Return a fault when too many canaries do not find themselves.

        A graph search may miss a document now and then, hence the larger sample before a miss counts.
        """
        some = canaries[:: max(1, len(canaries) // AT_FIRST)]
        for looked_at in (some, canaries):
            missed = sum(not self._finds(collection, canary) for canary in looked_at)
            if missed <= len(looked_at) * TOLERATED_MISSES:
                return None
        return f"{missed} of {len(canaries)} documents do not find themselves"

    def _finds(self, collection: Collection, canary: Document) -> bool:
        """Return whether a document is found by its own vector, or all that is found instead is as near.

        Among many equal vectors a graph returns only some.
        """
        assert collection.engine_id is not None
        assert canary.embedding is not None
        found = self._engine.query(collection.engine_id, canary.embedding[np.newaxis], NEIGHBOURS)[0]
        if canary.id in found or not found:
            return canary.id in found
        with self._catalog.read() as transaction:
            now = collection_by_key(transaction, collection.key)
            if now is None or now.dimension != collection.dimension:
                return True
            _, vectors = reads.vectors_of(transaction, now, found)
        distances = exact_distances(canary.embedding, vectors, collection.metric)
        own = exact_distances(canary.embedding, canary.embedding[np.newaxis], collection.metric)
        as_near = distances <= own.max() + EQUAL_DISTANCE
        # By inner product other vectors may be nearer to a vector than itself.
        return bool(as_near.all() if collection.metric == "ip" else as_near.any())
