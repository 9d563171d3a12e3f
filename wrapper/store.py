"""The facade of the storage proxy: one method for each thing that a client can do.

Reads never ask the engine, except vector queries. What all writes share is in `wrapper/writing.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from schemas.errors import DocumentNotFoundError
from schemas.metadata import check_collection_metadata, check_reserved, merge_patch, reserved_of
from schemas.records import (
    Collection,
    Document,
    DocumentBatch,
    DocumentPatch,
    Facet,
    Gathered,
    GatherSpec,
    Metadata,
    OrderBy,
    Page,
    TextMatch,
)
from schemas.storage.outcomes import CollectionOutcome, WriteOutcome
from schemas.where import EVERYTHING, Where, all_of
from wrapper.catalog import document_changes, gathering, grouping, reads, writes
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.changes.held_matches import PlannedMatches
from wrapper.catalog.contract import Transaction
from wrapper.catalog.cursors import decode_name_cursor, encode_name_cursor
from wrapper.catalog.held_documents import HeldDocuments
from wrapper.catalog.names import collection_writes
from wrapper.catalog.preparing import DocumentWrite
from wrapper.catalog.rows import (
    Patterns,
    collections_named,
    collections_page,
    count_collections,
    find_collection,
    named,
)
from wrapper.catalog.text_search import text_search
from wrapper.embedding_checks import check_directions
from wrapper.indexing.indexer import Indexer
from wrapper.querying.planner import Planner
from wrapper.querying.projections import Projections
from wrapper.stores.collection_names import CollectionNames, check_not_in_transit
from wrapper.stores.copying import Copying
from wrapper.stores.file_listing import FileListing
from wrapper.stores.following import Following
from wrapper.stores.index_requests import IndexRequests
from wrapper.stores.namespaces import Namespaces
from wrapper.stores.record_store import RecordStore
from wrapper.stores.reembedding import Reembeddings
from wrapper.writing import AS_IT_COMES, WriteOptions, Writing, Written


class Store:
    """The collections of this service. Every method raises CollectionNotFoundError for a name that none of them has."""

    def __init__(
        self, catalog: Catalog, planner: Planner, indexer: Indexer, writing: Writing, documents: HeldDocuments
    ) -> None:
        self._catalog = catalog
        self.query = planner.query  # a storage of providers has it (providers/storage_protocol.py)
        self._documents = documents
        self.writing = writing
        self.projections = Projections(catalog)
        self.indexes = IndexRequests(catalog, indexer, writing)
        self.copying = Copying(catalog, writing)
        self.reembeddings = Reembeddings(catalog, writing, lambda: indexer.leads)
        self.records = RecordStore(catalog, writing)
        self.file_listing = FileListing(catalog)
        self.following = Following(catalog)
        self.namespaces = Namespaces(catalog, writing)
        self.names = CollectionNames(catalog, writing, self.copying)

    def collections(self, within: Patterns = None, prefix: str = "") -> list[Collection]:
        """Return the collections with names `within` these patterns that begin with `prefix`, by name; None stands for
        all names."""
        with self._catalog.read() as transaction:
            return collections_page(transaction, within, prefix=prefix)

    def collections_count(self, within: Patterns = None, prefix: str = "") -> int:
        with self._catalog.read() as transaction:
            return count_collections(transaction, within, prefix)

    def collections_page(
        self, *, prefix: str, limit: int | None, cursor: str | None, within: Patterns = None
    ) -> tuple[list[Collection], str | None]:
        """Return (at most `limit` collections whose names begin with `prefix`, by name; cursor of the next page).

        Raises InvalidInputError for a cursor that is invalid or of another prefix.
        """
        after = "" if cursor is None else decode_name_cursor(cursor, prefix)
        with self._catalog.read() as transaction:
            found = collections_page(
                transaction, within, prefix=prefix, after=after, limit=None if limit is None else limit + 1
            )
        if limit is None or len(found) <= limit:
            return found, None
        return found[:limit], encode_name_cursor(found[limit - 1].name, prefix)

    def collection(self, name: str) -> Collection:
        with self._catalog.read() as transaction:
            return find_collection(transaction, name)

    def collections_named(self, names: Sequence[str]) -> list[Collection]:
        """Return the collections of these names that exist, read in one snapshot."""
        with self._catalog.read() as transaction:
            return collections_named(transaction, names)

    def create_collection(
        self,
        name: str,
        metadata: dict[str, Any],
        metric: str,
        options: WriteOptions = AS_IT_COMES,
        *,
        get_or_create: bool = False,
        configuration: str | None = None,
    ) -> Written[CollectionOutcome]:
        """Make an empty collection, or with `get_or_create` return the one that has the name, as it is. Without
        a `configuration`, metadata are without keys of the engine's own. Raises ConflictError when the name is taken.
        """
        check_not_in_transit(name)

        def operation(transaction: Transaction) -> CollectionOutcome:
            there = named(transaction, name) if get_or_create else None
            if configuration is None:
                check_reserved(metadata, {} if there is None else there.metadata)
            if there is not None:
                return CollectionOutcome.of(there, WriteOutcome(there.revision, None), existed=True)
            return CollectionOutcome.of(
                *collection_writes.create_collection(transaction, name, metadata, metric, configuration=configuration)
            )

        return self.writing.write(CollectionOutcome, name, operation, options, creates=True)

    def change_collection_metadata(
        self, name: str, metadata: dict[str, Any], options: WriteOptions, *, merge: bool
    ) -> Written[CollectionOutcome]:
        """Replace the metadata, or merge a patch into it, in which null removes a key. The engine's own stay."""

        def change(before: dict[str, Any]) -> dict[str, Any]:
            check_reserved(metadata, before)
            after = merge_patch(before, metadata) if merge else metadata
            return check_collection_metadata(after | reserved_of(before))

        return self.writing.write(
            CollectionOutcome,
            name,
            lambda transaction: CollectionOutcome.of(
                *collection_writes.change_collection_metadata(transaction, name, change)
            ),
            options,
        )

    def delete_collection(self, name: str, options: WriteOptions = AS_IT_COMES) -> Written[WriteOutcome]:
        """Delete the collection with all its documents."""
        return self.writing.write(
            WriteOutcome,
            name,
            lambda transaction: collection_writes.delete_collection(transaction, name),
            options,
            deletes=True,
        )

    def empty_collection(self, name: str, options: WriteOptions) -> Written[WriteOutcome]:
        """Delete all documents and keep the collection."""
        return self.writing.write(
            WriteOutcome,
            name,
            lambda transaction: collection_writes.empty_collection(transaction, name),
            options,
            deletes=True,
        )

    def add_documents(
        self,
        name: str,
        batch: DocumentBatch,
        options: WriteOptions = AS_IT_COMES,
        *,
        unless: Where | None = None,
        collection_id: str | None = None,
        collection_key: int | None = None,
        **conditions: Any,
    ) -> Written[WriteOutcome]:
        """Store documents, all or none, under the `conditions` of `plan_addition`.

        Raises AlreadyThereError when a document of the collection matches `unless`, ErasedMeanwhileError, and
        ReembeddedMeanwhileError when the collection has another key than `collection_key`.
        """

        def plan(transaction: Transaction, matches: PlannedMatches) -> writes.PlannedWrite:
            collection = find_collection(transaction, name)
            check_directions(collection, batch.embeddings)
            if unless is not None:
                writes.check_that_none_matches(transaction, matches, collection, unless)
            return writes.plan_addition(transaction, matches, name, batch, **conditions)

        added, options = DocumentWrite(plan), options.pinned(collection_id, collection_key)
        return self.writing.write(WriteOutcome, name, added.store, options, documents=added)

    def add_part(
        self, collection: Collection, batch: DocumentBatch, options: WriteOptions, *, on_conflict: str
    ) -> WriteOutcome:
        """Store one part of a stream without waiting for the index. Raises CollectionNotFoundError when the collection
        is gone, also when there is a later one of its name, and ReembeddedMeanwhileError."""

        added = DocumentWrite(partial(writes.plan_addition, name=collection.name, batch=batch, on_conflict=on_conflict))
        options = options.pinned(collection.id, collection.key)
        return self.writing.commit(collection.name, added.store, options, documents=added)

    def patch_document(
        self, name: str, document_id: str, patch: DocumentPatch, options: WriteOptions
    ) -> Written[Document]:
        """Change parts of a document.

        The outcome of a repeat is the document as it is now: the first one is not kept, because texts are stored
        nowhere but in their documents. Raises DocumentNotFoundError, also when it was deleted since.
        """
        changed: list[Document] = []
        change = document_changes.patching(name, document_id, patch)

        def operation(transaction: Transaction) -> WriteOutcome:
            outcome = change.store(transaction)
            changed.append(reads.by_ids(transaction, find_collection(transaction, name), [document_id])[document_id])
            return outcome

        written = self.writing.write(WriteOutcome, name, operation, options, documents=change)
        version = written.version
        if changed:
            document = changed[-1]
        else:
            document, collection = self.document(name, document_id, with_embeddings=False)
            version = collection.version
        return Written(document, version, written.indexed, written.set_aside, written.replayed, written.awaited)

    def patch_metadata(self, name: str, patch: Metadata, options: WriteOptions, **chosen: Any) -> Written[WriteOutcome]:
        """Merge a patch, in which null removes a key, into the metadata of the documents that are `chosen` as
        `patching_metadata` says. Raises InvalidInputError, as that does: then nothing is changed."""

        change = document_changes.patching_metadata(name, patch, **chosen)
        return self.writing.write(WriteOutcome, name, change.store, options, documents=change)

    def delete_document(self, name: str, document_id: str, options: WriteOptions) -> Written[WriteOutcome]:
        """Delete one document. Raises DocumentNotFoundError when there is none of that id."""

        def operation(transaction: Transaction) -> WriteOutcome:
            outcome = writes.delete_documents(transaction, name, ids=[document_id])
            if not outcome.deleted:
                raise DocumentNotFoundError(name, document_id)
            return outcome

        return self.writing.write(WriteOutcome, name, operation, options, deletes=True)

    def delete_documents(
        self,
        name: str,
        options: WriteOptions = AS_IT_COMES,
        *,
        ids: Sequence[str] | None = None,
        where: Where | None = None,
        may_match_all: bool = True,
        collection_id: str | None = None,
    ) -> Written[WriteOutcome]:
        """Delete documents by ids or by a filter.

        Raises InvalidInputError, and delete nothing, when `where` matches all that there are, unless the write
        `may_match_all` the collection.
        """
        conditions: dict[str, Any] = {"ids": ids, "where": where, "may_match_all": may_match_all}
        deletion = DocumentWrite(partial(writes.plan_deletion, name=name, **conditions))
        return self.writing.write(
            WriteOutcome,
            name,
            deletion.store,
            options.pinned(collection_id),
            deletes=True,
            documents=None if where is None else deletion,
        )

    def page(
        self,
        name: str,
        where: Where,
        *,
        limit: int,
        offset: int = 0,
        order_by: tuple[OrderBy, ...] = (),
        cursor: str | None = None,
        ids: Sequence[str] | None = None,
        with_embeddings: bool = False,
        seen: Where = EVERYTHING,
    ) -> tuple[Page, Collection]:
        """Return a page of the documents that match, and the collection.

        With `ids`, only those count, and come in that order; their page has no cursor. Here and in what follows the
        answer is as if there were only the documents that match `seen`.
        """
        where = all_of(seen, where)
        if ids is not None:
            chosen, collection = self.documents(name, ids, where, with_embeddings=with_embeddings)
            return Page(chosen[offset : offset + limit], len(chosen), None, collection.revision), collection
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
                seen=seen,
            )
            return found, collection

    def documents(
        self, name: str, ids: Sequence[str], where: Where = EVERYTHING, *, with_embeddings: bool = False
    ) -> tuple[list[Document], Collection]:
        """Return those of the documents that exist and match, in the order of `ids`, and the collection."""
        with self._catalog.read() as transaction:
            collection = find_collection(transaction, name)
            found = reads.by_ids(transaction, collection, ids, where=where, with_embeddings=with_embeddings)
            return [found[each] for each in dict.fromkeys(ids) if each in found], collection

    def document(self, name: str, document_id: str, *, with_embeddings: bool) -> tuple[Document, Collection]:
        """Return one document and its collection. Raises DocumentNotFoundError when there is none of that id."""
        found, collection = self.documents(name, [document_id], with_embeddings=with_embeddings)
        if not found:
            raise DocumentNotFoundError(name, document_id)
        return found[0], collection

    @contextmanager
    def export(self, name: str, seen: Where = EVERYTHING) -> Iterator[tuple[Collection, Iterator[list[Document]]]]:
        """Give the collection and all its documents with their embeddings, block by block, in one snapshot.

        The snapshot lasts as long as the context; its thread must read nothing else meanwhile.
        """
        with self._catalog.read() as transaction:
            collection = find_collection(transaction, name)
            found = replace(collection, count=transaction.dialect.matches.count(transaction, collection, seen))
            yield found, reads.everything(transaction, collection, seen)

    def count(self, name: str, where: Where) -> tuple[int, Collection]:
        """Return the number of documents that match, and the collection."""
        with self._catalog.read() as transaction:
            collection = find_collection(transaction, name)
            return transaction.dialect.matches.count(transaction, collection, where), collection

    def distinct_values(self, name: str, field: str, seen: Where = EVERYTHING) -> tuple[list[Any], Collection]:
        """Return the values that the field has in any document, and the collection."""
        with self._catalog.read() as transaction:
            collection = find_collection(transaction, name)
            return grouping.distinct_values(transaction, collection, field, seen), collection

    def facets(
        self, name: str, fields: Sequence[str], where: Where, *, limit: int
    ) -> tuple[dict[str, Facet], int, Collection]:
        """Return (facet by field, number of documents that match, the collection), all of one snapshot."""
        with self._catalog.read() as transaction:
            collection = find_collection(transaction, name)
            found, total = grouping.facets(transaction, collection, where, fields, limit=limit)
            return found, total, collection

    def text_search(
        self, name: str, query: str, where: Where, *, limit: int, seen: Where = EVERYTHING
    ) -> tuple[list[TextMatch], int, Collection]:
        """Return (the best documents for the words, number of documents that have any of them, the collection)."""
        with self._catalog.read() as transaction:
            collection = find_collection(transaction, name)
            found = text_search(transaction, collection, query, where, self._documents, limit=limit, seen=seen)
            return *found, collection

    def gather(
        self,
        name: str,
        spec: GatherSpec,
        *,
        ids: Sequence[str] | None = None,
        where: Where | None = None,
        seen: Where = EVERYTHING,
    ) -> Gathered:
        """Return the groups of documents given by ids (in that order) or by a filter (in order of insertion).

        Raises InvalidInputError when the filter matches more than `gathering.MOST_GATHERED`.
        """
        with self._catalog.read() as transaction:
            return gathering.gather(transaction, find_collection(transaction, name), spec, ids, where, seen)
