"""The facade of the storage proxy: what the routes call, one method a thing to do.

Writes commit to the catalogue first; the caller is answered when the index has them too, or, after a time limit,
with the word that it has them not yet. Reads never ask the engine, except vector queries.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from schemas.errors import (
    AlreadyThereError,
    BusyError,
    CollectionNotFoundError,
    DiskFloorError,
    DocumentNotFoundError,
    InvalidInputError,
    PreconditionFailedError,
)
from schemas.metadata import check_collection_metadata, merge_patch, reserved_of, without_reserved
from schemas.records import (
    Collection,
    Document,
    DocumentBatch,
    DocumentPatch,
    Facet,
    GatherSpec,
    Group,
    OrderBy,
    Page,
    TextMatch,
    Vector,
    WriteOutcome,
)
from schemas.where import EVERYTHING, Where
from wrapper import answers
from wrapper.catalog import grouping, idempotency, outbox, reads, reports, set_aside, standstills, writes
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.cursors import decode_name_cursor, encode_name_cursor
from wrapper.catalog.filters import count
from wrapper.catalog.rows import all_collections, collections_page, find_collection, named
from wrapper.catalog.transaction import Transaction
from wrapper.engine_collections import is_in_transit
from wrapper.indexer import Indexer
from wrapper.planner import Found, Planner

MOST_GATHERED = 1_000
"""Documents that a filter may bring into a gather."""

EXPORTED_AT_ONCE = 200
"""Documents of an export that are in memory at a time."""

MAX_LAG = 10_000
"""Outbox entries of a collection that may wait before further writes to it are turned away; what deletes is not."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What a request says about how it wants to be written. `digest` tells a request from another."""

    idempotency_key: str | None = None
    digest: str = ""
    if_match: frozenset[str] | None = None


AS_IT_COMES = WriteOptions()


@dataclass(frozen=True, slots=True)
class Written:
    """The answer of a write, and whether the index has it already. It has not what is `set_aside`: ids of documents
    that the engine cannot take. `replayed`: it is the answer of an earlier request with the same `Idempotency-Key`."""

    answer: dict[str, Any]
    indexed: bool = True
    etag: str | None = None
    set_aside: list[str] = field(default_factory=list)
    replayed: bool = False

    def with_outcome(self) -> Written:
        """The same with `indexed` and what was set aside in its answer."""
        return replace(self, answer=answers.with_outcome(self.answer, self.indexed, self.set_aside))


Operation = Callable[[Transaction], tuple[dict[str, Any], WriteOutcome, Collection | None]]


class Store:
    """`waiting_writers` bounds how many requests of this process may wait for the index at a time."""

    def __init__(
        self,
        catalog: Catalog,
        planner: Planner,
        indexer: Indexer,
        *,
        free_disk_mb: Callable[[], float],
        disk_floor_mb: int,
        write_wait_seconds: float,
        waiting_writers: int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._catalog = catalog
        self._planner = planner
        self._indexer = indexer
        self._free_disk_mb = free_disk_mb
        self._disk_floor_mb = disk_floor_mb
        self._write_wait_seconds = write_wait_seconds
        self._slots = threading.BoundedSemaphore(waiting_writers)
        self._clock = clock

    def collections(self) -> list[Collection]:
        """All collections, by name."""
        with self._catalog.read() as transaction:
            return all_collections(transaction)

    def collections_count(self) -> int:
        with self._catalog.read() as transaction:
            return int(transaction.value("SELECT count(*) FROM collections"))

    def collections_page(
        self, *, prefix: str, limit: int | None, cursor: str | None
    ) -> tuple[list[Collection], str | None]:
        """(the collections whose names begin with `prefix`, by name, `limit` of them at most, cursor of the next page).
        Raises InvalidInputError for a cursor that is none, or of another prefix."""
        after = "" if cursor is None else decode_name_cursor(cursor, prefix)
        with self._catalog.read() as transaction:
            found = collections_page(
                transaction, prefix=prefix, after=after, limit=None if limit is None else limit + 1
            )
        if limit is None or len(found) <= limit:
            return found, None
        return found[:limit], encode_name_cursor(found[limit - 1].name, prefix)

    def collection(self, name: str) -> Collection:
        with self._catalog.read() as transaction:
            return find_collection(transaction, name)

    def create_collection(
        self, name: str, metadata: dict[str, Any], metric: str, options: WriteOptions = AS_IT_COMES
    ) -> Written:
        """Raises InvalidInputError for a name that the engine's collections of the service itself have: the mark of the
        engine's owner would make way for it."""
        if is_in_transit(name):
            raise InvalidInputError(
                f"'{name}' is a name that the service uses itself: choose another", code="invalid_name", field="name"
            )

        def operation(transaction: Transaction) -> tuple[dict[str, Any], WriteOutcome, Collection | None]:
            made, outcome = writes.create_collection(transaction, name, metadata, metric)
            return answers.created(made), outcome, made

        return self._write(operation, options)

    def change_collection_metadata(
        self, name: str, metadata: dict[str, Any], options: WriteOptions, *, merge: bool
    ) -> Written:
        """Replace the metadata, or merge a patch into it (null removes)."""

        def change(before: dict[str, Any]) -> dict[str, Any]:
            after = without_reserved(metadata)
            return check_collection_metadata(merge_patch(before, after)) if merge else {**reserved_of(before), **after}

        def operation(transaction: Transaction) -> tuple[dict[str, Any], WriteOutcome, Collection | None]:
            changed, outcome = writes.change_collection_metadata(transaction, name, change)
            return answers.metadata_updated(changed, merge=merge), outcome, changed

        return self._write(operation, options, name)

    def delete_collection(self, name: str, options: WriteOptions = AS_IT_COMES) -> Written:
        def operation(transaction: Transaction) -> tuple[dict[str, Any], WriteOutcome, Collection | None]:
            return {"status": "deleted", "name": name}, writes.delete_collection(transaction, name), None

        return self._write(operation, options, name, deletes=True)

    def empty_collection(self, name: str, options: WriteOptions) -> Written:
        def operation(transaction: Transaction) -> tuple[dict[str, Any], WriteOutcome, Collection | None]:
            outcome = writes.empty_collection(transaction, name)
            answer = {
                "status": "emptied",
                "collection": name,
                "count_deleted": outcome.deleted,
                "revision": outcome.revision,
            }
            return answer, outcome, find_collection(transaction, name)

        return self._write(operation, options, name, deletes=True)

    def add_documents(
        self,
        name: str,
        batch: DocumentBatch,
        options: WriteOptions = AS_IT_COMES,
        *,
        on_conflict: str = "replace",
        replace_where: Where | None = None,
        unless: Where | None = None,
    ) -> Written:
        """Raises AlreadyThereError, and stores nothing, when a document matches `unless`."""

        def operation(transaction: Transaction) -> tuple[dict[str, Any], WriteOutcome, Collection | None]:
            writes.check_directions(find_collection(transaction, name), batch.embeddings)
            if unless is not None:
                _check_that_none_matches(transaction, name, unless)
            outcome = writes.add_documents(
                transaction, name, batch, on_conflict=on_conflict, replace_where=replace_where
            )
            answer = answers.added(name, outcome, with_deleted=replace_where is not None)
            return answer, outcome, find_collection(transaction, name)

        return self._write(operation, options, name)

    def add_part(
        self, collection: Collection, batch: DocumentBatch, options: WriteOptions, *, on_conflict: str
    ) -> tuple[WriteOutcome, int | None]:
        """(what was done, outbox entry) of one part of a stream, without waiting for the index. Raises
        CollectionNotFoundError when the collection is gone, also when there is a later one of its name."""
        outcomes: list[WriteOutcome] = []

        def operation(transaction: Transaction) -> tuple[dict[str, Any], WriteOutcome, Collection | None]:
            if find_collection(transaction, collection.name).key != collection.key:
                raise CollectionNotFoundError(collection.name)
            outcomes.append(writes.add_documents(transaction, collection.name, batch, on_conflict=on_conflict))
            return {}, outcomes[-1], None

        done, _ = self.commit(operation, options, collection.name)
        return outcomes[-1], done.outbox_id

    def patch_document(self, name: str, document_id: str, patch: DocumentPatch, options: WriteOptions) -> Written:
        """A repeat is answered with the document as it is now: what was answered first is not kept, because texts are
        nowhere but in their documents. Raises DocumentNotFoundError, also when it was deleted since."""
        changed: list[Document] = []

        def operation(transaction: Transaction) -> tuple[dict[str, Any], WriteOutcome, Collection | None]:
            document, outcome = writes.patch_document(transaction, name, document_id, patch)
            changed.append(document)
            return {"id": document.id}, outcome, find_collection(transaction, name)

        written = self._write(operation, options, name)
        if changed:
            return replace(written, answer=answers.document(replace(changed[-1], embedding=None)))
        document, collection = self.document(name, document_id, with_embeddings=False)
        return replace(written, answer=answers.document(document), etag=answers.etag(collection))

    def delete_documents(
        self,
        name: str,
        options: WriteOptions = AS_IT_COMES,
        *,
        ids: Sequence[str] | None = None,
        where: Where | None = None,
        may_empty: bool = True,
    ) -> Written:
        """Raises InvalidInputError, and deletes nothing, when `where` matches all there is and it may not be so."""

        def operation(transaction: Transaction) -> tuple[dict[str, Any], WriteOutcome, Collection | None]:
            outcome = writes.delete_documents(transaction, name, ids=ids, where=where, may_empty=may_empty)
            answer = {
                "status": "deleted",
                "collection": name,
                "count": outcome.deleted,
                "revision": outcome.revision,
            }
            return answer, outcome, find_collection(transaction, name)

        return self._write(operation, options, name, deletes=True)

    def page(
        self,
        name: str,
        where: Where,
        *,
        limit: int,
        offset: int = 0,
        order_by: tuple[OrderBy, ...] = (),
        cursor: str | None = None,
        with_embeddings: bool = False,
    ) -> tuple[Page, Collection]:
        with self._catalog.read() as transaction:
            collection = find_collection(transaction, name)
            found = reads.page(
                transaction,
                collection,
                where,
                limit=limit,
                offset=offset,
                order_by=order_by,
                cursor=cursor,
                with_embeddings=with_embeddings,
            )
            return found, collection

    def documents(
        self, name: str, ids: Sequence[str], where: Where = EVERYTHING, *, with_embeddings: bool = False
    ) -> tuple[list[Document], Collection]:
        """Those of the documents that exist and match, in the order of `ids`."""
        with self._catalog.read() as transaction:
            collection = find_collection(transaction, name)
            found = reads.by_ids(transaction, collection, ids, where=where, with_embeddings=with_embeddings)
            return [found[each] for each in dict.fromkeys(ids) if each in found], collection

    def document(self, name: str, document_id: str, *, with_embeddings: bool) -> tuple[Document, Collection]:
        found, collection = self.documents(name, [document_id], with_embeddings=with_embeddings)
        if not found:
            raise DocumentNotFoundError(name, document_id)
        return found[0], collection

    @contextmanager
    def export(self, name: str) -> Iterator[tuple[Collection, Iterator[list[Document]]]]:
        """The collection and all its documents with their embeddings, block by block, of the snapshot that this block
        of code sees from beginning to end. The thread that opens it must read nothing else meanwhile."""
        with self._catalog.read() as transaction:
            collection = find_collection(transaction, name)
            yield collection, reads.everything(transaction, collection, block=EXPORTED_AT_ONCE)

    def count(self, name: str, where: Where) -> tuple[int, Collection]:
        with self._catalog.read() as transaction:
            collection = find_collection(transaction, name)
            return count(transaction, collection.key, where, collection.count), collection

    def distinct_values(self, name: str, field: str) -> tuple[list[Any], Collection]:
        with self._catalog.read() as transaction:
            collection = find_collection(transaction, name)
            return grouping.distinct_values(transaction, collection, field), collection

    def facets(
        self, name: str, fields: Sequence[str], where: Where, *, limit: int
    ) -> tuple[dict[str, Facet], int, Collection]:
        """(facet by field, how many documents match, the collection), of one snapshot."""
        with self._catalog.read() as transaction:
            collection = find_collection(transaction, name)
            found = grouping.facets(transaction, collection, where, fields, limit=limit)
            return found, count(transaction, collection.key, where, collection.count), collection

    def text_search(
        self, name: str, query: str, where: Where, *, limit: int
    ) -> tuple[list[TextMatch], int, Collection]:
        with self._catalog.read() as transaction:
            collection = find_collection(transaction, name)
            found, total = grouping.text_search(transaction, collection, query, where, limit=limit)
            return found, total, collection

    def query(
        self,
        name: str,
        embedding: Vector,
        *,
        top_k: int,
        where: Where = EVERYTHING,
        max_distance: float | None = None,
        gather_by: GatherSpec | None = None,
        with_embeddings: bool = False,
    ) -> Found:
        """The nearest documents and, when asked, the whole group of each."""
        return self._planner.query(
            name,
            embedding,
            top_k=top_k,
            where=where,
            max_distance=max_distance,
            gather_by=gather_by,
            with_embeddings=with_embeddings,
        )

    def gather(
        self, name: str, spec: GatherSpec, *, ids: Sequence[str] | None = None, where: Where | None = None
    ) -> tuple[list[Group], Collection]:
        """The groups of documents given by ids (in that order) or by a filter (in order of insertion).

        Raises InvalidInputError when the filter matches more than `MOST_GATHERED`.
        """
        with self._catalog.read() as transaction:
            collection = find_collection(transaction, name)
            if ids is not None:
                found = reads.by_ids(transaction, collection, ids)
                hits = [found[each] for each in dict.fromkeys(ids) if each in found]
            else:
                assert where is not None
                page = reads.page(transaction, collection, where, limit=MOST_GATHERED)
                if page.total > MOST_GATHERED:
                    raise InvalidInputError(
                        f"where matches {page.total} documents, and at most {MOST_GATHERED} are gathered: narrow it",
                        code="too_many_matches",
                        field="where",
                        limit=MOST_GATHERED,
                        total=page.total,
                    )
                hits = page.documents
            return grouping.gather(transaction, collection, hits, spec), collection

    def has_answer(self, key: str) -> bool:
        """Whether a write with this `Idempotency-Key` was done."""
        with self._catalog.read() as transaction:
            return idempotency.exists(transaction, key)

    def kept_answer(self, name: str | None, key: str, digest: str) -> Written | None:
        """The first answer to this key. Raises ConflictError when it came with another request."""
        with self._catalog.read() as transaction:
            kept = idempotency.find(transaction, key, digest)
        return None if kept is None else self._settled(name, kept, replayed=True)

    def keep_answer(
        self, key: str, digest: str, answer: dict[str, Any], outbox_id: int | None, collection_key: int | None
    ) -> Written | None:
        """Keep the answer of a write of several transactions as long as the collection lives. What came first instead,
        when a repeat of it did. Raises ConflictError when another request with this key did."""

        def operation(transaction: Transaction) -> idempotency.KeptAnswer | None:
            first = idempotency.find(transaction, key, digest)
            if first is None:
                kept = idempotency.KeptAnswer(answer, outbox_id, None)
                idempotency.keep(transaction, key, digest, kept, self._clock(), collection_key)
            return first

        first = self._catalog.commit(operation)
        return None if first is None else Written(first.answer, etag=first.etag, replayed=True)

    def once(self, options: WriteOptions, work: Callable[[], dict[str, Any]], collection: str | None = None) -> Written:
        """The answer of `work`, which writes to the collection by itself, or the one that the first request of this key
        got."""
        key = options.idempotency_key
        if key is None:
            return Written(work())
        kept = self.kept_answer(None, key, options.digest)
        if kept is None:
            answer = work()
            collection_key = None if collection is None else self.collection(collection).key
            kept = self.keep_answer(key, options.digest, answer, None, collection_key) or Written(answer)
        return kept

    def index(self, name: str) -> dict[str, Any]:
        """What is known of a collection's index."""
        with self._catalog.read() as transaction:
            collection = find_collection(transaction, name)
            waiting = outbox.lag(transaction, collection.key)
            return answers.index(
                collection,
                reports.find(transaction, collection.key),
                waiting,
                standstills.find(transaction, collection.key),
                set_aside.count(transaction, collection.key),
                set_aside.find(transaction, collection.key),
            )

    def check_index(self, name: str) -> dict[str, Any]:
        """Have the doctor look at it, after the writes before this. What is known of it by now."""
        return self._ask_doctor(name, outbox.CHECK)

    def rebuild_index(self, name: str) -> dict[str, Any]:
        """Have it made anew from the catalogue, after the writes before this."""
        self._check_disk()
        return self._ask_doctor(name, outbox.REBUILD)

    def _ask_doctor(self, name: str, kind: str) -> dict[str, Any]:
        self._catalog.commit(lambda transaction: writes.ask_doctor(transaction, name, kind))
        self._indexer.notify()
        return self.index(name)

    def index_lag(self) -> int:
        """How many writes the index has yet to be told of."""
        with self._catalog.read() as transaction:
            return outbox.lag(transaction)

    def wait_until_indexed(self, outbox_id: int | None) -> bool:
        """True when the index has that write, at once or within the time limit.

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

    def set_aside_of(self, name: str, ids: Sequence[str]) -> list[str]:
        """Those of the documents that the engine cannot take, none when the collection is gone."""
        with self._catalog.read() as transaction:
            collection = named(transaction, name)
            return [] if collection is None else set_aside.among(transaction, collection.key, ids)

    def commit(
        self, operation: Operation, options: WriteOptions, name: str | None = None, *, deletes: bool = False
    ) -> tuple[idempotency.KeptAnswer, bool]:
        """(what a write that is on disk answers, whether it was done before), without waiting for the index. One that
        only `deletes` is taken however many wait."""
        self._check_disk()

        def run(transaction: Transaction) -> tuple[idempotency.KeptAnswer, bool]:
            if options.idempotency_key is not None:
                kept = idempotency.find(transaction, options.idempotency_key, options.digest)
                if kept is not None:
                    return kept, True
            if options.if_match is not None and name is not None:
                _check_precondition(find_collection(transaction, name), options.if_match)
            if name is not None and not deletes:
                _check_lag(transaction, name)
            answer, outcome, collection = operation(transaction)
            etag = answers.etag(collection) if collection else None
            done = idempotency.KeptAnswer(answer, outcome.outbox_id, etag)
            if options.idempotency_key is not None:
                key = collection.key if collection else None
                idempotency.keep(transaction, options.idempotency_key, options.digest, done, self._clock(), key)
            return done, False

        return self._catalog.commit(run)

    def _check_disk(self) -> None:
        if self._free_disk_mb() < self._disk_floor_mb:
            raise DiskFloorError("Free disk space is below the floor: writes are refused until there is more")

    def _write(
        self, operation: Operation, options: WriteOptions, name: str | None = None, *, deletes: bool = False
    ) -> Written:
        done, replayed = self.commit(operation, options, name, deletes=deletes)
        read_back = replace(done, answer=orjson.loads(orjson.dumps(done.answer)))
        return self._settled(name, read_back, replayed=replayed)

    def _settled(self, name: str | None, done: idempotency.KeptAnswer, *, replayed: bool) -> Written:
        """The answer once the index has the write, or after a time limit."""
        if not self.wait_until_indexed(done.outbox_id):
            return Written(done.answer, False, done.etag, replayed=replayed)
        ids = done.answer.get("ids") or [done.answer[key] for key in ("id",) if key in done.answer]
        refused = self.set_aside_of(name, ids) if name is not None and ids else []
        return Written(done.answer, not refused, done.etag, refused, replayed)


def _check_lag(transaction: Transaction, name: str) -> None:
    collection = find_collection(transaction, name)
    if outbox.lag(transaction, collection.key) >= MAX_LAG:
        raise BusyError(
            f"Too many writes to the collection '{name}' wait for the index", collection=name, index_lag=MAX_LAG
        )


def _check_that_none_matches(transaction: Transaction, name: str, where: Where) -> None:
    collection = find_collection(transaction, name)
    if count(transaction, collection.key, where, collection.count):
        raise AlreadyThereError(f"Collection '{name}' has a document that matches already", collection=name)


def _check_precondition(collection: Collection, accepted: frozenset[str]) -> None:
    if not accepted & {"*", answers.etag(collection)}:
        raise PreconditionFailedError(
            f"Collection '{collection.name}' has changed: its revision is {collection.revision}",
            revision=collection.revision,
        )
