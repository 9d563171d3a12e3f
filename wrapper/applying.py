"""Making the engine equal to the catalogue: one group of outbox entries, or one collection from scratch.

A collection whose index is missing or broken in the engine is rebuilt from the catalogue into a new engine
collection, which takes over the name when it is complete; queries scan the catalogue meanwhile and writes wait in
the outbox.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import structlog

from schemas.errors import UnavailableError
from schemas.records import Collection, Document
from wrapper.catalog import outbox, reads, states
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.rows import all_collections, collection_by_key
from wrapper.engine.client import EngineClient
from wrapper.engine.errors import (
    EngineBrokenError,
    EngineCollectionMissingError,
    EngineConflictError,
    EngineRefusedError,
    EngineUnavailableError,
)

log = structlog.get_logger(__name__)

DOCUMENTS_PER_CALL = 500
REBUILD_PREFIX = "rebuild-"
FAILURES_BEFORE_RESTART = 2
CANARIES = 6
CANARY_NEIGHBOURS = 20


@dataclass(slots=True)
class _Rebuild:
    name: str
    engine_id: str
    after_position: int = 0


class Applier:
    """Used by the one thread that drains the outbox.

    `incarnation` tells one run of the engine from the next; `restart_engine` asks for a new one.
    """

    def __init__(
        self,
        catalog: Catalog,
        engine: EngineClient,
        *,
        incarnation: Callable[[], object],
        restart_engine: Callable[[], object],
    ) -> None:
        self._catalog = catalog
        self._engine = engine
        self._incarnation = incarnation
        self._restart_engine = restart_engine
        self._rebuilds: dict[int, _Rebuild | None] = {}
        self._failures: dict[int, int] = {}
        self._verified_incarnation: object = None
        self._to_verify: list[int] = []

    def take_over(self) -> None:
        """This process leads from now on: go on with the rebuilds that another one had begun."""
        with self._catalog.read() as transaction:
            unfinished = [each.key for each in all_collections(transaction) if each.index_state == states.REBUILDING]
        self._rebuilds = dict.fromkeys(unfinished)
        self._verified_incarnation = None

    def busy_collections(self) -> list[int]:
        """Collections under rebuild: their entries wait."""
        return list(self._rebuilds)

    def has_work(self) -> bool:
        return bool(self._rebuilds or self._to_verify)

    def apply(self, entries: list[outbox.Entry]) -> None:
        """Apply entries of one collection: either one of any kind, or several that write documents.

        Raises UnavailableError when the engine did not take them; the same entries may be applied again.
        """
        first = entries[0]
        try:
            match first.kind:
                case outbox.CREATE | outbox.EMPTY:
                    self._create(first)
                case outbox.METADATA:
                    self._set_metadata(first)
                case outbox.DROP:
                    self._drop(first)
                case _:
                    self._write(first.collection_key, entries)
        except EngineCollectionMissingError:
            self._begin_rebuild(first.collection_key, "its engine collection is missing")
            raise
        except (EngineBrokenError, EngineUnavailableError) as error:
            self._note_failure(first.collection_key, error)
            raise
        self._failures.pop(first.collection_key, None)

    def maintain(self) -> None:
        """One small step of what is not asked by a writer: verification after an engine start, rebuilds."""
        incarnation = self._incarnation()
        if incarnation is None:
            return
        if incarnation != self._verified_incarnation:
            self._verified_incarnation = incarnation
            with self._catalog.read() as transaction:
                self._to_verify = [each.key for each in all_collections(transaction)]
        try:
            if self._rebuilds:
                self._step(next(iter(self._rebuilds)))
            elif self._to_verify:
                self._verify(self._to_verify[-1])
                self._to_verify.pop()
        except UnavailableError as error:
            log.warning("engine did not answer, maintenance goes on later", reason=error.message)
            self._verified_incarnation = None

    def _create(self, entry: outbox.Entry) -> None:
        with self._catalog.read() as transaction:
            collection = collection_by_key(transaction, entry.collection_key)
        if collection is None:
            return
        if entry.kind == outbox.EMPTY:
            self._remove_engine_collection(collection.name, collection.engine_id)
        self._set_engine_id(collection.key, self._make(collection, collection.name), states.READY)

    def _make(self, collection: Collection, name: str) -> str:
        try:
            return self._engine.create_collection(name, metric=collection.metric, metadata=collection.metadata)
        except EngineConflictError:
            self._make_room(name)
            return self._engine.create_collection(name, metric=collection.metric, metadata=collection.metadata)

    def _make_room(self, name: str) -> None:
        """What stands in the way is either the empty leftover of a crash or somebody's: that is kept, renamed."""
        found = self._engine.get_collection(name)
        if found is None:
            return
        if self._engine.count(found.id) == 0:
            self._engine.delete_collection(name)
            return
        spared = f"{name[:480]}-replaced-{uuid.uuid4().hex[:8]}"
        log.warning("an unknown engine collection is in the way, renamed", collection=name, renamed_to=spared)
        self._engine.rename_collection(found.id, spared)

    def _set_metadata(self, entry: outbox.Entry) -> None:
        with self._catalog.read() as transaction:
            collection = collection_by_key(transaction, entry.collection_key)
        if collection is not None and collection.engine_id is not None:
            self._engine.set_collection_metadata(collection.engine_id, collection.metadata)

    def _drop(self, entry: outbox.Entry) -> None:
        self._rebuilds.pop(entry.collection_key, None)
        self._remove_engine_collection(entry.payload["name"], entry.payload["engine_id"])

    def _remove_engine_collection(self, name: str, engine_id: str | None) -> None:
        found = self._engine.get_collection(name)
        if found is not None and found.id == engine_id:
            self._engine.delete_collection(name)

    def _write(self, collection_key: int, entries: list[outbox.Entry]) -> None:
        stale: dict[str, set[str]] = {}
        deleted: set[str] = set()
        for entry in entries:
            deleted.update(entry.payload["delete"])
            for document_id, keys in entry.payload["upsert"]:
                stale.setdefault(document_id, set()).update(keys)
        with self._catalog.read() as transaction:
            collection = collection_by_key(transaction, collection_key)
            reset = outbox.last_reset(transaction, collection_key)
            if collection is None or (reset is not None and reset > entries[-1].id):
                return
            documents = reads.by_ids(transaction, collection, list(stale), with_embeddings=True)
        if collection.engine_id is None:
            raise EngineCollectionMissingError(f"Collection '{collection.name}' has no index yet")
        if deleted:
            self._engine.delete(collection.engine_id, sorted(deleted))
        present = [documents[document_id] for document_id in stale if document_id in documents]
        for block in _blocks(present, DOCUMENTS_PER_CALL):
            self._upsert(collection.engine_id, block, stale)

    def _upsert(self, engine_id: str, documents: list[Document], stale: dict[str, set[str]]) -> None:
        try:
            self._engine.upsert(
                engine_id,
                [document.id for document in documents],
                np.stack([document.embedding for document in documents if document.embedding is not None]),
                [document.text for document in documents],
                [document.metadata for document in documents],
                stale_keys=[stale.get(document.id, set()) for document in documents],
            )
        except EngineRefusedError as error:
            if len(documents) == 1:
                # It stays in the catalogue: filters, exact plans and scans find it. The rest must not wait for it.
                log.error("the engine refuses a document", id=documents[0].id, reason=error.message)
                return
            middle = len(documents) // 2
            self._upsert(engine_id, documents[:middle], stale)
            self._upsert(engine_id, documents[middle:], stale)

    def _note_failure(self, collection_key: int, error: UnavailableError) -> None:
        failures = self._failures.get(collection_key, 0) + 1
        self._failures[collection_key] = failures
        if failures < FAILURES_BEFORE_RESTART or self._incarnation() is None:
            return
        if isinstance(error, EngineBrokenError) and failures > FAILURES_BEFORE_RESTART:
            self._begin_rebuild(collection_key, error.message)
            self._failures.pop(collection_key, None)
        else:
            self._restart_engine()

    def _begin_rebuild(self, collection_key: int, reason: str) -> None:
        log.warning("rebuilding an index from the catalogue", collection_key=collection_key, reason=reason)
        self._catalog.commit(lambda transaction: states.set_index_state(transaction, collection_key, states.REBUILDING))
        self._rebuilds.setdefault(collection_key, None)

    def _step(self, collection_key: int) -> None:
        rebuild = self._rebuilds[collection_key]
        with self._catalog.read() as transaction:
            collection = collection_by_key(transaction, collection_key)
            if collection is None:
                del self._rebuilds[collection_key]
                return
            after = rebuild.after_position if rebuild else 0
            documents = reads.in_insertion_order(transaction, collection, after=after, limit=DOCUMENTS_PER_CALL)
        if rebuild is None:
            name = f"{REBUILD_PREFIX}{collection.key}-{uuid.uuid4().hex[:8]}"
            rebuild = self._rebuilds[collection_key] = _Rebuild(name, self._make(collection, name))
        if documents:
            try:
                self._upsert(rebuild.engine_id, documents, {})
            except UnavailableError:
                # What it has got by now is uncertain: begin again with a new engine collection.
                self._rebuilds[collection_key] = None
                raise
            rebuild.after_position = documents[-1].position
            return
        self._take_name(collection, rebuild)
        del self._rebuilds[collection_key]
        log.info("index rebuilt", collection=collection.name, documents=collection.count)

    def _take_name(self, collection: Collection, rebuild: _Rebuild) -> None:
        old = self._engine.get_collection(collection.name)
        if old is not None and old.id != rebuild.engine_id:
            if old.id == collection.engine_id:
                self._engine.delete_collection(collection.name)
            else:
                self._make_room(collection.name)
        self._engine.rename_collection(rebuild.engine_id, collection.name)
        self._set_engine_id(collection.key, rebuild.engine_id, states.READY)

    def _set_engine_id(self, collection_key: int, engine_id: str, state: str) -> None:
        self._catalog.commit(
            lambda transaction: states.set_engine_collection(transaction, collection_key, engine_id, state)
        )

    def _verify(self, collection_key: int) -> None:
        """Counts must agree and a sample must find itself; what waits in the outbox is nobody's fault."""
        with self._catalog.read() as transaction:
            collection = collection_by_key(transaction, collection_key)
            if collection is None or collection.index_state != states.READY or collection.engine_id is None:
                return
            if outbox.of_collection(transaction, collection_key, limit=1):
                return
            canaries = reads.sample(transaction, collection, CANARIES)
        try:
            counted = self._engine.count(collection.engine_id)
            if counted != collection.count:
                self._begin_rebuild(collection_key, f"the index holds {counted} of {collection.count} documents")
                return
            for canary in canaries:
                if not self._finds(collection.engine_id, canary):
                    self._begin_rebuild(collection_key, f"document '{canary.id}' does not find itself")
                    return
        except (EngineBrokenError, EngineCollectionMissingError) as error:
            self._begin_rebuild(collection_key, error.message)

    def _finds(self, engine_id: str, canary: Document) -> bool:
        assert canary.embedding is not None
        found = self._engine.query(engine_id, canary.embedding, CANARY_NEIGHBOURS)
        # A full house of other documents is no proof: they may be its equals.
        return canary.id in found or len(found) == CANARY_NEIGHBOURS


def _blocks(documents: list[Document], size: int) -> Iterable[list[Document]]:
    return (documents[start : start + size] for start in range(0, len(documents), size))
