"""Rebuilds of indexes from the catalogue, each into a new engine collection that takes over the name when complete.

Queries scan the catalogue meanwhile, and writes wait in the outbox. Rebuilds take turns, and one that fails rests,
longer each time. When the engine breaks on what it is sent, the documents are sifted: those that it cannot take are set
aside, and the others make the index.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import islice

import structlog

from schemas.errors import RagError, UnavailableError
from schemas.records import Collection, Document
from schemas.storage.engine_records import VECTORS
from wrapper.catalog import reads
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.contract import Transaction
from wrapper.catalog.index_state import outbox, reports, set_aside, states
from wrapper.catalog.rows import collection_by_key
from wrapper.engine.client import EngineClient
from wrapper.engine.failures import EngineBrokenError, EngineCollectionMissingError, EngineUnavailableError
from wrapper.indexing.breaking_documents import Part, Sifter
from wrapper.indexing.engine_collections import DOCUMENTS_PER_CALL, EngineCollections, rebuild_name
from wrapper.indexing.retry_pauses import Rests

log = structlog.get_logger(__name__)

RUNS_BEFORE_REBUILD = 3
TELL_EVERY_SECONDS = 1.0
AT_ONCE = 4
"""The rebuilds that take turns; further ones wait for one of them to end or to rest."""
FIRST_REST_SECONDS, LONGEST_REST_SECONDS = 2.0, 600.0
FAILURES_BEFORE_SIFTING = 2
SOON_SECONDS = 60.0
"""The time after a rebuild in which the need for another one shows that it has not helped: the new one rests first."""


@dataclass(slots=True)
class _Made:
    """The engine collection that a rebuild fills, and how far it has come."""

    name: str
    engine_id: str
    remaining: list[int]
    """The positions of the documents still to be written, in random order: clusters inserted one after the other make
    an index that misses near documents (`docs/engine.md`)."""
    began_at_entry: int
    tell_at: float = float("-inf")


@dataclass(slots=True)
class _Rebuild:
    """The state of one rebuild.

    `made` is None before the rebuild begins and after it failed: it begins again with a new engine collection.
    """

    made: _Made | None = None
    failures: int = 0
    sifts: bool = False
    parts: list[Part] = field(default_factory=list)
    """The parts of the block that is sifted, the next part at the end."""
    refused: dict[int, tuple[str, int]] = field(default_factory=dict)
    """By position, why the engine does not take the document, and the newest outbox entry that the tried version
    includes."""


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A finished rebuild. The new index may already have what outbox entries up to `newest_entry` wrote."""

    collection_key: int
    newest_entry: int


@dataclass(frozen=True, slots=True)
class FailedStep:
    """A rebuild that could not go on: it begins again after a rest."""

    collection_key: int
    error: RagError


class Rebuilds:
    """The rebuilds under way, for the one thread that writes to the engine. `clean` asks that the engine's files lose
    what is deleted in them."""

    def __init__(
        self,
        catalog: Catalog,
        engine: EngineClient,
        collections: EngineCollections,
        *,
        clock: Callable[[], float],
        now: Callable[[], float],
        engine_release: Callable[[], str],
        clean: Callable[[], object],
    ) -> None:
        self._clock = clock
        self._now = now
        self._engine_release = engine_release
        self._clean = clean
        self._catalog = catalog
        self._engine = engine
        self._collections = collections
        self._sifter = Sifter(engine, collections)
        self._rebuilds: dict[int, _Rebuild] = {}
        self._turn = 0
        self._rests = Rests[int](FIRST_REST_SECONDS, LONGEST_REST_SECONDS, clock)
        self._ended_at: dict[int, float] = {}
        self._unanswered_by: dict[int, set[object]] = {}

    @property
    def keys(self) -> list[int]:
        """The keys of the collections under rebuild."""
        return list(self._rebuilds)

    def has_work(self) -> bool:
        """Return whether any rebuild can go on now."""
        return any(map(self._rests.is_over, self._rebuilds))

    def begin(self, collection_key: int, reason: str, *, asked: bool = False, records: str | None = None) -> None:
        """Begin the rebuild of an index. `asked` says that somebody wants it now, whatever became of the one before.
        `records` is what its records are to have from now on, None for no change."""
        log.warning("rebuilding an index from the catalogue", collection_key=collection_key, reason=reason)
        new_records = self._collections.new_records()

        def record(transaction: Transaction) -> None:
            states.set_index_state(transaction, collection_key, states.REBUILDING)
            # One that never had an index gets one kind of records, whatever is decided for others meanwhile.
            states.set_engine_records(transaction, collection_key, records, otherwise=new_records)
            reports.write(
                transaction,
                collection_key,
                rebuild_reason=reason,
                documents_rebuilt=0,
            )
            reports.forget_recall(transaction, collection_key)

        self._catalog.commit(record)
        if asked:
            self._rests.forget(collection_key)
        elif self._clock() - self._ended_at.get(collection_key, float("-inf")) < SOON_SECONDS:
            self._rests.begin(collection_key)
        self.go_on([collection_key])

    def blame(self, collection_key: int, incarnation: object, error: RagError) -> bool:
        """Count a run of the engine that gave no answer on an index, and return whether a rebuild has begun.

        A damaged index can end the engine that opens it. It is rebuilt when `RUNS_BEFORE_REBUILD` runs of the engine
        gave no answer on it.
        """
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
        """Note that an index answered: it is not what ended the engine."""
        self._unanswered_by.pop(collection_key, None)

    def runs_unanswered(self, collection_key: int) -> int:
        return len(self._unanswered_by.get(collection_key, ()))

    def go_on(self, collection_keys: Iterable[int]) -> None:
        """Continue the rebuilds that the catalogue records as unfinished."""
        for key in collection_keys:
            self._rebuilds.setdefault(key, _Rebuild())

    def forget_all(self) -> None:
        """Forget all rebuilds, because another process may have done some of them meanwhile."""
        self._rebuilds.clear()
        self._rests.clear()

    def discard(self, collection_key: int, engine_id: str | None) -> None:
        """Forget the rebuild of a collection that is gone, and delete what it has made."""
        self._forget(collection_key)
        self._ended_at.pop(collection_key, None)
        self._collections.discard(rebuild_name(collection_key, engine_id))

    def step(self) -> Rebuilt | FailedStep | None:
        """Take a small step of one rebuild, the next time of another.

        Return what the step came to when it was the last.
        """
        under_way = list(islice(filter(self._rests.is_over, self._rebuilds), AT_ONCE))
        if not under_way:
            return None
        self._turn += 1
        key = under_way[self._turn % len(under_way)]
        rebuild = self._rebuilds[key]
        try:
            rebuilt = self._advance(key, rebuild)
        except RagError as error:
            if isinstance(error, EngineCollectionMissingError):
                rebuild.made = None
            return FailedStep(key, error)
        if rebuilt is not None:
            self._forget(key)
            self._ended_at[key] = self._clock()
        return rebuilt

    def blame_step(self, failed: FailedStep) -> float:
        """Let a rebuild rest that failed by itself and not with the whole engine. Return the seconds."""
        rebuild = self._rebuilds.get(failed.collection_key)
        if rebuild is not None:
            rebuild.failures += 1
            is_broken = isinstance(failed.error, EngineBrokenError)
            rebuild.sifts |= is_broken or rebuild.failures >= FAILURES_BEFORE_SIFTING
        return self._rests.begin(failed.collection_key)

    def _forget(self, key: int) -> None:
        self._rebuilds.pop(key, None)
        self._rests.forget(key)

    def _advance(self, key: int, rebuild: _Rebuild) -> Rebuilt | None:
        made = rebuild.made
        with self._catalog.read() as transaction:
            collection = collection_by_key(transaction, key)
            if collection is None:
                # The collection's outbox entry removes what there is of it.
                self._forget(key)
                return None
            newest = outbox.newest(transaction)
            if made is None:
                places = reads.all_positions(transaction, collection).tolist()
            else:
                block = self._next_block(rebuild, made)
                found = reads.by_positions(transaction, block, with_embeddings=True)
                documents = list(found.values())
        if made is None:
            random.Random(key).shuffle(places)
            name = rebuild_name(collection.key, collection.engine_id)
            self._collections.discard(name)
            rebuild.made = _Made(name, self._collections.make(collection, name), places, newest)
            rebuild.parts, rebuild.refused = [], {}
        elif block:
            self._store(collection, rebuild, made, documents, newest)
            self._tell(collection, made)
        else:
            self._take_name(collection, rebuild, made)
            log.info("index rebuilt", collection=collection.name, documents=collection.count)
            return Rebuilt(key, newest)
        return None

    def _next_block(self, rebuild: _Rebuild, made: _Made) -> list[int]:
        block = made.remaining[-DOCUMENTS_PER_CALL:]
        if not rebuild.sifts:
            return block
        if not rebuild.parts and block:
            rebuild.parts = [Part(block)]
            del made.remaining[-len(block) :]
        return rebuild.parts[-1].positions if rebuild.parts else []

    def _store(
        self, collection: Collection, rebuild: _Rebuild, made: _Made, documents: list[Document], newest: int
    ) -> None:
        """Store the next block, set aside the one document that breaks the engine, or split the block into halves."""
        if documents and rebuild.sifts:
            fault = self._sifter.fault(collection, rebuild.parts[-1], documents)
            if fault is not None and len(documents) > 1:
                rebuild.parts += rebuild.parts.pop().halves()
                return
            if fault is not None:
                log.error("the engine breaks on a document", collection=collection.name, id=documents[0].id)
                rebuild.refused[documents[0].position] = (f"The engine breaks on it: {fault}", newest)
                documents = []
        if documents:
            try:
                into = replace(collection, engine_id=made.engine_id)
                refused = self._collections.store(into, documents, {}, all_new=True)
            except UnavailableError:
                # It is uncertain what the engine has got by now: begin again with a new engine collection.
                rebuild.made = None
                raise
            rebuild.refused |= {position: (reason, newest) for position, reason in refused.items()}
        if rebuild.sifts:
            rebuild.parts.pop()
        else:
            del made.remaining[-DOCUMENTS_PER_CALL:]

    def _tell(self, collection: Collection, made: _Made) -> None:
        if self._clock() < made.tell_at:
            return
        made.tell_at = self._clock() + TELL_EVERY_SECONDS
        done = max(0, collection.count - len(made.remaining))
        self._catalog.commit_quickly(
            lambda transaction: reports.write(transaction, collection.key, documents_rebuilt=done)
        )

    def _take_name(self, collection: Collection, rebuild: _Rebuild, made: _Made) -> None:
        release = self._engine_release() if rebuild.refused else ""
        old = self._engine.get_collection(collection.engine_name)
        if old is not None and old.id != made.engine_id:
            if old.id == collection.engine_id:
                self._engine.delete_collection(collection.engine_name)
            else:
                self._collections.make_room(collection.engine_name, rebuild=made.name)
        self._engine.rename_collection(made.engine_id, collection.engine_name)

        def record(transaction: Transaction) -> None:
            reports.rebuild_ended(transaction, collection.key)
            set_aside.replace_all(transaction, collection.key, up_to_entry=made.began_at_entry)
            for position, (reason, entry) in rebuild.refused.items():
                set_aside.put(
                    transaction,
                    collection.key,
                    {position: reason},
                    up_to_entry=entry,
                    engine=release,
                    now_seconds=self._now(),
                )
            if collection.engine_records == VECTORS:
                # Of the texts that the index before may have had. Asked for before the commit, after which nobody
                # would know that it is owed.
                self._clean()

        self._collections.put_to_use(collection, made.engine_id, record)
