"""The storage proxy of this process, as a provider: no network, no JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from providers.arguments import (
    checked_batch,
    checked_collection,
    checked_ids,
    checked_limit,
    checked_selection,
    checked_top_k,
    checked_vector,
)
from providers.base import (
    Filter,
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
)
from providers.storage import Storage, folder_bytes
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
    TextMatch,
    Vector,
)
from schemas.where import parse_where
from schemas.wire import MAX_PAGE, MAX_TOP_K


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
):
    """Needs `context.storage`; raises ConfigurationError without."""

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

    @classmethod
    def connection_schema(cls) -> JsonSchema:
        return read_schema("rag-local")

    def check(self) -> dict[str, Any]:
        details: dict[str, Any] = {"collections_count": len(self._storage.collections())}
        if self.context.data_dir is not None:
            details["storage_bytes"] = folder_bytes(self.context.data_dir)
        return details

    def collections(self) -> list[CollectionInfo]:
        return [_info(each) for each in self._storage.collections()]

    def collection(self, name: str) -> CollectionInfo:
        return _info(self._storage.collection(name))

    def create_collection(self, name: str, metadata: Metadata, *, metric: str = "cosine") -> CollectionInfo:
        self._storage.create_collection(name, checked_collection(name, metadata, metric), metric)
        return self.collection(name)

    def delete_collection(self, name: str) -> None:
        self._storage.delete_collection(name)

    def add_documents(self, collection: str, batch: DocumentBatch, *, replace_where: Filter | None = None) -> bool:
        replaced = None if replace_where is None else parse_where(replace_where, "replace_where")
        return self._storage.add_documents(collection, checked_batch(batch), replace_where=replaced).indexed

    def add_documents_unless(self, collection: str, batch: DocumentBatch, unless: Filter) -> bool:
        return self._storage.add_documents(collection, checked_batch(batch), unless=parse_where(unless)).indexed

    def delete_documents(
        self, collection: str, *, ids: Sequence[str] | None = None, where: Filter | None = None
    ) -> None:
        tree = checked_selection(ids, where)
        self._storage.delete_documents(collection, ids=ids, where=tree)

    def search(self, collection: str, embedding: Vector, *, top_k: int = 3, where: Filter | None = None) -> list[Match]:
        vector, tree = checked_vector(embedding), parse_where(where)
        return self._storage.query(collection, vector, top_k=checked_top_k(top_k), where=tree).matches

    def text_search(
        self, collection: str, query: str, *, top_k: int = 10, where: Filter | None = None
    ) -> list[TextMatch]:
        found, _, _ = self._storage.text_search(collection, query, parse_where(where), limit=checked_top_k(top_k))
        return found

    def gather(self, collection: str, ids: Sequence[str], spec: GatherSpec) -> list[Group]:
        groups, _ = self._storage.gather(collection, spec, ids=ids)
        return groups

    def documents(
        self,
        collection: str,
        where: Filter | None = None,
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
        where: Filter | None = None,
        *,
        order_by: Sequence[OrderBy],
        limit: int = 100,
        cursor: str | None = None,
        with_embeddings: bool = False,
    ) -> Page:
        page, _ = self._storage.page(
            collection,
            parse_where(where),
            limit=checked_limit(limit),
            order_by=tuple(order_by),
            cursor=cursor,
            with_embeddings=with_embeddings,
        )
        return page

    def documents_by_id(self, collection: str, ids: Sequence[str], *, with_embeddings: bool = False) -> list[Document]:
        found, _ = self._storage.documents(collection, checked_ids(ids), with_embeddings=with_embeddings)
        return found


def _info(found: Collection) -> CollectionInfo:
    return CollectionInfo(
        found.name, found.count, found.metadata, found.metric, found.dimension, found.revision, found.id, found.key
    )


def register(registry: Registry) -> None:
    registry.register(LocalProvider)
