"""Making the engine equal to the catalogue: group by group of outbox entries, and in between by small steps of looking
at the indexes (`wrapper/checkups.py`) and of rebuilding one that is missing or broken (`wrapper/rebuilding.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import structlog

from schemas.errors import UnavailableError
from schemas.records import Document
from wrapper.adoption import Adoptions
from wrapper.catalog import outbox, reads, states
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.rows import all_collections, collection_by_key
from wrapper.checkups import Checkups
from wrapper.engine.client import EngineClient
from wrapper.engine.doctor import Doctor
from wrapper.engine.errors import (
    EngineBrokenError,
    EngineCollectionMissingError,
    EngineRefusedError,
    EngineUnavailableError,
)
from wrapper.engine_collections import DOCUMENTS_PER_CALL, EngineCollections, rebuild_name
from wrapper.rebuilding import Rebuilds

log = structlog.get_logger(__name__)

FAILURES_BEFORE_RESTART = 2
MAINTENANCE_PAUSE_SECONDS = 2.0


class Applier:
    """Used by the one thread that drains the outbox.

    `incarnation` tells one run of the engine from the next, None while it does not answer; `restart_engine` asks for a
    new one; `revive_engine` is called while there is none; `index_bytes` says how large an index is on this machine,
    and `may_store` whether there is disk space to fill with what is adopted.
    """

    def __init__(
        self,
        catalog: Catalog,
        engine: EngineClient,
        *,
        incarnation: Callable[[], object],
        restart_engine: Callable[[], object],
        revive_engine: Callable[[], object] = lambda: None,
        index_bytes: Callable[[str], int | None] = lambda _engine_id: None,
        may_store: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._catalog = catalog
        self._engine = engine
        self._incarnation = incarnation
        self._restart_engine = restart_engine
        self._revive_engine = revive_engine
        self._clock = clock
        self._collections = EngineCollections(catalog, engine)
        self._rebuilds = Rebuilds(catalog, engine, self._collections, clock=clock)
        self._adoptions = Adoptions(catalog, engine, may_store=may_store, clock=clock)
        doctor = Doctor(catalog, engine, index_bytes)
        self._checkups = Checkups(catalog, engine, doctor, self._rebuilds, clock=clock)
        self._failures: dict[int, int] = {}
        # Entries up to these may have been applied before: their documents may be in the engine already.
        self._found_up_to = 0
        self._tried_up_to: dict[int, int] = {}
        self._trusted_incarnation: object = None
        self._rests_until = float("-inf")

    def take_over(self) -> None:
        """This process leads from now on: go on with the rebuilds that another one had begun."""
        with self._catalog.read() as transaction:
            unfinished = [each.key for each in all_collections(transaction) if each.index_state == states.REBUILDING]
            self._found_up_to = outbox.newest(transaction)
        self._rebuilds.forget_all()
        self._rebuilds.go_on(unfinished)
        self._adoptions.go_on()
        self._tried_up_to.clear()
        self._trust_nothing()

    def engine_is_ready(self) -> bool:
        """Whether there is an engine to apply entries to."""
        return self._incarnation() is not None

    def busy_collections(self) -> list[int]:
        """Collections under rebuild: their entries wait."""
        return self._rebuilds.keys

    def has_work(self) -> bool:
        return bool(self._rebuilds.keys) or self._checkups.has_work() or self._adoptions.has_work()

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
                case outbox.CHECK:
                    self._checkups.ask_for(first.collection_key)
                    return
                case outbox.REBUILD:
                    self._rebuilds.begin(first.collection_key, "it was asked for")
                    return
                case _:
                    self._write(first.collection_key, entries)
        except EngineCollectionMissingError:
            self._rebuilds.begin(first.collection_key, "its engine collection is missing")
            raise
        except (EngineBrokenError, EngineUnavailableError) as error:
            if not self._rebuilds.blame(first.collection_key, incarnation, error):
                self._note_failure(first.collection_key, error)
            raise
        self._failures.pop(first.collection_key, None)
        self._rebuilds.answered(first.collection_key)

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
        if self._clock() < self._rests_until:
            return
        try:
            if self._rebuilds.keys:
                self._rebuild()
            else:
                self._checkups.step(incarnation)
            self._adopt()
        except UnavailableError as error:
            log.warning("engine did not answer, maintenance goes on later", reason=error.message)
            self._rests_until = self._clock() + MAINTENANCE_PAUSE_SECONDS

    def _trust_nothing(self) -> None:
        self._checkups.trust_nothing()
        self._adoptions.look()
        self._trusted_incarnation = None
        self._rests_until = float("-inf")

    def _create(self, entry: outbox.Entry) -> None:
        with self._catalog.read() as transaction:
            collection = collection_by_key(transaction, entry.collection_key)
        if collection is None or (entry.kind == outbox.CREATE and collection.engine_id is not None):
            return
        if entry.kind == outbox.EMPTY:
            self._collections.remove(collection.name, collection.engine_id)
        self._collections.put_to_use(collection, self._collections.make(collection, collection.name))

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
        self._rebuilds.discard(entry.collection_key, engine_id)
        # A crash may have come between a rebuild's taking the name and the catalogue's knowing of it.
        self._collections.remove(name, engine_id, rebuild=rebuild_name(entry.collection_key, engine_id))

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
            self._collections.store(collection.engine_id, block, stale, all_new=all_new)

    def _note_failure(self, collection_key: int, error: UnavailableError) -> None:
        failures = self._failures.get(collection_key, 0) + 1
        self._failures[collection_key] = failures
        if failures < FAILURES_BEFORE_RESTART or self._incarnation() is None:
            return
        if isinstance(error, EngineBrokenError) and failures > FAILURES_BEFORE_RESTART:
            self._rebuilds.begin(collection_key, error.message)
            self._failures.pop(collection_key, None)
        else:
            self._restart_engine()

    def _rebuild(self) -> None:
        rebuilt = self._rebuilds.step()
        if rebuilt is not None:
            self._tried_up_to[rebuilt.collection_key] = rebuilt.newest_entry
            self._checkups.ask_for(rebuilt.collection_key)

    def _adopt(self) -> None:
        adopted = self._adoptions.step()
        if adopted is None:
            return
        if adopted.fault is None:
            self._checkups.ask_for(adopted.collection_key)
        else:
            self._rebuilds.begin(adopted.collection_key, adopted.fault)


def _blocks(documents: list[Document], size: int) -> Iterable[list[Document]]:
    return (documents[start : start + size] for start in range(0, len(documents), size))
