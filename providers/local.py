"""The storage proxy of this process as a provider, without network and JSON."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from providers.arguments import (
    check_selection,
    checked_batch,
    checked_collection,
    checked_ids,
    checked_limit,
    checked_top_k,
    checked_vector,
)
from providers.base import (
    ProviderContext,
    RagProvider,
    Registry,
    SupportsConditionalWrites,
    SupportsDynamicCollections,
    SupportsEmbeddings,
    SupportsGather,
    SupportsMetadataFiltering,
    SupportsOrderBy,
    SupportsSearch,
    SupportsTextSearch,
    TellsPlans,
)
from providers.pinned_writes import PinsEmbeddings, PinsWrites
from providers.storage_protocol import Storage, folder_bytes
from schemas.access.callers import current
from schemas.access.owners import EVERYTHING_SEEN
from schemas.bounds import MAX_PAGE, MAX_TOP_K
from schemas.configuration import JsonSchema, read_schema
from schemas.connections import CollectionInfo
from schemas.errors import ConfigurationError
from schemas.records import (
    Collection,
    Document,
    DocumentBatch,
    GatherSpec,
    Group,
    Match,
    Metadata,
    OrderBy,
    Page,
    Planned,
    SearchPlan,
    TextMatch,
    Vector,
)
from schemas.storage.reembedding import ReembeddedMeanwhileError
from schemas.where import EVERYTHING, Where


class LocalProvider(
    RagProvider,
    SupportsConditionalWrites,
    SupportsSearch,
    SupportsMetadataFiltering,
    SupportsEmbeddings,
    SupportsDynamicCollections,
    SupportsTextSearch,
    SupportsGather,
    SupportsOrderBy,
    TellsPlans,
    PinsWrites,
    PinsEmbeddings,
):
    """The collections of `context.storage`. A program without a storage gets ConfigurationError when it opens one."""

    id = "local"
    display_name = "Storage of this service"
    description = "The collections that this service stores itself"
    limits: ClassVar[Mapping[str, Any]] = {"max_top_k": MAX_TOP_K, "max_page": MAX_PAGE}

    def __init__(self, config: Mapping[str, Any], context: ProviderContext | None = None) -> None:
        super().__init__(config, context)
        if self.context.storage is None:
            raise ConfigurationError(
                "Provider 'local' needs the storage of this service, and this program has none",
                provider=self.id,
                error_type="invalid_config",
            )
        self._storage: Storage = self.context.storage
        self._pins: dict[str, str] = {}
        self._keys: dict[str, int | None] = {}

    @classmethod
    def connection_schema(cls) -> JsonSchema:
        return read_schema("rag-local")

    def check(self) -> dict[str, Any]:
        details: dict[str, Any] = {"collections_count": len(self._storage.collections())}
        # The size of the whole directory tells of what others have stored.
        if self.context.data_dir is not None and current().reach == EVERYTHING_SEEN:
            details["storage_bytes"] = folder_bytes(self.context.data_dir)
        return details

    def collections(self) -> list[CollectionInfo]:
        return [_info(each) for each in self._storage.collections()]

    def collection(self, name: str) -> CollectionInfo:
        return _info(self._storage.collection(name))

    def collections_named(self, names: Sequence[str]) -> list[CollectionInfo]:
        return [_info(each) for each in self._storage.collections_named(names)]

    def create_collection(self, name: str, metadata: Metadata, *, metric: str = "cosine") -> CollectionInfo:
        self._storage.create_collection(name, checked_collection(name, metadata, metric), metric)
        return self.collection(name)

    def delete_collection(self, name: str) -> None:
        self._storage.delete_collection(name)

    def pinned(self, collection: str, collection_id: str) -> Self:
        pinned = copy.copy(self)
        pinned._pins = {**self._pins, collection: collection_id}
        return pinned

    def embedded_as(self, collection: str, described: CollectionInfo) -> Self:
        pinned = copy.copy(self)
        pinned._keys = {**self._keys, collection: described.number}
        return pinned

    def add_documents(self, collection: str, batch: DocumentBatch, *, replace_where: Where | None = None) -> bool:
        return self._add(collection, batch, replace_where=replace_where)

    def add_documents_unless(self, collection: str, batch: DocumentBatch, unless: Where) -> bool:
        return self._add(collection, batch, unless=unless)

    def delete_documents(
        self, collection: str, *, ids: Sequence[str] | None = None, where: Where | None = None
    ) -> None:
        check_selection(ids, where)
        pin = self._pins.get(collection)
        self._storage.delete_documents(collection, ids=ids, where=where, collection_id=pin)

    def search(self, collection: str, embedding: Vector, *, top_k: int = 3, where: Where = EVERYTHING) -> list[Match]:
        return self.planned_search(collection, embedding, top_k=top_k, where=where).matches

    def planned_search(self, collection: str, embedding: Vector, *, top_k: int, where: Where) -> Planned:
        vector = checked_vector(embedding)
        found = self._storage.query(collection, vector, top_k=checked_top_k(top_k), where=where, with_embeddings=True)
        return Planned(found.matches, SearchPlan(found.plan, found.compared, found.recall), _info(found.collection))

    def text_search(
        self, collection: str, query: str, *, top_k: int = 10, where: Where = EVERYTHING
    ) -> list[TextMatch]:
        found, _, _ = self._storage.text_search(collection, query, where, limit=checked_top_k(top_k))
        return found

    def gather(self, collection: str, ids: Sequence[str], spec: GatherSpec) -> list[Group]:
        return self._storage.gather(collection, spec, ids=ids).groups

    def documents(
        self,
        collection: str,
        where: Where = EVERYTHING,
        *,
        limit: int = 100,
        cursor: str | None = None,
        with_embeddings: bool = False,
    ) -> Page:
        return self.ordered_documents(
            collection, where, order_by=(), limit=limit, cursor=cursor, with_embeddings=with_embeddings
        )

    def ordered_documents(
        self,
        collection: str,
        where: Where = EVERYTHING,
        *,
        order_by: Sequence[OrderBy],
        limit: int = 100,
        cursor: str | None = None,
        with_embeddings: bool = False,
    ) -> Page:
        page, _ = self._storage.page(
            collection,
            where,
            limit=checked_limit(limit),
            order_by=tuple(order_by),
            cursor=cursor,
            with_embeddings=with_embeddings,
        )
        return page

    def documents_by_id(self, collection: str, ids: Sequence[str], *, with_embeddings: bool = False) -> list[Document]:
        documents, found = self._storage.documents(collection, checked_ids(ids), with_embeddings=with_embeddings)
        if with_embeddings and self._keys.get(collection) not in (None, found.key):
            raise ReembeddedMeanwhileError(collection)
        return documents

    def _add(
        self,
        collection: str,
        batch: DocumentBatch,
        *,
        replace_where: Where | None = None,
        unless: Where | None = None,
    ) -> bool:
        checked, pin, key = checked_batch(batch), self._pins.get(collection), self._keys.get(collection)
        return self._storage.add_documents(
            collection, checked, replace_where=replace_where, unless=unless, collection_id=pin, collection_key=key
        ).indexed


def _info(found: Collection) -> CollectionInfo:
    return CollectionInfo(
        found.name, found.count, found.metadata, found.metric, found.dimension, found.revision, found.id, found.key
    )


def register(registry: Registry) -> None:
    registry.register(LocalProvider)
