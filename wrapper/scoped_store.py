"""The store as the current caller sees it. Routes and providers ask this store, never the one behind it.

Which collections and documents exist for whom, and what collections are called in a database, is decided in
`wrapper/stores/reach.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, TypeVar

from schemas.access.callers import Caller, acting_still, current
from schemas.errors import CollectionNotFoundError, DocumentNotFoundError
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
    Vector,
)
from schemas.storage.outcomes import CollectionOutcome, WriteOutcome
from schemas.storage.projection import Projection
from schemas.where import EVERYTHING, Where, all_of
from wrapper.querying.planner import Found
from wrapper.store import Store
from wrapper.stores.quotas import limited
from wrapper.stores.reach import Reach
from wrapper.stores.scoped_file_listing import ScopedFileListing
from wrapper.stores.scoped_following import ScopedFollowing
from wrapper.stores.scoped_indexes import ScopedIndexes
from wrapper.stores.scoped_names import ScopedNames
from wrapper.stores.scoped_namespaces import ScopedNamespaces
from wrapper.stores.scoped_records import ScopedRecords
from wrapper.stores.scoped_reembedding import ScopedReembeddings
from wrapper.stores.seen_counts import SeenCounts
from wrapper.writing import AS_IT_COMES, WriteOptions, Writing, Written

T = TypeVar("T")


class ScopedStore:
    """The methods of `Store`, for the current caller.

    A collection that is not the caller's does not exist: reading and changing it raises CollectionNotFoundError,
    creating it CollectionForbiddenError. A caller with a filter sees the documents that match it, as if there were no
    others, and changes nothing. What a caller adds is held to the limits of what their collections may hold.

    A change is made with the rights of now, because its body may have taken long to arrive: AccessError is raised when
    they have ended since.

    The collections are those of the default database. `in_database` gives the store of another one's, by their names
    there. `namespaces` and `records`, which clients of Chroma ask, go by full names; so do errors.
    """

    def __init__(self, store: Store, reach: Reach | None = None, counts: SeenCounts | None = None) -> None:
        self._store = store
        self.reach = Reach() if reach is None else reach
        self.names = ScopedNames(store.names, self.reach)
        self.records = ScopedRecords(store.records, self.reach, self._shown_one)
        self.namespaces = ScopedNamespaces(store.namespaces, self.reach, self._shown)
        self.file_listing = ScopedFileListing(store.file_listing, self.reach)
        self.following = ScopedFollowing(store.following, self.reach)
        self.indexes = ScopedIndexes(store.indexes, self.reach)
        self.reembeddings = ScopedReembeddings(store.reembeddings, self.reach)
        self._counts = SeenCounts(store.count) if counts is None else counts

    def in_database(self, tenant: str, database: str) -> ScopedStore:
        """Return the store of that database's collections. Raises DatabaseNotFoundError when none is the caller's."""
        self.namespaces.database(tenant, database)
        return ScopedStore(self._store, self.reach.within(tenant, database), self._counts)

    @property
    def writing(self) -> Writing:
        return self._store.writing

    def collections(self) -> list[Collection]:
        """Return the caller's collections, by name."""
        caller = current()
        return self._shown(caller, self._store.collections(caller.collections, self.reach.beginning))

    def collections_count(self) -> int:
        return self._store.collections_count(current().collections, self.reach.beginning)

    def collections_page(
        self, *, prefix: str, limit: int | None, cursor: str | None
    ) -> tuple[list[Collection], str | None]:
        caller = current()
        found, following = self._store.collections_page(
            prefix=self.reach.full(prefix), limit=limit, cursor=cursor, within=caller.collections
        )
        return self._shown(caller, found), following

    def collection(self, name: str) -> Collection:
        name = self.reach.full(name)
        caller = self.reach.reader(name)
        return self._shown_one(caller, replace(self._store.collection(name), name=name))

    def collections_named(self, names: Sequence[str]) -> list[Collection]:
        caller = current()
        known = [full for full in map(self.reach.full, names) if self.reach.knows(caller, full)]
        return self._shown(caller, self._store.collections_named(known))

    @acting_still()
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
        name = self.reach.full(name)
        self.reach.check_adding(name)
        return self.reach.told(
            self._store.create_collection(
                name, metadata, metric, options, get_or_create=get_or_create, configuration=configuration
            )
        )

    def once(
        self,
        kind: Callable[..., T],
        options: WriteOptions,
        work: Callable[[], T],
        name: str,
        *,
        is_final: Callable[[T], bool] = lambda outcome: True,
    ) -> Written[T]:
        """Return the outcome of `work`, which adds to the collection of that name, or that of the first request with
        this key, as `Writing.once` does.

        Raises CollectionForbiddenError unless the caller may add to it, also where the outcome is known.
        """
        name = self.reach.full(name)
        self.reach.check_adding(name)
        return self.writing.once(kind, options, work, name, is_final=is_final)

    @acting_still()
    def change_collection_metadata(
        self, name: str, metadata: dict[str, Any], options: WriteOptions, *, merge: bool
    ) -> Written[CollectionOutcome]:
        name = self.reach.full(name)
        self.reach.check_writing(name)
        return self.reach.told(self._store.change_collection_metadata(name, metadata, options, merge=merge))

    @acting_still()
    def delete_collection(self, name: str, options: WriteOptions = AS_IT_COMES) -> Written[WriteOutcome]:
        name = self.reach.full(name)
        self.reach.check_writing(name)
        return self._store.delete_collection(name, options)

    @acting_still()
    def empty_collection(self, name: str, options: WriteOptions) -> Written[WriteOutcome]:
        name = self.reach.full(name)
        self.reach.check_writing(name)
        return self._store.empty_collection(name, options)

    @acting_still()
    def add_documents(
        self, name: str, batch: DocumentBatch, options: WriteOptions = AS_IT_COMES, **conditions: Any
    ) -> Written[WriteOutcome]:
        name = self.reach.full(name)
        self.reach.check_writing(name)
        return self._store.add_documents(name, batch, limited(options), **conditions)

    def add_part(
        self, collection: Collection, batch: DocumentBatch, options: WriteOptions, *, on_conflict: str
    ) -> WriteOutcome:
        collection = replace(collection, name=self.reach.full(collection.name))
        self.reach.check_writing(collection.name)
        return self._store.add_part(collection, batch, limited(options), on_conflict=on_conflict)

    @acting_still()
    def patch_document(
        self, name: str, document_id: str, patch: DocumentPatch, options: WriteOptions
    ) -> Written[Document]:
        name = self.reach.full(name)
        self.reach.check_writing(name)
        return self._store.patch_document(name, document_id, patch, limited(options))

    @acting_still()
    def patch_metadata(self, name: str, patch: Metadata, options: WriteOptions, **chosen: Any) -> Written[WriteOutcome]:
        name = self.reach.full(name)
        self.reach.check_writing(name)
        return self._store.patch_metadata(name, patch, limited(options), **chosen)

    @acting_still()
    def delete_document(self, name: str, document_id: str, options: WriteOptions) -> Written[WriteOutcome]:
        name = self.reach.full(name)
        self.reach.check_writing(name)
        return self._store.delete_document(name, document_id, options)

    @acting_still()
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
        name = self.reach.full(name)
        self.reach.check_writing(name)
        return self._store.delete_documents(
            name, options.pinned(collection_id), ids=ids, where=where, may_match_all=may_match_all
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
    ) -> tuple[Page, Collection]:
        name = self.reach.full(name)
        seen = self.reach.seen(name)
        found, collection = self._store.page(
            name,
            where,
            limit=limit,
            offset=offset,
            order_by=order_by,
            cursor=cursor,
            ids=ids,
            with_embeddings=with_embeddings,
            seen=seen,
        )
        return found, self.reach.viewed(collection, name, seen)

    def documents(
        self, name: str, ids: Sequence[str], where: Where = EVERYTHING, *, with_embeddings: bool = False
    ) -> tuple[list[Document], Collection]:
        name = self.reach.full(name)
        seen = self.reach.seen(name)
        found, collection = self._store.documents(name, ids, all_of(seen, where), with_embeddings=with_embeddings)
        return found, self.reach.viewed(collection, name, seen)

    def document(self, name: str, document_id: str, *, with_embeddings: bool) -> tuple[Document, Collection]:
        found, collection = self.documents(name, [document_id], with_embeddings=with_embeddings)
        if not found:
            raise DocumentNotFoundError(self.reach.full(name), document_id)
        return found[0], collection

    @contextmanager
    def export(self, name: str) -> Iterator[tuple[Collection, Iterator[list[Document]]]]:
        """Give the collection and all its documents that the caller sees, as `Store.export` does."""
        name = self.reach.full(name)
        seen = self.reach.seen(name)
        with self._store.export(name, seen) as (collection, blocks):
            yield self.reach.viewed(collection, name, seen), blocks

    def count(self, name: str, where: Where) -> tuple[int, Collection]:
        name = self.reach.full(name)
        seen = self.reach.seen(name)
        found, collection = self._store.count(name, all_of(seen, where))
        return found, self.reach.viewed(collection, name, seen)

    def distinct_values(self, name: str, field: str) -> tuple[list[Any], Collection]:
        name = self.reach.full(name)
        seen = self.reach.seen(name)
        found, collection = self._store.distinct_values(name, field, seen)
        return found, self.reach.viewed(collection, name, seen)

    def facets(
        self, name: str, fields: Sequence[str], where: Where, *, limit: int
    ) -> tuple[dict[str, Facet], int, Collection]:
        name = self.reach.full(name)
        seen = self.reach.seen(name)
        found, total, collection = self._store.facets(name, fields, all_of(seen, where), limit=limit)
        return found, total, self.reach.viewed(collection, name, seen)

    def text_search(
        self, name: str, query: str, where: Where, *, limit: int
    ) -> tuple[list[TextMatch], int, Collection]:
        name = self.reach.full(name)
        seen = self.reach.seen(name)
        found, total, collection = self._store.text_search(name, query, where, limit=limit, seen=seen)
        return found, total, self.reach.viewed(collection, name, seen)

    def query(
        self,
        name: str,
        embedding: Vector | None = None,
        *,
        near: Sequence[str] = (),
        top_k: int,
        where: Where = EVERYTHING,
        max_distance: float | None = None,
        gather_by: GatherSpec | None = None,
        with_embeddings: bool = False,
    ) -> Found:
        name = self.reach.full(name)
        seen = self.reach.seen(name)
        found = self._store.query(
            name,
            embedding,
            near=near,
            top_k=top_k,
            where=where,
            max_distance=max_distance,
            gather_by=gather_by,
            with_embeddings=with_embeddings,
            seen=seen,
        )
        # Which documents the index proposes depends on those that are not seen.
        found = replace(found, collection=self.reach.viewed(found.collection, name, seen))
        return found if seen == EVERYTHING else replace(found, compared=None, recall=None)

    def projection(self, name: str, where: Where, *, limit: int, field: str | None) -> Projection:
        name = self.reach.full(name)
        seen = self.reach.seen(name)
        found = self._store.projections.of(name, all_of(seen, where), limit=limit, field=field)
        return replace(found, collection=self.reach.viewed(found.collection, name, seen))

    def gather(
        self, name: str, spec: GatherSpec, *, ids: Sequence[str] | None = None, where: Where | None = None
    ) -> Gathered:
        name = self.reach.full(name)
        seen = self.reach.seen(name)
        found = self._store.gather(name, spec, ids=ids, where=where, seen=seen)
        return replace(found, collection=self.reach.viewed(found.collection, name, seen))

    def _shown(self, caller: Caller, found: Sequence[Collection]) -> list[Collection]:
        shown = []
        for each in found:
            with suppress(CollectionNotFoundError):  # deleted meanwhile
                shown.append(self._shown_one(caller, each))
        return shown

    def _shown_one(self, caller: Caller, collection: Collection) -> Collection:
        """Return a collection as if it had only the documents that the caller sees."""
        seen = self.reach.view(caller, collection.name)
        counted = collection if seen == EVERYTHING else self._counts.counted(collection, seen)
        return self.reach.viewed(counted, collection.name, seen)
