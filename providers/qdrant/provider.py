"""Qdrant, as a server or, for small collections, as a folder of this machine that its embedded form reads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from providers.arguments import (
    check_dimension,
    check_selection,
    checked_batch,
    checked_collection,
    checked_ids,
    checked_limit,
    checked_top_k,
    checked_vector,
    in_order,
    parts_of,
)
from providers.base import (
    Library,
    ProviderContext,
    RagProvider,
    Registry,
    SupportsDynamicCollections,
    SupportsEmbeddings,
    SupportsMetadataFiltering,
    SupportsSearch,
)
from providers.cursors import decode_cursor, encode_cursor
from providers.outbound.answers import reading, whole
from providers.outbound.json_client import JsonClient, RetryPolicy
from providers.outbound.recognition import Sign
from providers.outbound.vendor_dialect import VendorDialect
from providers.qdrant.collection_layout import METRIC_KEY, counted, described, vector_name_of, with_vector
from providers.qdrant.filters import NOT_OURS, Condition, to_qdrant
from providers.qdrant.records import (
    foreign_point_id,
    point_id,
    to_document,
    to_payload,
    to_vector,
)
from providers.storage_protocol import folder_bytes
from schemas.bounds import MAX_PAGE, MAX_TOP_K
from schemas.configuration import JsonSchema, read_schema
from schemas.connections import CollectionInfo
from schemas.errors import (
    CollectionNotFoundError,
    ConfigurationError,
    ConflictError,
)
from schemas.records import Document, DocumentBatch, Match, Metadata, Page, Vector
from schemas.scores import rounded, score
from schemas.where import EVERYTHING, Where

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

    from providers.qdrant.access import FolderAccess, ServerAccess

POINTS_PER_CALL = 500
MAX_BODY_BYTES = 16 * 1024 * 1024  # a stock Qdrant server takes 32 MB


class QdrantProvider(
    RagProvider, SupportsSearch, SupportsMetadataFiltering, SupportsEmbeddings, SupportsDynamicCollections
):
    """The collections of one server or folder.

    `retry` and `sleep` are for requests that may succeed when they are sent again.
    """

    id = "qdrant"
    display_name = "Qdrant"
    sign = Sign("/", "title", "qdrant")
    description = "The collections of a Qdrant server, or of an embedded Qdrant in the data directory"
    libraries = (
        Library("qdrant_client", "pip install 'rag-wrapper[qdrant]'"),
        Library("filelock", "pip install 'rag-wrapper[qdrant]'"),
    )
    limits: ClassVar[Mapping[str, Any]] = {
        "max_top_k": MAX_TOP_K,
        "max_page": MAX_PAGE,
        "filters": "no ordering of strings, no numbers beyond 2^53; an empty list counts as absent",
        "order": "documents come in the order of their point ids, not of their insertion",
        "embeddings": "of cosine collections come back with length 1",
        "search": "approximate on a server, by Qdrant's index; exact in a folder",
        "server": "new collections need a server that adds vectors to them later (1.18 or newer)",
        "folder": "is read as a whole by each operation: for small collections",
    }

    def __init__(
        self,
        config: Mapping[str, Any],
        context: ProviderContext | None = None,
        *,
        retry: RetryPolicy | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(config, context)
        self._lock = threading.Lock()
        self._access: FolderAccess | ServerAccess | None = None
        self._service: JsonClient | None = None
        self._folder: Path | None = None
        if "url" in self.config:
            self._service = JsonClient(
                self.config["url"],
                VendorDialect("document store", self.id),
                network=self.context.network,
                redactor=self.context.redactor,
                api_key=self.config.get("api_key"),
                key_header="api-key",
                timeout_seconds=self.config["timeout_seconds"],
                retry=retry,
                sleep=sleep,
            )
        elif self.context.data_dir is None:
            raise ConfigurationError(
                "Provider 'qdrant' keeps its folder in the data directory, and this program has none",
                provider=self.id,
                error_type="invalid_config",
            )
        else:
            self._folder = self.context.data_dir / "qdrant" / self.config["path"]

    @classmethod
    def connection_schema(cls) -> JsonSchema:
        return read_schema("rag-qdrant")

    def close(self) -> None:
        with self._lock:
            access, self._access = self._access, None
        if access is not None:
            access.close()
        if self._service is not None:
            self._service.close()

    def check(self) -> dict[str, Any]:
        with self._client() as client:
            details = {"version": client.info().version, "collections_count": len(client.get_collections().collections)}
        if self._folder is not None:
            details["storage_bytes"] = folder_bytes(self._folder)
        return details

    def collections(self) -> list[CollectionInfo]:
        found = []
        with self._client() as client:
            for each in client.get_collections().collections:
                try:
                    found.append(counted(client, each.name))
                except CollectionNotFoundError:
                    continue
        return sorted(found, key=lambda collection: collection.name)

    def collection(self, name: str) -> CollectionInfo:
        with self._client() as client:
            return counted(client, name)

    def create_collection(self, name: str, metadata: Metadata, *, metric: str = "cosine") -> CollectionInfo:
        """Create a collection without a vector: Qdrant needs a dimension, and only the first documents tell it."""
        kept = checked_collection(name, metadata, metric)
        with self._client() as client:
            if client.collection_exists(name):
                raise ConflictError(f"Collection '{name}' already exists", code="collection_exists", collection=name)
            client.create_collection(name, vectors_config={}, metadata={**kept, METRIC_KEY: metric})
            return counted(client, name)

    def delete_collection(self, name: str) -> None:
        with self._client() as client:
            described(client, name)
            client.delete_collection(name)

    def add_documents(self, collection: str, batch: DocumentBatch, *, replace_where: Where | None = None) -> bool:
        from qdrant_client import models

        checked = checked_batch(batch)
        stale = None if replace_where is None else to_qdrant(replace_where)
        ids = [point_id(each) for each in checked.ids]
        with self._client() as client:
            found = with_vector(client, described(client, collection), checked.dimension)
            check_dimension(found.info, checked.dimension)
            for part in parts_of(checked, max_documents=POINTS_PER_CALL, max_bytes=MAX_BODY_BYTES):
                points = [
                    models.PointStruct(
                        id=point_id(document_id),
                        vector={found.vector_name: vector} if found.vector_name else vector,
                        payload=to_payload(document_id, text, metadata),
                    )
                    for document_id, text, metadata, vector in zip(
                        part.ids, part.texts, part.metadatas, part.embeddings.tolist(), strict=True
                    )
                ]
                client.upsert(collection, points, wait=True)
            if replace_where is not None:
                others = {"must": [stale] if stale else [], "must_not": [{"has_id": ids}]}
                client.delete(collection, _filter(others), wait=True)
        return True

    def delete_documents(
        self, collection: str, *, ids: Sequence[str] | None = None, where: Where | None = None
    ) -> None:
        check_selection(ids, where)
        condition = _of_ids(ids or ()) if where is None else to_qdrant(where)
        with self._client() as client:
            described(client, collection)
            client.delete(collection, _filter(condition or {}), wait=True)

    def search(self, collection: str, embedding: Vector, *, top_k: int = 3, where: Where = EVERYTHING) -> list[Match]:
        vector, condition = checked_vector(embedding), to_qdrant(where)
        checked_top_k(top_k)
        with self._client() as client:
            found = described(client, collection)
            check_dimension(found.info, len(vector), field="query_embedding")
            if found.info.dimension is None and found.is_ours:
                return []
            name = vector_name_of(found)
            points = client.query_points(
                collection,
                query=vector.tolist(),
                using=name or None,
                limit=top_k,
                query_filter=None if condition is None else _filter(condition),
                with_payload=True,
            ).points
        with self._reading():
            return [_match(point, found.info.metric) for point in points]

    def documents(
        self,
        collection: str,
        where: Where = EVERYTHING,
        *,
        limit: int = 100,
        cursor: str | None = None,
        with_embeddings: bool = False,
    ) -> Page:
        wanted, condition = checked_limit(limit), to_qdrant(where)
        chosen = None if condition is None else _filter(condition)
        with self._client() as client:
            found = described(client, collection)
            total = whole(client.count(collection, count_filter=chosen, exact=True).count)
            records, following = client.scroll(
                collection,
                scroll_filter=chosen,
                limit=wanted,
                offset=None if cursor is None else decode_cursor(cursor, where),
                with_payload=True,
                with_vectors=with_embeddings,
            )
        with self._reading():
            documents = [_document(record, found.vector_name) for record in records]
        return Page(documents, total, None if following is None else encode_cursor(_place(following), where), 0)

    def documents_by_id(self, collection: str, ids: Sequence[str], *, with_embeddings: bool = False) -> list[Document]:
        wanted = checked_ids(ids)
        with self._client() as client:
            found = described(client, collection)
            if not wanted:
                return []
            records, _ = client.scroll(
                collection,
                scroll_filter=_filter(_of_ids(wanted)),
                limit=len(wanted),
                with_payload=True,
                with_vectors=with_embeddings,
            )
        with self._reading():
            return in_order((_document(record, found.vector_name) for record in records), wanted)

    @contextmanager
    def _client(self) -> Iterator[QdrantClient]:
        with self._lock:
            if self._access is None:
                self._access = self._opened()
            access = self._access
        with access.client() as client:
            yield client

    def _opened(self) -> FolderAccess | ServerAccess:
        from providers.qdrant.access import FolderAccess, ServerAccess

        if self._service is not None:
            return ServerAccess(self._service)
        assert self.context.data_dir is not None
        return FolderAccess(
            self.context.data_dir,
            self.config["path"],
            self.config["timeout_seconds"],
            is_trial=self.context.is_trial,
        )

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with reading("The document store 'qdrant'"):
            yield


def _of_ids(ids: Sequence[str]) -> Condition:
    foreign = [found for each in ids if (found := foreign_point_id(each)) is not None]
    return {
        "should": [
            {"has_id": [point_id(each) for each in ids]},
            {"must": [{"has_id": foreign}, NOT_OURS]},
        ]
    }


def _filter(condition: Condition) -> Any:
    from qdrant_client import models

    return models.Filter.model_validate(condition)


def _match(point: Any, metric: str) -> Match:
    distance = rounded(point.score**2 if metric == "l2" else 1.0 - point.score, metric)
    return Match(to_document(point.id, point.payload or {}, None), distance, score(distance, metric))


def _document(record: Any, vector_name: str | None) -> Document:
    embedding = None if vector_name is None else to_vector(record.vector, vector_name)
    return to_document(record.id, record.payload or {}, embedding)


def _place(following: Any) -> int | str:
    return following if isinstance(following, int) else str(following)


def register(registry: Registry) -> None:
    registry.register(QdrantProvider)
