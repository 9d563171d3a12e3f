"""Does what all writes have in common, from checking the disk to deciding when the caller may be answered.

A write commits to the catalogue first. Its caller is answered when the index has it too or, after a time limit, with
a note that the index does not have it yet; a caller who does not want to wait, at once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from schemas.errors import BusyError, CollectionNotFoundError, PreconditionFailedError
from schemas.observing import spans
from schemas.records import Collection
from schemas.storage.erasure_count import check_write, erasures
from schemas.storage.outcomes import EarlierAnswer, WriteOutcome
from schemas.storage.reembedding import EmbeddingModelDiffersError, ReembeddedMeanwhileError, recorded_model
from schemas.storage.write_waits import INDEX
from wrapper.catalog import idempotency
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.changes.held_matches import OutdatedPlanError
from wrapper.catalog.contract import Transaction
from wrapper.catalog.idempotency import Kept
from wrapper.catalog.index_state import outbox, set_aside
from wrapper.catalog.preparing import DocumentWrite
from wrapper.catalog.rows import find_collection, named
from wrapper.catalog.stored_bytes import Quota, within_quota
from wrapper.free_disk import check_floor
from wrapper.indexing.indexer import Indexer

MAX_LAG, MAX_LAG_DOCUMENTS = 10_000, 100_000
"""How many writes to a collection, or documents in them, wait for the index when further ones are turned away, except
those that delete: the index catches up with that many in minutes, and what each write counts stays little."""

MOST_PLANS = 5
"""How often a write is planned at most without keeping others waiting: each time less has changed since the last."""

T = TypeVar("T")
Outcome = TypeVar("Outcome", bound=WriteOutcome)


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The conditions of a write: those that its request sets, and the quota of its caller. `digest` tells a request
    from any other. `collection_id` is that of the collection that the name must still mean, `collection_key` the key
    that it must still have, because a re-embedding gives it another. `embedding_model` made the vectors, None where
    nobody says what did. `wait` is one of `WAITS`, None where the request leaves it to the service."""

    idempotency_key: str | None = None
    digest: str = ""
    if_match: frozenset[str] | None = None
    quota: Quota | None = None
    collection_id: str | None = None
    collection_key: int | None = None
    embedding_model: str | None = None
    wait: str | None = None

    def pinned(self, collection_id: str | None, collection_key: int | None = None) -> WriteOptions:
        """Return the same for a write to the collection of this id alone, as long as it has this key; None leaves
        either as it is."""
        return replace(
            self,
            collection_id=self.collection_id if collection_id is None else collection_id,
            collection_key=self.collection_key if collection_key is None else collection_key,
        )


AS_IT_COMES = WriteOptions()


@dataclass(frozen=True, slots=True)
class Written(Generic[T]):
    """The outcome of a write, and whether the index has it already.

    `version` is the state in which it left its collection. `set_aside` are the ids of documents that the engine cannot
    take. `replayed` means that the write was done by an earlier request with the same `Idempotency-Key`. `awaited` is
    False when the answer did not wait for the index, because its caller does not want that.
    """

    outcome: T | EarlierAnswer
    version: str | None = None
    indexed: bool = True
    set_aside: list[str] = field(default_factory=list)
    replayed: bool = False
    awaited: bool = True


class Writing:
    """The writes of one process, at most `waiting_writers` of which wait for the index at a time. `write_wait` is what
    those wait for whose options do not say."""

    def __init__(
        self,
        catalog: Catalog,
        indexer: Indexer,
        *,
        free_disk_mb: Callable[[], float],
        disk_floor_mb: int,
        write_wait_seconds: float,
        waiting_writers: int,
        write_wait: str = INDEX,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._catalog = catalog
        self._indexer = indexer
        self._free_disk_mb = free_disk_mb
        self._disk_floor_mb = disk_floor_mb
        self._write_wait_seconds = write_wait_seconds
        self._write_wait = write_wait
        self._slots = threading.BoundedSemaphore(waiting_writers)
        self._clock = clock

    def write(
        self,
        kind: type[Outcome],
        name: str,
        operation: Callable[[Transaction], Outcome],
        options: WriteOptions,
        *,
        creates: bool = False,
        deletes: bool = False,
        documents: DocumentWrite | None = None,
        name_after: str | None = None,
    ) -> Written[Outcome]:
        """Do a write to the collection `name` once, and wait for the index. `documents` are what the operation stores,
        prepared before it begins, and `name_after` is the name after the write, when that is another.

        A repeat of its idempotency key gets the first outcome. `creates` and `deletes` as in `commit`, whose errors it
        raises, too; ConflictError when the key came with another request.
        """
        self.check_disk()
        key = options.idempotency_key
        if documents is not None:
            known = None if key is None else self.first(kind, name, key, options.digest, options)
            if known is not None:
                return known

        def run(transaction: Transaction) -> tuple[Kept[Outcome], bool]:
            first = None if key is None else idempotency.find(transaction, key, options.digest, kind)
            if first is not None:
                return first, True
            _check_collection(transaction, name, options, documents, creates=creates, deletes=deletes)
            outcome = within_quota(transaction, name, options.quota, operation)
            collection = named(transaction, name_after or name)
            kept = Kept(outcome, outcome.outbox_id, None if collection is None else collection.version)
            if key is not None:
                collection_key = None if collection is None else collection.key
                idempotency.keep(transaction, key, options.digest, kept, self._clock(), collection_key)
            return kept, False

        kept, replayed = self._planned(run, documents, name, options, deletes=deletes)
        return self._settled(name, kept, options, replayed=replayed)

    def commit(
        self,
        name: str,
        operation: Callable[[Transaction], T],
        options: WriteOptions,
        *,
        creates: bool = False,
        deletes: bool = False,
        documents: DocumentWrite | None = None,
    ) -> T:
        """Do a write, whatever its idempotency key, and return without waiting for the index.

        A write that `creates` the collection has none to check; one that only `deletes` is taken however many wait.
        `documents` as in `write`.
        Raises DiskFloorError when the disk is too full, BusyError when too many writes wait for the index,
        PreconditionFailedError when the collection is in another state than `If-Match` says, ReembeddedMeanwhileError
        when it has another key than the options say, EmbeddingModelDiffersError when it records another model, and
        QuotaError when the caller's collections would hold more than they may.
        """
        self.check_disk()

        def run(transaction: Transaction) -> T:
            _check_collection(transaction, name, options, documents, creates=creates, deletes=deletes)
            return within_quota(transaction, name, options.quota, operation)

        return self._planned(run, documents, name, options, deletes=deletes)

    def once(
        self,
        kind: Callable[..., T],
        options: WriteOptions,
        work: Callable[[], T],
        collection: str | None = None,
        *,
        is_final: Callable[[T], bool] = lambda outcome: True,
    ) -> Written[T]:
        """Return the outcome of `work`, or the one that the first request with this key had, which `kind` makes of its
        fields.

        `work` writes to the collection by itself, in transactions of its own, and may leave it missing when it stores
        nothing. An outcome that is not final is not kept, so that a repeat tries again; neither is one whose collection
        is gone that was there before. Of one during which something was erased, a repeat does not name the documents.
        """
        key = options.idempotency_key
        if key is None:
            return Written(work())
        with self._catalog.read() as transaction:
            first = idempotency.find(transaction, key, options.digest, kind)
            before = None if collection is None else named(transaction, collection)
            since = erasures(transaction)
        if first is None:
            outcome = work()
            after = None
            if collection is not None:
                with self._catalog.read() as transaction:
                    after = named(transaction, collection)
            if not is_final(outcome) or (before is not None and after is None):
                return Written(outcome)
            first = self.keep(kind, key, options.digest, outcome, None if after is None else after.key, since=since)
            if first is None:
                return Written(outcome)
        return Written(first.outcome, first.version, replayed=True)

    def is_known(self, key: str) -> bool:
        """Return whether a write with this `Idempotency-Key` was done."""
        with self._catalog.read() as transaction:
            return idempotency.exists(transaction, key)

    def erasures(self) -> int:
        """Return the count of erasures, for `keep`."""
        with self._catalog.read() as transaction:
            return erasures(transaction)

    def first(
        self, kind: type[Outcome], name: str, key: str, digest: str, options: WriteOptions
    ) -> Written[Outcome] | None:
        """Return the outcome of the first request with this key, None when there was none.

        Raises ConflictError when the key came with another request.
        """
        with self._catalog.read() as transaction:
            kept = idempotency.find(transaction, key, digest, kind)
        return None if kept is None else self._settled(name, kept, options, replayed=True)

    def keep(
        self,
        kind: Callable[..., T],
        key: str,
        digest: str,
        outcome: T,
        collection_key: int | None,
        *,
        since: int,
        outbox_id: int | None = None,
    ) -> Kept[T] | None:
        """Keep the outcome of a write of several transactions as long as the collection lives. `since` is the count of
        erasures before the write: after another one it names no documents.

        When a repeat of the request was first, return its outcome instead. Raises ConflictError when another request
        with this key did.
        """

        def operation(transaction: Transaction) -> Kept[T] | None:
            first = idempotency.find(transaction, key, digest, kind)
            if first is None:
                kept = Kept(outcome, outbox_id)
                names_documents = erasures(transaction) == since
                idempotency.keep(
                    transaction, key, digest, kept, self._clock(), collection_key, names_documents=names_documents
                )
            return first

        return self._catalog.commit(operation)

    def awaits_index(self, options: WriteOptions) -> bool:
        """Return whether the answer to a write with these options waits for the index."""
        return (options.wait or self._write_wait) == INDEX

    @spans.spanned("wait for index")
    def wait_until_indexed(self, outbox_id: int | None) -> bool:
        """Return True when the index has that write, at once or within the time limit.

        At most `waiting_writers` requests wait, so that readers always find a thread; one more is told "not yet".
        """
        if outbox_id is None:
            return True
        if not self._slots.acquire(blocking=False):
            self._indexer.notify()
            return False
        try:
            return self._indexer.wait(outbox_id, self._write_wait_seconds)
        finally:
            self._slots.release()

    def wait_for_room(self, name: str) -> None:
        """Wait until the index has what is written to the collection now, or for as long as a write waits."""
        with self._catalog.read() as transaction:
            newest = outbox.newest_of(transaction, find_collection(transaction, name).key)
        self.wait_until_indexed(newest)

    def is_indexed(self, outbox_id: int | None, options: WriteOptions) -> bool:
        """Return whether the index has that write, waiting for it only where these options want that."""
        if self.awaits_index(options):
            return self.wait_until_indexed(outbox_id)
        self._indexer.notify()
        return outbox_id is None

    def set_aside_of(self, name: str, ids: Sequence[str]) -> list[str]:
        """Return those of the documents that the engine cannot take; none when the collection is gone."""
        with self._catalog.read() as transaction:
            collection = named(transaction, name)
            return [] if collection is None else set_aside.among(transaction, collection.key, ids)

    def check_disk(self) -> None:
        """Raise DiskFloorError when there is too little free disk space to write."""
        check_floor(self._free_disk_mb(), self._disk_floor_mb)

    def _planned(
        self,
        run: Callable[[Transaction], T],
        documents: DocumentWrite | None,
        name: str,
        options: WriteOptions,
        *,
        deletes: bool,
    ) -> T:
        """Commit a write after it was prepared, again where too much has changed meanwhile."""
        planned = 0
        while True:
            if documents is not None:
                self._prepare(documents, name, options, deletes=deletes)
            planned += 1
            try:
                with spans.span("catalogue commit"):
                    return self._catalog.commit(run)
            except OutdatedPlanError:
                if planned == MOST_PLANS:
                    raise

    def _prepare(self, documents: DocumentWrite, name: str, options: WriteOptions, *, deletes: bool) -> None:
        """Prepare a write. What refuses it in the end does so here, too, before it has cost or delayed anything."""
        with self._catalog.read() as transaction:
            _check_collection(transaction, name, options, documents, deletes=deletes)
            documents.plan(transaction)
        documents.prepare(self._catalog.give_way)

    def _settled(self, name: str, kept: Kept[Outcome], options: WriteOptions, *, replayed: bool) -> Written[Outcome]:
        awaited = self.awaits_index(options)
        if not self.is_indexed(kept.outbox_id, options):
            return Written(kept.outcome, kept.version, False, replayed=replayed, awaited=awaited)
        ids = kept.outcome.ids
        refused = self.set_aside_of(name, ids) if ids else []
        return Written(kept.outcome, kept.version, not refused, refused, replayed, awaited)


def _check_collection(
    transaction: Transaction,
    name: str,
    options: WriteOptions,
    documents: DocumentWrite | None,
    *,
    creates: bool = False,
    deletes: bool = False,
) -> None:
    asked = (options.collection_id, options.collection_key, options.embedding_model, options.if_match)
    if creates or (deletes and asked == (None, None, None, None)):
        return
    collection = find_collection(transaction, name)
    if options.collection_id not in (None, collection.id):
        raise CollectionNotFoundError(name)
    if options.collection_key not in (None, collection.key):
        raise ReembeddedMeanwhileError(name)
    if options.embedding_model is not None:
        _check_model(collection, options.embedding_model)
    if options.if_match is not None:
        _check_precondition(collection, options.if_match)
    if not deletes:
        _check_lag(transaction, collection, name)
        if documents is not None:
            check_write(transaction)


def _check_model(collection: Collection, model: str) -> None:
    recorded = recorded_model(collection.metadata)
    if recorded not in (None, model):
        raise EmbeddingModelDiffersError(collection.name, stored=recorded, given=model)


def _check_lag(transaction: Transaction, collection: Collection, name: str) -> None:
    entries, documents = outbox.sizes(transaction, collection.key)
    if entries >= MAX_LAG or documents >= MAX_LAG_DOCUMENTS:
        raise BusyError(
            f"Too many writes to the collection '{name}' wait for the index",
            collection=name,
            index_lag=entries,
            index_lag_documents=documents,
        )


def _check_precondition(collection: Collection, accepted: frozenset[str]) -> None:
    if not accepted & {"*", collection.version}:
        raise PreconditionFailedError(
            f"Collection '{collection.name}' has changed: its revision is {collection.revision}",
            revision=collection.revision,
        )
