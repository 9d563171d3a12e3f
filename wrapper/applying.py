"""Making the engine equal to the catalogue: one group of outbox entries, or one collection from scratch.

A collection whose index is missing or broken in the engine is rebuilt from the catalogue into a new engine
collection, which takes over the name when it is complete; queries scan the catalogue meanwhile and writes wait in
the outbox.
"""

from __future__ import annotations

import random
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import structlog

from schemas.errors import UnavailableError
from schemas.records import Collection, Document
from wrapper.catalog import outbox, reads, states
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.rows import all_collections, collection_by_key
from wrapper.doctor import CANARIES, Doctor
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
RUNS_BEFORE_REBUILD = 3
WAITING_ENTRIES = 64
"""Entries that may wait while a collection is verified; behind more of them it is verified later."""
VERIFY_EVERY_SECONDS = 60.0
MAINTENANCE_PAUSE_SECONDS = 2.0
REBUILD_AGAIN_SECONDS = 3600.0
"""What a rebuild did not mend (a document that the engine refuses, say) is no reason for the next one."""


@dataclass(slots=True)
class _Rebuild:
    name: str
    engine_id: str
    remaining: list[int]
    """Positions of the documents still to be written, in random order: clusters that come in one after the other make
    an index that misses near ones (`docs/engine.md`)."""


class Applier:
    """Used by the one thread that drains the outbox.

    `incarnation` tells one run of the engine from the next, None while it does not answer; `restart_engine` asks for a
    new one; `revive_engine` is called while there is none.
    """

    def __init__(
        self,
        catalog: Catalog,
        engine: EngineClient,
        *,
        incarnation: Callable[[], object],
        restart_engine: Callable[[], object],
        revive_engine: Callable[[], object] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._catalog = catalog
        self._engine = engine
        self._incarnation = incarnation
        self._restart_engine = restart_engine
        self._revive_engine = revive_engine
        self._clock = clock
        self._doctor = Doctor(catalog, engine)
        self._rebuilds: dict[int, _Rebuild | None] = {}
        self._failures: dict[int, int] = {}
        self._unanswered_by: dict[int, set[object]] = {}
        # Entries up to these may have been applied before: their documents may be in the engine already.
        self._found_up_to = 0
        self._tried_up_to: dict[int, int] = {}
        self._trusted_incarnation: object = None
        self._to_verify: deque[int] = deque()
        self._verify_again_at = self._rests_until = float("-inf")
        self._rebuilt_until: dict[int, float] = {}

    def take_over(self) -> None:
        """This process leads from now on: go on with the rebuilds that another one had begun."""
        with self._catalog.read() as transaction:
            unfinished = [each.key for each in all_collections(transaction) if each.index_state == states.REBUILDING]
            self._found_up_to = outbox.newest(transaction)
        self._rebuilds = dict.fromkeys(unfinished)
        self._tried_up_to.clear()
        self._trust_nothing()

    def engine_is_ready(self) -> bool:
        """Whether there is an engine to apply entries to."""
        return self._incarnation() is not None

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
        incarnation = self._incarnation()
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
            if not self._blames_index(first.collection_key, incarnation, error):
                self._note_failure(first.collection_key, error)
            raise
        self._failures.pop(first.collection_key, None)
        self._unanswered_by.pop(first.collection_key, None)

    def maintain(self) -> None:
        """One small step of what is not asked by a writer: verification after an engine start and now and then,
        rebuilds."""
        incarnation = self._incarnation()
        if incarnation != self._trusted_incarnation:
            self._trust_nothing()
            self._trusted_incarnation = incarnation
        if incarnation is None:
            self._revive_engine()
            return
        now = self._clock()
        if now < self._rests_until:
            return
        if now >= self._verify_again_at:
            self._verify_again_at = now + VERIFY_EVERY_SECONDS
            with self._catalog.read() as transaction:
                keys = [each.key for each in all_collections(transaction)]
            # What may end the engine comes last: until then the others can be asked.
            self._to_verify = deque(sorted(keys, key=lambda key: len(self._unanswered_by.get(key, ()))))
        try:
            if self._rebuilds:
                self._step(next(iter(self._rebuilds)))
            elif self._to_verify:
                if not self._verify(self._to_verify[0]):
                    self._to_verify.append(self._to_verify[0])
                self._to_verify.popleft()
        except UnavailableError as error:
            log.warning("engine did not answer, maintenance goes on later", reason=error.message)
            self._rests_until = self._clock() + MAINTENANCE_PAUSE_SECONDS

    def _trust_nothing(self) -> None:
        """An index that was not looked at since the engine started may be broken: queries scan until it was."""
        self._catalog.commit(states.distrust_all)
        self._trusted_incarnation = None
        self._verify_again_at = self._rests_until = float("-inf")

    def _create(self, entry: outbox.Entry) -> None:
        with self._catalog.read() as transaction:
            collection = collection_by_key(transaction, entry.collection_key)
        if collection is None or (entry.kind == outbox.CREATE and collection.engine_id is not None):
            return
        if entry.kind == outbox.EMPTY:
            self._remove_engine_collection(collection.name, collection.engine_id)
        self._set_engine_id(collection, self._make(collection, collection.name))

    def _make(self, collection: Collection, name: str) -> str:
        try:
            return self._engine.create_collection(name, metric=collection.metric, metadata=collection.metadata)
        except EngineConflictError:
            self._make_room(name)
            return self._engine.create_collection(name, metric=collection.metric, metadata=collection.metadata)

    def _make_room(self, name: str) -> None:
        """What stands in the way is a deleted collection, the empty leftover of a crash, or somebody's: that is kept,
        renamed."""
        found = self._engine.get_collection(name)
        if found is None:
            return
        with self._catalog.read() as transaction:
            dropped = outbox.dropped_engine_ids(transaction, name)
        if found.id in dropped or self._engine.count(found.id) == 0:
            self._engine.delete_collection(name)
            return
        spared = f"{name[:480]}-replaced-{uuid.uuid4().hex[:8]}"
        log.warning("an unknown engine collection is in the way, renamed", collection=name, renamed_to=spared)
        self._engine.rename_collection(found.id, spared)

    def _set_metadata(self, entry: outbox.Entry) -> None:
        with self._catalog.read() as transaction:
            collection = collection_by_key(transaction, entry.collection_key)
        if collection is None or collection.engine_id is None:
            return
        try:
            self._engine.set_collection_metadata(collection.engine_id, collection.metadata)
        except EngineRefusedError as error:
            # The catalogue answers for it. The collection's documents must not wait for it.
            log.error("the engine refuses a collection's metadata", collection=collection.name, reason=error.message)

    def _drop(self, entry: outbox.Entry) -> None:
        name, engine_id = entry.payload["name"], entry.payload["engine_id"]
        self._rebuilds.pop(entry.collection_key, None)
        self._engine.delete_collection(_rebuild_name(entry.collection_key, engine_id))
        self._remove_engine_collection(name, engine_id)

    def _remove_engine_collection(self, name: str, engine_id: str | None) -> None:
        found = self._engine.get_collection(name)
        if found is not None and (found.id == engine_id or self._is_leftover(found.id)):
            self._engine.delete_collection(name)

    def _is_leftover(self, engine_id: str) -> bool:
        """An empty collection that nobody knows was made for an entry whose end was never recorded."""
        with self._catalog.read() as transaction:
            known = {each.engine_id for each in all_collections(transaction)}
        return engine_id not in known and self._engine.count(engine_id) == 0

    def _write(self, collection_key: int, entries: list[outbox.Entry]) -> None:
        stale: dict[str, set[str]] = {}
        deleted: set[str] = set()
        known: set[str] = set()
        for entry in entries:
            deleted.update(entry.payload["delete"])
            for document_id, keys in entry.payload["upsert"]:
                if keys is not None and document_id not in stale:
                    known.add(document_id)
                stale.setdefault(document_id, set()).update(keys or ())
        untried = entries[0].id > self._tried_up_to.get(collection_key, self._found_up_to)
        self._tried_up_to[collection_key] = entries[-1].id
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
            all_new = untried and known.isdisjoint(document.id for document in block)
            self._upsert(collection.engine_id, block, stale, all_new=all_new)

    def _upsert(self, engine_id: str, documents: list[Document], stale: dict[str, set[str]], *, all_new: bool) -> None:
        try:
            self._engine.upsert(
                engine_id,
                [document.id for document in documents],
                np.stack([document.embedding for document in documents if document.embedding is not None]),
                [document.text for document in documents],
                [document.metadata for document in documents],
                stale_keys=None if all_new else [stale.get(document.id, set()) for document in documents],
                all_new=all_new,
            )
        except EngineRefusedError as error:
            if len(documents) == 1:
                # It stays in the catalogue: filters, exact plans and scans find it. The rest must not wait for it.
                log.error("the engine refuses a document", id=documents[0].id, reason=error.message)
                return
            middle = len(documents) // 2
            self._upsert(engine_id, documents[:middle], stale, all_new=all_new)
            self._upsert(engine_id, documents[middle:], stale, all_new=all_new)

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

    def _blames_index(self, collection_key: int, incarnation: object, error: UnavailableError) -> bool:
        """A damaged index can end the engine that opens it. One on which several runs of the engine, one after the
        other, gave no answer is rebuilt."""
        if not isinstance(error, EngineUnavailableError) or incarnation is None:
            return False
        unanswered_by = self._unanswered_by.setdefault(collection_key, set())
        unanswered_by.add(incarnation)
        if len(unanswered_by) < RUNS_BEFORE_REBUILD:
            return False
        del self._unanswered_by[collection_key]
        self._begin_rebuild(collection_key, f"{RUNS_BEFORE_REBUILD} runs of the engine gave no answer on it")
        return True

    def _begin_rebuild(self, collection_key: int, reason: str) -> None:
        log.warning("rebuilding an index from the catalogue", collection_key=collection_key, reason=reason)
        self._catalog.commit(lambda transaction: states.set_index_state(transaction, collection_key, states.REBUILDING))
        self._rebuilds.setdefault(collection_key, None)

    def _step(self, collection_key: int) -> None:
        rebuild = self._rebuilds[collection_key]
        with self._catalog.read() as transaction:
            collection = collection_by_key(transaction, collection_key)
            if collection is None:
                # Its entry in the outbox removes what there is of it.
                del self._rebuilds[collection_key]
                return
            if rebuild is None:
                places = reads.all_positions(transaction, collection)
            else:
                block = rebuild.remaining[-DOCUMENTS_PER_CALL:]
                documents = list(reads.by_positions(transaction, block, with_embeddings=True).values())
        if rebuild is None:
            random.Random(collection_key).shuffle(places)
            name = _rebuild_name(collection.key, collection.engine_id)
            self._engine.delete_collection(name)
            self._rebuilds[collection_key] = _Rebuild(name, self._make(collection, name), places)
            return
        if block:
            try:
                if documents:
                    self._upsert(rebuild.engine_id, documents, {}, all_new=True)
            except UnavailableError:
                # What it has got by now is uncertain: begin again with a new engine collection.
                self._rebuilds[collection_key] = None
                raise
            del rebuild.remaining[-len(block) :]
            return
        self._take_name(collection, rebuild)
        with self._catalog.read() as transaction:
            self._tried_up_to[collection_key] = outbox.newest(transaction)
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
        self._set_engine_id(collection, rebuild.engine_id)

    def _set_engine_id(self, collection: Collection, engine_id: str) -> None:
        """The collection's index is complete and has its name. One that was deleted meanwhile has none: its entry in
        the outbox knows the engine's collection before this one."""
        if not self._catalog.commit(
            lambda transaction: states.set_engine_collection(transaction, collection.key, engine_id, states.READY)
        ):
            self._remove_engine_collection(collection.name, engine_id)

    def _verify(self, collection_key: int) -> bool:
        """Look at an index, and have it rebuilt when it is not as it should be; False when that cannot quite be said
        as long as writes wait in the outbox."""
        with self._catalog.read() as transaction:
            collection = collection_by_key(transaction, collection_key)
            if collection is None or collection.engine_id is None:
                return True
            if collection.index_state == states.REBUILDING:
                self._rebuilds.setdefault(collection_key, None)
                return True
            is_trusted = collection.index_state == states.READY
            entries = outbox.of_collection(transaction, collection_key, limit=1 if is_trusted else WAITING_ENTRIES)
            if entries and (is_trusted or not _only_documents(entries)):
                return False
            waiting = {document_id for entry in entries for document_id in _touched(entry)}
            canaries = [each for each in reads.sample(transaction, collection, CANARIES) if each.id not in waiting]
        try:
            fault = self._doctor.fault(collection, canaries, counts=not entries)
        except (EngineBrokenError, EngineCollectionMissingError) as error:
            self._begin_rebuild(collection_key, error.message)
            return True
        except EngineUnavailableError as error:
            if self._blames_index(collection_key, self._trusted_incarnation, error):
                return True
            raise
        self._unanswered_by.pop(collection_key, None)
        if fault is not None and self._clock() >= self._rebuilt_until.get(collection_key, float("-inf")):
            self._rebuilt_until[collection_key] = self._clock() + REBUILD_AGAIN_SECONDS
            self._begin_rebuild(collection_key, fault)
            return True
        if fault is not None:
            log.warning("an index is not as it should be, and was not after a rebuild", collection=collection.name)
        if collection.index_state == states.PENDING:
            self._catalog.commit(lambda transaction: states.set_index_state(transaction, collection_key, states.READY))
        return not entries


def _rebuild_name(collection_key: int, engine_id: str | None) -> str:
    """The same for every attempt to rebuild one index, so that the next one finds what the last one left."""
    return f"{REBUILD_PREFIX}{collection_key}-{engine_id}"


def _only_documents(entries: list[outbox.Entry]) -> bool:
    return len(entries) < WAITING_ENTRIES and all(entry.kind == outbox.DOCUMENTS for entry in entries)


def _touched(entry: outbox.Entry) -> list[str]:
    return [*(document_id for document_id, _ in entry.payload["upsert"]), *entry.payload["delete"]]


def _blocks(documents: list[Document], size: int) -> Iterable[list[Document]]:
    return (documents[start : start + size] for start in range(0, len(documents), size))
