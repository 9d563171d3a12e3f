"""Adoption of collections that the engine has and the catalogue lacks, so that they can be served.

It runs in small steps, in the one thread that writes to the engine. A pass reads all ids of a collection and adopts the
documents that the catalogue lacks; a pass that finds none ends the adoption. So it may be interrupted at any moment,
and a collection to which another client writes meanwhile is read again. The engine is only read, except that a list in
a document gets our mark.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import structlog

from schemas.errors import RagError
from schemas.records import Collection, DocumentBatch, Extras, Metadata
from wrapper.catalog import writes
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.contract import Transaction
from wrapper.catalog.index_state import adoptions, states
from wrapper.catalog.names import collection_writes
from wrapper.catalog.preparing import prepare_documents
from wrapper.catalog.rows import collection_by_key, collections_in, dump_json
from wrapper.catalog.sortable_values import flatten
from wrapper.engine.client import EngineClient
from wrapper.engine.failures import EngineBrokenError, EngineCollectionMissingError
from wrapper.engine.metric import find_metric
from wrapper.engine.records import EngineCollection, EngineRecords
from wrapper.indexing.engine_collections import is_in_transit, spared_name
from wrapper.indexing.retry_pauses import Rests

log = structlog.get_logger(__name__)

LOOK_EVERY_SECONDS = 60.0
IDS_PER_PAGE = 1_000
DOCUMENTS_AT_FIRST, MOST_DOCUMENTS = 50, 500
BLOCK_BYTES = 8 * 1024 * 1024
"""The approximate size of the texts and vectors that are in memory at a time."""
PROGRESS_EVERY_DOCUMENTS = 10_000
FIRST_REST_SECONDS, LONGEST_REST_SECONDS = 2.0, 600.0


@dataclass(slots=True)
class _Run:
    """One collection under adoption. `seen`, `taken` and `left_out` belong to the present pass."""

    key: int
    name: str
    engine_id: str
    began_at: float
    of: int = 0
    seen: int = 0
    taken: int = 0
    taken_in_all: int = 0
    waiting: deque[str] = field(default_factory=deque)
    left_out: set[str] = field(default_factory=set)
    block: int = DOCUMENTS_AT_FIRST


@dataclass(frozen=True, slots=True)
class Adopted:
    """An adoption that is over. When the index needs a rebuild, `fault` says why."""

    collection_key: int
    fault: str | None = None


class Adoptions:
    """The adoptions under way.

    `may_store` says whether there is disk space to fill. With `looks` it searches for further collections, without it
    only continues those that were begun.
    """

    def __init__(
        self,
        catalog: Catalog,
        engine: EngineClient,
        *,
        may_store: Callable[[], bool],
        looks: bool = True,
        clock: Callable[[], float],
    ) -> None:
        self._catalog = catalog
        self._engine = engine
        self._may_store = may_store
        self._looks = looks
        self._clock = clock
        self._look_again_at = float("-inf")
        self._strangers: deque[EngineCollection] = deque()
        self._runs: dict[int, _Run] = {}
        # The keys are the engine's ids of the collections.
        self._rests = Rests[str](FIRST_REST_SECONDS, LONGEST_REST_SECONDS, clock)

    def look(self) -> None:
        """Search the engine for new collections at the next step instead of at the end of the interval."""
        self._look_again_at = float("-inf")

    def go_on(self) -> None:
        """Continue the adoptions that another process, or an earlier life of this one, has begun."""
        with self._catalog.read() as transaction:
            begun = collections_in(transaction, states.ADOPTING)
        self._strangers.clear()
        self._runs = {
            each.key: _Run(each.key, each.name, each.engine_id, self._clock(), taken_in_all=each.count)
            for each in begun
            if each.engine_id is not None
        }

    def has_work(self) -> bool:
        return bool(self._strangers or self._next())

    def step(self) -> Adopted | None:
        """Take a small step. Return the result when it was the last step of an adoption.

        A collection that cannot be read rests, and the others go on. Raises UnavailableError when the engine does not
        list its collections.
        """
        if self._looks and self._clock() >= self._look_again_at:
            self._strangers = deque(self._unknown())
            self._look_again_at = self._clock() + LOOK_EVERY_SECONDS
        elif self._strangers:
            stranger = self._strangers.popleft()
            try:
                self._begin(stranger)
            except RagError as error:
                self._rest(stranger.id, stranger.name, error.message, **error.details)
        elif run := self._next():
            try:
                return self._advance(run)
            except RagError as error:
                self._rest(run.engine_id, run.name, error.message, **error.details)
        return None

    def _next(self) -> _Run | None:
        return next((run for run in self._runs.values() if self._rests.is_over(run.engine_id)), None)

    def _unknown(self) -> list[EngineCollection]:
        found = self._engine.list_collections()
        with self._catalog.read() as transaction:
            known = transaction.rows("SELECT name, engine_name, engine_id FROM collections")
            aliases = {alias for (alias,) in transaction.rows("SELECT alias FROM aliases")}
        names = aliases.union(*(each[:2] for each in known))
        engine_ids = {each[2] for each in known}
        return [
            each
            for each in found
            if each.name not in names
            and each.id not in engine_ids
            and not is_in_transit(each.name)
            and self._rests.is_over(each.id)
        ]

    def _begin(self, stranger: EngineCollection) -> None:
        """Begin the adoption of a collection.

        Nothing else is done to the engine between reading the collection and the commit, so the catalogue still tells
        that the collection is not ours.
        """
        now = self._engine.get_collection(stranger.name)
        if now is None or now.id != stranger.id:
            return
        metric = find_metric(self._engine, now)
        total = self._engine.count(now.id)
        key = self._catalog.commit(
            lambda transaction: adoptions.begin(
                transaction, now.name, now.metadata, metric, engine_id=now.id, documents=total
            )
        )
        if key is None:
            return
        self._runs[key] = _Run(key, now.name, now.id, self._clock(), of=total)
        log.info("adopting a collection of the engine", collection=now.name, documents=total, metric=metric)

    def _advance(self, run: _Run) -> Adopted | None:
        try:
            if run.waiting:
                self._take_in(run)
                return None
            return self._read_ids(run)
        except EngineCollectionMissingError:
            del self._runs[run.key]
            log.warning("a collection vanished from the engine while it was adopted", collection=run.name)
            if run.taken_in_all:
                return Adopted(run.key, "its engine collection is missing")
            self._catalog.commit(lambda transaction: _forget(transaction, run.key))
            return None

    def _read_ids(self, run: _Run) -> Adopted | None:
        if run.seen == 0:
            total = run.of = self._engine.count(run.engine_id)
            self._catalog.commit_quickly(lambda transaction: adoptions.set_total(transaction, run.key, total))
        page = self._engine.get(run.engine_id, limit=IDS_PER_PAGE, offset=run.seen, include=()).ids
        if not page:
            return self._end_pass(run)
        run.seen += len(page)
        with self._catalog.read() as transaction:
            known = adoptions.known_ids(transaction, run.key, page)
        run.waiting.extend(each for each in page if each not in known and each not in run.left_out)
        return None

    def _take_in(self, run: _Run) -> None:
        if not self._may_store():
            self._rest(run.engine_id, run.name, "free disk space is below the floor")
            return
        with self._catalog.read() as transaction:
            collection = collection_by_key(transaction, run.key)
            index = transaction.dialect.text_index
        if collection is None:
            del self._runs[run.key]
            return
        block = [run.waiting[place] for place in range(min(run.block, len(run.waiting)))]
        try:
            records = self._engine.get(
                run.engine_id, ids=block, include=("documents", "metadatas", "embeddings", "uris")
            )
        except EngineBrokenError:
            # One record without a vector fails all that are requested with it.
            if len(block) > 1:
                run.block = len(block) // 2
                return
            if run.taken_in_all == 0:
                raise
            self._engine.get(run.engine_id, ids=block, include=("documents", "metadatas"))
            self._leave_out(run, block[0], "its vector cannot be read")
            run.waiting.popleft()
            return
        batch = self._storable(run, collection, records)
        if len(batch):
            with_lists = [
                each for each, metadata in zip(batch.ids, batch.metadatas, strict=True) if _has_list(metadata)
            ]
            if with_lists:
                self._engine.mark_lists(run.engine_id, with_lists)
            prepared = prepare_documents(index, collection, batch, range(len(batch)), self._catalog.give_way)
            if not self._catalog.commit(lambda transaction: writes.take_in(transaction, run.key, prepared)):
                del self._runs[run.key]
                return
        for _ in block:
            run.waiting.popleft()
        self._note_progress(run, batch)

    def _storable(self, run: _Run, collection: Collection, records: EngineRecords) -> DocumentBatch:
        """Return the records that the catalogue can hold."""
        assert records.texts is not None
        assert records.metadatas is not None
        assert records.embeddings is not None
        dimension = records.embeddings.shape[1]
        fits = dimension > 0 and collection.dimension in (None, dimension)
        rows: list[int] = []
        metadatas: list[Metadata] = []
        extras: list[Extras] = []
        for row, document_id in enumerate(records.ids):
            metadata = records.metadatas[row]
            if not fits or not np.isfinite(records.embeddings[row]).all():
                self._leave_out(run, document_id, "it has no vector of finite numbers and of the right dimension")
            elif (fault := _fault(metadata)) is not None:
                self._leave_out(run, document_id, fault)
            else:
                rows.append(row)
                metadatas.append(metadata)
                extras.append(Extras(records.uris[row] if records.uris else None, records.texts[row] is None))
        return DocumentBatch(
            ids=[records.ids[row] for row in rows],
            texts=[records.texts[row] or "" for row in rows],
            metadatas=metadatas,
            embeddings=records.embeddings[rows],
            extras=dict(enumerate(extras)),
        )

    def _leave_out(self, run: _Run, document_id: str, reason: str) -> None:
        run.left_out.add(document_id)
        log.error("a document cannot be adopted", collection=run.name, id=document_id, reason=reason)

    def _note_progress(self, run: _Run, batch: DocumentBatch) -> None:
        size = sum(map(len, batch.texts)) + batch.embeddings.nbytes
        fitting = BLOCK_BYTES * len(batch) // max(1, size)
        run.block = max(1, min(MOST_DOCUMENTS, 2 * run.block, fitting or 1))
        self._rests.forget(run.engine_id)
        before = run.taken_in_all
        run.taken += len(batch)
        run.taken_in_all += len(batch)
        if run.taken_in_all // PROGRESS_EVERY_DOCUMENTS > before // PROGRESS_EVERY_DOCUMENTS:
            log.info("adopting", collection=run.name, documents=run.taken_in_all, of=run.of)

    def _end_pass(self, run: _Run) -> Adopted | None:
        seen, taken, run.seen, run.taken = run.seen, run.taken, 0, 0
        if seen != run.of or self._engine.count(run.engine_id) != seen:
            self._rest(run.engine_id, run.name, "another client writes to it")
            return None
        if taken:
            return None
        if run.left_out:
            # The engine has more than the catalogue can hold: a rebuild must not destroy the rest.
            self._engine.rename_collection(run.engine_id, spared_name(run.name, run.engine_id))
        self._catalog.commit(lambda transaction: adoptions.complete(transaction, run.key, left_out=len(run.left_out)))
        del self._runs[run.key]
        log.info(
            "collection adopted",
            collection=run.name,
            documents=run.taken_in_all,
            left_out=len(run.left_out),
            seconds=round(self._clock() - run.began_at, 1),
        )
        if run.left_out:
            kept_as = spared_name(run.name, run.engine_id)
            log.warning("the engine keeps the collection as it was", collection=run.name, renamed_to=kept_as)
            return Adopted(run.key, f"{len(run.left_out)} documents of the engine's collection were left out")
        return Adopted(run.key)

    def _rest(self, engine_id: str, name: str, reason: str, **details: object) -> None:
        pause = self._rests.begin(engine_id)
        log.warning("adoption goes on later", collection=name, reason=reason, details=details, pause_seconds=pause)


def _forget(transaction: Transaction, collection_key: int) -> None:
    collection = collection_by_key(transaction, collection_key)
    if collection is not None:
        collection_writes.delete_collection(transaction, collection.name)


def _fault(metadata: Metadata) -> str | None:
    """Return why the catalogue cannot hold this metadata, None when it can."""
    try:
        dump_json(metadata)
        flatten(metadata)
    except (TypeError, ValueError, OverflowError) as error:
        return f"its metadata cannot be stored: {error}"
    return None


def _has_list(metadata: Metadata) -> bool:
    return any(isinstance(value, list) for value in metadata.values())
