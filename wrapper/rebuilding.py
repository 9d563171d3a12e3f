"""Rebuilding an index from the catalogue: into a new engine collection, which takes over the name when it is complete.

Queries scan the catalogue meanwhile, and writes wait in the outbox.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import structlog

from schemas.errors import UnavailableError
from schemas.records import Collection
from wrapper.catalog import outbox, reads, reports, states
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.rows import collection_by_key
from wrapper.catalog.transaction import Transaction
from wrapper.engine.client import EngineClient
from wrapper.engine.errors import EngineUnavailableError
from wrapper.engine_collections import DOCUMENTS_PER_CALL, EngineCollections, rebuild_name

log = structlog.get_logger(__name__)

RUNS_BEFORE_REBUILD = 3
TELL_EVERY_SECONDS = 1.0


@dataclass(slots=True)
class _Rebuild:
    name: str
    engine_id: str
    remaining: list[int]
    """Positions of the documents still to be written, in random order: clusters that come in one after the other make
    an index that misses near ones (`docs/engine.md`)."""
    tell_at: float = float("-inf")


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A finished rebuild; what outbox entries up to `newest_entry` wrote may be in the new index already."""

    collection_key: int
    newest_entry: int


class Rebuilds:
    """The rebuilds under way, for the one thread that writes to the engine."""

    def __init__(
        self,
        catalog: Catalog,
        engine: EngineClient,
        collections: EngineCollections,
        *,
        clock: Callable[[], float],
    ) -> None:
        self._clock = clock
        self._catalog = catalog
        self._engine = engine
        self._collections = collections
        self._rebuilds: dict[int, _Rebuild | None] = {}
        self._unanswered_by: dict[int, set[object]] = {}

    @property
    def keys(self) -> list[int]:
        """Of the collections under rebuild."""
        return list(self._rebuilds)

    def begin(self, collection_key: int, reason: str) -> None:
        log.warning("rebuilding an index from the catalogue", collection_key=collection_key, reason=reason)

        def record(transaction: Transaction) -> None:
            states.set_index_state(transaction, collection_key, states.REBUILDING)
            reports.write(
                transaction,
                collection_key,
                rebuild_reason=reason,
                documents_rebuilt=0,
                recall_at_10=None,
                recall_at_seconds=None,
            )

        self._catalog.commit(record)
        self.go_on([collection_key])

    def blame(self, collection_key: int, incarnation: object, error: UnavailableError) -> bool:
        """A damaged index can end the engine that opens it. One on which several runs of the engine, one after the
        other, gave no answer is rebuilt."""
        if not isinstance(error, EngineUnavailableError) or incarnation is None:
            return False
        unanswered_by = self._unanswered_by.setdefault(collection_key, set())
        unanswered_by.add(incarnation)
        if len(unanswered_by) < RUNS_BEFORE_REBUILD:
            return False
        del self._unanswered_by[collection_key]
        self.begin(collection_key, f"{RUNS_BEFORE_REBUILD} runs of the engine gave no answer on it")
        return True

    def answered(self, collection_key: int) -> None:
        """Whatever ended the engine, it was not this index."""
        self._unanswered_by.pop(collection_key, None)

    def runs_unanswered(self, collection_key: int) -> int:
        return len(self._unanswered_by.get(collection_key, ()))

    def go_on(self, collection_keys: Iterable[int]) -> None:
        """Take up rebuilds that the catalogue knows to be unfinished."""
        for key in collection_keys:
            self._rebuilds.setdefault(key, None)

    def forget_all(self) -> None:
        """Another process may have done some of them meanwhile."""
        self._rebuilds.clear()

    def discard(self, collection_key: int, engine_id: str | None) -> None:
        """The collection is gone: so is what its rebuild has made."""
        self._rebuilds.pop(collection_key, None)
        self._engine.delete_collection(rebuild_name(collection_key, engine_id))

    def step(self) -> Rebuilt | None:
        """A small step of the first rebuild; what it came to when that was the last."""
        collection_key, rebuild = next(iter(self._rebuilds.items()))
        with self._catalog.read() as transaction:
            collection = collection_by_key(transaction, collection_key)
            if collection is None:
                # Its entry in the outbox removes what there is of it.
                del self._rebuilds[collection_key]
                return None
            if rebuild is None:
                places = reads.all_positions(transaction, collection)
            else:
                block = rebuild.remaining[-DOCUMENTS_PER_CALL:]
                documents = list(reads.by_positions(transaction, block, with_embeddings=True).values())
        if rebuild is None:
            random.Random(collection_key).shuffle(places)
            name = rebuild_name(collection.key, collection.engine_id)
            self._engine.delete_collection(name)
            self._rebuilds[collection_key] = _Rebuild(name, self._collections.make(collection, name), places)
            return None
        if block:
            try:
                if documents:
                    self._collections.store(rebuild.engine_id, documents, {}, all_new=True)
            except UnavailableError:
                # What it has got by now is uncertain: begin again with a new engine collection.
                self._rebuilds[collection_key] = None
                raise
            del rebuild.remaining[-len(block) :]
            self._tell(collection, rebuild)
            return None
        with self._catalog.read() as transaction:
            newest = outbox.newest(transaction)
        self._take_name(collection, rebuild)
        del self._rebuilds[collection_key]
        log.info("index rebuilt", collection=collection.name, documents=collection.count)
        return Rebuilt(collection_key, newest)

    def _tell(self, collection: Collection, rebuild: _Rebuild) -> None:
        if self._clock() < rebuild.tell_at:
            return
        rebuild.tell_at = self._clock() + TELL_EVERY_SECONDS
        done = max(0, collection.count - len(rebuild.remaining))
        self._catalog.commit_quickly(
            lambda transaction: reports.write(transaction, collection.key, documents_rebuilt=done)
        )

    def _take_name(self, collection: Collection, rebuild: _Rebuild) -> None:
        old = self._engine.get_collection(collection.name)
        if old is not None and old.id != rebuild.engine_id:
            if old.id == collection.engine_id:
                self._engine.delete_collection(collection.name)
            else:
                self._collections.make_room(collection.name)
        self._engine.rename_collection(rebuild.engine_id, collection.name)
        self._collections.put_to_use(collection, rebuild.engine_id, rebuilt=True)
