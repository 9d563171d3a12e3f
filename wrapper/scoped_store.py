"""The store as the current caller sees it: the one place that decides which collections and documents exist for whom.

Routes and providers ask this store, never the one behind it. It knows the caller from `schemas.access.callers`, so a
caller's rights reach into every thread that works for them, and work that has no caller fails.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, TypeVar

from cachetools import LRUCache

from schemas.access.callers import Caller, acting_still, current
from schemas.errors import CollectionForbiddenError, CollectionNotFoundError, DocumentNotFoundError
from schemas.records import (
    Collection,
    Document,
    DocumentBatch,
    DocumentPatch,
    Facet,
    Gathered,
    GatherSpec,
    OrderBy,
    Page,
    TextMatch,
    Vector,
)
from schemas.storage.index_reports import IndexStatus
from schemas.storage.outcomes import CollectionOutcome, WriteOutcome
from schemas.storage.projection import Projection
from schemas.where import EVERYTHING, Where, all_of
from wrapper.audit import noted
from wrapper.catalog.stored_bytes import Quota
from wrapper.querying.planner import Found
from wrapper.store import Store
from wrapper.writing import AS_IT_COMES, WriteOptions, Writing, Written

MOST_COUNTS = 10_000
"""The number of collections, at one revision and for one filter, whose counts are remembered: each list of collections
and each search needs them all."""

ViewOf = Callable[[Caller], Where]
T = TypeVar("T")


def _limited(options: WriteOptions) -> WriteOptions:
    """Return the conditions of a write that adds something, with what the caller's collections may hold."""
    caller = current()
    limits = caller.limits
    if limits.documents is None and limits.bytes is None:
        return options
    return replace(options, quota=Quota(caller.collections, limits.documents, limits.bytes))


class ScopedStore:
    """The methods of `Store`, for the current caller.

    A collection that is not the caller's does not exist: reading and changing it raises CollectionNotFoundError,
    creating it CollectionForbiddenError. A caller with a filter sees the documents that match it, as if there were no
    others, and changes nothing. What a caller adds is held to the limits of what their collections may hold.

    A change is made with the rights of now, because its body may have taken long to arrive: AccessError is raised when
    they have ended since.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._apart: dict[str, ViewOf] = {}
        self._counts: LRUCache[tuple[int, int, str], int] = LRUCache(MOST_COUNTS)
        self._guard = threading.Lock()

    def keep_apart(self, name: str, view_of: ViewOf) -> None:
        """Let callers see of a collection only what `view_of` says, whatever their key is for, and change nothing.

        Administrators see and change all of it.
        """
        self._apart[name] = view_of

    @property
    def writing(self) -> Writing:
        return self._store.writing

    def collections(self) -> list[Collection]:
        """Return the caller's collections, by name."""
        caller = current()
        return self._shown(caller, self._store.collections(caller.collections))

    def collections_count(self) -> int:
        return self._store.collections_count(current().collections)

    def collections_page(
        self, *, prefix: str, limit: int | None, cursor: str | None
    ) -> tuple[list[Collection], str | None]:
        caller = current()
        found, following = self._store.collections_page(
            prefix=prefix, limit=limit, cursor=cursor, within=caller.collections
        )
        return self._shown(caller, found), following

    def collection(self, name: str) -> Collection:
        caller = self._reader(name)
        return self._shown_one(caller, self._store.collection(name))

    def collections_named(self, names: Sequence[str]) -> list[Collection]:
        caller = current()
        return self._shown(caller, self._store.collections_named([name for name in names if self._knows(caller, name)]))

    @acting_still()
    def create_collection(
        self, name: str, metadata: dict[str, Any], metric: str, options: WriteOptions = AS_IT_COMES
    ) -> Written[CollectionOutcome]:
        self.check_adding(name)
        return self._store.create_collection(name, metadata, metric, options)

    def check_adding(self, name: str) -> None:
        """Raise CollectionForbiddenError unless the caller may add to a collection, and make it where there is none."""
        caller = current()
        noted.note_collection(name)
        if not caller.knows(name) or caller.is_filtered or (name in self._apart and not caller.is_admin):
            raise CollectionForbiddenError(name)

    def check_writing(self, name: str) -> None:
        """Raise CollectionNotFoundError or CollectionForbiddenError unless the caller may write to a collection of that
        name."""
        self._check_writer(name)

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
        self.check_adding(name)
        return self.writing.once(kind, options, work, name, is_final=is_final)

    @acting_still()
    def change_collection_metadata(
        self, name: str, metadata: dict[str, Any], options: WriteOptions, *, merge: bool
    ) -> Written[CollectionOutcome]:
        self._check_writer(name)
        return self._store.change_collection_metadata(name, metadata, options, merge=merge)

    @acting_still()
    def delete_collection(self, name: str, options: WriteOptions = AS_IT_COMES) -> Written[WriteOutcome]:
        self._check_writer(name)
        return self._store.delete_collection(name, options)

    @acting_still()
    def empty_collection(self, name: str, options: WriteOptions) -> Written[WriteOutcome]:
        self._check_writer(name)
        return self._store.empty_collection(name, options)

    @acting_still()
    def add_documents(
        self, name: str, batch: DocumentBatch, options: WriteOptions = AS_IT_COMES, **conditions: Any
    ) -> Written[WriteOutcome]:
        self._check_writer(name)
        return self._store.add_documents(name, batch, _limited(options), **conditions)

    def add_part(
        self, collection: Collection, batch: DocumentBatch, options: WriteOptions, *, on_conflict: str
    ) -> WriteOutcome:
        self._check_writer(collection.name)
        return self._store.add_part(collection, batch, _limited(options), on_conflict=on_conflict)

    @acting_still()
    def patch_document(
        self, name: str, document_id: str, patch: DocumentPatch, options: WriteOptions
    ) -> Written[Document]:
        self._check_writer(name)
        return self._store.patch_document(name, document_id, patch, _limited(options))

    @acting_still()
    def delete_documents(
        self,
        name: str,
        options: WriteOptions = AS_IT_COMES,
        *,
        ids: Sequence[str] | None = None,
        where: Where | None = None,
        may_empty: bool = True,
    ) -> Written[WriteOutcome]:
        self._check_writer(name)
        return self._store.delete_documents(name, options, ids=ids, where=where, may_empty=may_empty)

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
        seen = self._seen(name)
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
        return found, _viewed(collection, seen)

    def documents(
        self, name: str, ids: Sequence[str], where: Where = EVERYTHING, *, with_embeddings: bool = False
    ) -> tuple[list[Document], Collection]:
        seen = self._seen(name)
        found, collection = self._store.documents(name, ids, all_of(seen, where), with_embeddings=with_embeddings)
        return found, _viewed(collection, seen)

    def document(self, name: str, document_id: str, *, with_embeddings: bool) -> tuple[Document, Collection]:
        found, collection = self.documents(name, [document_id], with_embeddings=with_embeddings)
        if not found:
            raise DocumentNotFoundError(name, document_id)
        return found[0], collection

    @contextmanager
    def export(self, name: str) -> Iterator[tuple[Collection, Iterator[list[Document]]]]:
        """Give the collection and all its documents that the caller sees, as `Store.export` does."""
        seen = self._seen(name)
        with self._store.export(name, seen) as (collection, blocks):
            yield _viewed(collection, seen), blocks

    def count(self, name: str, where: Where) -> tuple[int, Collection]:
        seen = self._seen(name)
        found, collection = self._store.count(name, all_of(seen, where))
        return found, _viewed(collection, seen)

    def distinct_values(self, name: str, field: str) -> tuple[list[Any], Collection]:
        seen = self._seen(name)
        found, collection = self._store.distinct_values(name, field, seen)
        return found, _viewed(collection, seen)

    def facets(
        self, name: str, fields: Sequence[str], where: Where, *, limit: int
    ) -> tuple[dict[str, Facet], int, Collection]:
        seen = self._seen(name)
        found, total, collection = self._store.facets(name, fields, all_of(seen, where), limit=limit)
        return found, total, _viewed(collection, seen)

    def text_search(
        self, name: str, query: str, where: Where, *, limit: int
    ) -> tuple[list[TextMatch], int, Collection]:
        seen = self._seen(name)
        found, total, collection = self._store.text_search(name, query, where, limit=limit, seen=seen)
        return found, total, _viewed(collection, seen)

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
        seen = self._seen(name)
        found = self._store.query(
            name,
            embedding,
            top_k=top_k,
            where=where,
            max_distance=max_distance,
            gather_by=gather_by,
            with_embeddings=with_embeddings,
            seen=seen,
        )
        # Which documents the index proposes depends on those that are not seen.
        compared = found.compared if seen == EVERYTHING else None
        return replace(found, collection=_viewed(found.collection, seen), compared=compared)

    def projection(self, name: str, where: Where, *, limit: int, field: str | None) -> Projection:
        seen = self._seen(name)
        found = self._store.projections.of(name, all_of(seen, where), limit=limit, field=field)
        return replace(found, collection=_viewed(found.collection, seen))

    def gather(
        self, name: str, spec: GatherSpec, *, ids: Sequence[str] | None = None, where: Where | None = None
    ) -> Gathered:
        seen = self._seen(name)
        found = self._store.gather(name, spec, ids=ids, where=where, seen=seen)
        return replace(found, collection=_viewed(found.collection, seen))

    def index(self, name: str) -> IndexStatus:
        self._check_writer(name)
        return self._store.index(name)

    def indexes(self, collections: Sequence[Collection]) -> list[IndexStatus]:
        """Return what is known of the indexes of those of these collections that `index` would tell about."""
        caller = current()
        return self._store.indexes([each for each in collections if self._writes(caller, each.name)])

    def check_index(self, name: str) -> IndexStatus:
        self._check_writer(name)
        return self._store.check_index(name)

    def rebuild_index(self, name: str) -> IndexStatus:
        self._check_writer(name)
        return self._store.rebuild_index(name)

    def index_lag(self) -> int:
        return self._store.index_lag()

    def _knows(self, caller: Caller, name: str) -> bool:
        return caller.knows(name) or name in self._apart

    def _reader(self, name: str) -> Caller:
        caller = current()
        noted.note_collection(name)
        if not self._knows(caller, name):
            raise CollectionNotFoundError(name)
        return caller

    def _seen(self, name: str) -> Where:
        """Return the filter of the documents that exist for the caller."""
        return self._view(self._reader(name), name)

    def _view(self, caller: Caller, name: str) -> Where:
        if caller.is_admin:
            return EVERYTHING
        return all_of(caller.where, self._apart[name](caller)) if name in self._apart else caller.where

    def _check_writer(self, name: str) -> None:
        caller = current()
        noted.note_collection(name)
        if not caller.knows(name):
            raise CollectionNotFoundError(name)
        if not self._writes(caller, name):
            raise CollectionForbiddenError(name)

    def _writes(self, caller: Caller, name: str) -> bool:
        """Return whether a collection is the caller's as a whole."""
        return caller.knows(name) and not caller.is_filtered and (name not in self._apart or caller.is_admin)

    def _shown(self, caller: Caller, found: Sequence[Collection]) -> list[Collection]:
        shown = []
        for each in found:
            with suppress(CollectionNotFoundError):  # deleted meanwhile
                shown.append(self._shown_one(caller, each))
        return shown

    def _shown_one(self, caller: Caller, collection: Collection) -> Collection:
        """Return a collection as if it had only the documents that the caller sees."""
        seen = self._view(caller, collection.name)
        if seen == EVERYTHING:
            return collection
        state = collection.key, collection.revision, repr(seen)
        with self._guard:
            known = self._counts.get(state)
        if known is not None:
            count, now = known, collection
        else:
            count, now = self._store.count(collection.name, seen)
            with self._guard:
                self._counts[now.key, now.revision, repr(seen)] = count
        return _viewed(replace(now, count=count, dimension=now.dimension if count else None), seen)


def _viewed(collection: Collection, seen: Where) -> Collection:
    """Return the collection as one of which its reader sees what matches `seen`: its version is then another than that
    of other readers, who may use one cache, and than that of a reader whose filter was changed."""
    if seen == EVERYTHING:
        return collection
    # By its text: in Python, the filters for 1 and for true are equal.
    return replace(collection, view=hashlib.blake2b(repr(seen).encode(), digest_size=6).hexdigest())
