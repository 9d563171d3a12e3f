"""The storage proxy as a service of its own, over REST: of this release or older.

An older service is told by its collections, which have no `revision`. It is asked by the routes that every release
has, with the filters of Chroma's grammar, and for nothing that it would answer otherwise.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import orjson

from providers.answers import reading
from providers.arguments import (
    checked_batch,
    checked_collection,
    checked_ids,
    checked_limit,
    checked_name,
    checked_selection,
    checked_top_k,
    checked_vector,
    in_order,
)
from providers.base import (
    Filter,
    ProviderContext,
    RagProvider,
    Registry,
    SupportsDynamicCollections,
    SupportsEmbeddings,
    SupportsGather,
    SupportsMetadataFiltering,
    SupportsOrderBy,
    SupportsSearch,
    SupportsTextSearch,
)
from providers.chroma_filters import Clause, to_chroma
from providers.cursors import decode_offset, encode_cursor
from providers.filters import UnsupportedFilterError
from providers.rest import Body, RouteNotFoundError
from providers.wrapper_client import WrapperClient
from schemas.configuration import JsonSchema, read_schema
from schemas.connections import UNHEALTHY, CollectionInfo
from schemas.documents import parse_embedding
from schemas.errors import ConflictError, RagError, UnavailableError, UnsupportedError
from schemas.records import (
    METRICS,
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
from schemas.scores import rounded, score
from schemas.where import Where, parse_where
from schemas.wire import MAX_PAGE, MAX_TOP_K

DEFAULT_METRIC = "cosine"
METRIC_KEY = "hnsw:space"
"""Where older services leave the metric, for Chroma to read; those of this release ignore it."""
NAMELESS = "nameless-"
"""What ids begin with that the oldest services did not give: nothing can be fetched or deleted by them."""
PLACE = "the connection's URL"
"""What errors call it: the URL itself may have come out of a placeholder."""


class ChromaWrapperProvider(
    RagProvider,
    SupportsSearch,
    SupportsMetadataFiltering,
    SupportsEmbeddings,
    SupportsDynamicCollections,
    SupportsTextSearch,
    SupportsGather,
    SupportsOrderBy,
):
    """`sleep` serves the requests that are sent again; `place` is what errors call the service's address."""

    id = "chromadb-wrapper"
    display_name = "ChromaDB wrapper service"
    description = "The collections of another service like this one, also of an older release"
    limits: ClassVar[Mapping[str, Any]] = {
        "max_top_k": MAX_TOP_K,
        "max_page": MAX_PAGE,
        "older_services": "no text_search, gather, order_by or embeddings of pages, and Chroma's filters only",
    }

    def __init__(
        self,
        config: Mapping[str, Any],
        context: ProviderContext | None = None,
        *,
        place: str = PLACE,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(config, context)
        self._name = f"The service at {place}"
        self._client = WrapperClient(
            self.config["url"],
            network=self.context.network,
            redactor=self.context.redactor,
            api_key=self.config.get("api_key"),
            timeout_seconds=self.config["timeout_seconds"],
            place=place,
            sleep=sleep,
        )
        self._is_known_as_current = False

    @classmethod
    def connection_schema(cls) -> JsonSchema:
        return read_schema("rag-chromadb-wrapper")

    def close(self) -> None:
        self._client.close()

    def check(self) -> dict[str, Any]:
        report = self._client.health()
        if report.get("status") == UNHEALTHY:
            raise UnavailableError(f"{self._name} says that it is unhealthy", error_type="unknown")
        # A proxy before the service may let everybody ask for its health.
        found = self.collections()
        told = {name: report[name] for name in ("status", "version", "index_lag") if name in report}
        return told | {"collections_count": len(found)}

    def collections(self) -> list[CollectionInfo]:
        with self._reading():
            return sorted(map(_info, self._client.collections()), key=lambda collection: collection.name)

    def collection(self, name: str) -> CollectionInfo:
        found = self._client.collection(checked_name(name))
        with self._reading():
            return _info(found)

    def create_collection(self, name: str, metadata: Metadata, *, metric: str = "cosine") -> CollectionInfo:
        kept = checked_collection(name, metadata, metric)
        try:
            self._client.create_collection(name, {**kept, METRIC_KEY: metric}, metric=metric)
        except RagError as error:
            if isinstance(error, ConflictError) or "already exists" not in error.message:
                raise
            raise ConflictError(error.message, code="collection_exists", collection=name) from error
        return self.collection(name)

    def delete_collection(self, name: str) -> None:
        self._client.delete_collection(checked_name(name))

    def add_documents(self, collection: str, batch: DocumentBatch, *, replace_where: Filter | None = None) -> bool:
        checked = checked_batch(batch)
        if replace_where is not None:
            parse_where(replace_where, "replace_where")
        documents = [
            {"id": document_id, "text": text, "metadata": metadata, "embedding": embedding}
            for document_id, text, metadata, embedding in zip(
                checked.ids, checked.texts, checked.metadatas, checked.embeddings, strict=True
            )
        ]
        if self._is_current(collection):
            answer = self._client.add_documents(collection, documents, replace_where=replace_where)
            return bool(answer.get("indexed", True))
        if replace_where is not None:
            raise self._too_old("replace_where")
        self._client.add_documents(collection, documents, with_arrays=True)
        return True

    def delete_documents(
        self, collection: str, *, ids: Sequence[str] | None = None, where: Filter | None = None
    ) -> None:
        tree = checked_selection(ids, where)
        checked_name(collection)
        chosen = None if ids is None else list(ids)
        if tree is not None and not self._is_current(collection):
            chosen, where = self._ids(collection, self._clause(tree)), None
        if chosen is not None and any(each.startswith(NAMELESS) for each in chosen):
            raise self._too_old("deleting documents that it gives no ids")
        with self._needing("deleting documents"):
            self._client.delete_documents(collection, ids=chosen, where=where)

    def search(self, collection: str, embedding: Vector, *, top_k: int = 3, where: Filter | None = None) -> list[Match]:
        vector, tree = checked_vector(embedding), parse_where(where)
        checked_top_k(top_k)
        if self._is_current(collection):
            answer = self._client.query(collection, vector, top_k=top_k, where=where)
            with self._reading():
                return [
                    Match(_document(each), float(each["distance"]), float(each["score"])) for each in answer["results"]
                ]
        metric, clause = self.collection(collection).metric, self._clause(tree)
        if clause is False:
            return []
        answer = self._client.query(collection, vector, top_k=top_k, where=_sent(clause), with_arrays=True)
        with self._reading():
            distances = [(each, rounded(float(each["distance"]), metric)) for each in answer["results"]]
            return [Match(_document(each), distance, score(distance, metric)) for each, distance in distances]

    def text_search(
        self, collection: str, query: str, *, top_k: int = 10, where: Filter | None = None
    ) -> list[TextMatch]:
        parse_where(where)
        with self._needing("text_search"):
            answer = self._client.text_search(checked_name(collection), query, top_k=checked_top_k(top_k), where=where)
        with self._reading():
            return [TextMatch(_document(each), float(each["score"])) for each in answer["results"]]

    def gather(self, collection: str, ids: Sequence[str], spec: GatherSpec) -> list[Group]:
        with self._needing("gather"):
            answer = self._client.gather(
                checked_name(collection), by=spec.by, ids=list(ids), order_by=_spelt(spec.order_by), limit=spec.limit
            )
        with self._reading():
            return [_group(each) for each in answer["groups"]]

    def documents(
        self,
        collection: str,
        where: Filter | None = None,
        *,
        limit: int = 100,
        cursor: str | None = None,
        with_embeddings: bool = False,
    ) -> Page:
        tree, wanted = parse_where(where), checked_limit(limit)
        if self._is_current(collection):
            return self._page(collection, where, (), wanted, cursor, with_embeddings)
        if with_embeddings:
            raise self._too_old("embeddings of pages")
        offset = decode_offset(cursor, tree)
        page = self._listed(collection, self._clause(tree), limit=wanted, offset=offset)
        following = offset + len(page.documents)
        more = following < page.total and page.documents
        return Page(page.documents, page.total, encode_cursor(following, tree) if more else None, 0)

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
        parse_where(where)
        wanted = checked_limit(limit)
        if not self._is_current(collection):
            raise self._too_old("order_by")
        return self._page(collection, where, order_by, wanted, cursor, with_embeddings)

    def documents_by_id(self, collection: str, ids: Sequence[str], *, with_embeddings: bool = False) -> list[Document]:
        wanted = checked_ids(ids)
        if not self._is_current(collection):
            raise self._too_old("documents by id")
        if not wanted:
            return []
        answer = self._client.page(
            collection, ids=wanted, limit=MAX_PAGE, include=["embedding"] if with_embeddings else []
        )
        with self._reading():
            return in_order(map(_document, answer["documents"]), wanted)

    def _page(
        self,
        collection: str,
        where: Filter | None,
        order_by: Sequence[OrderBy],
        limit: int,
        cursor: str | None,
        with_embeddings: bool,
    ) -> Page:
        with self._needing("pages by cursor"):
            answer = self._client.page(
                collection,
                where,
                order_by=_spelt(order_by),
                limit=limit,
                cursor=cursor,
                include=["embedding"] if with_embeddings else [],
            )
        with self._reading():
            documents = [_document(each) for each in answer["documents"]]
            return Page(documents, int(answer["total"]), answer.get("next_cursor"), int(answer.get("revision", 0)))

    def _listed(self, collection: str, clause: Clause | bool, *, limit: int, offset: int) -> Page:
        if clause is False:
            return Page([], 0, None, 0)
        answer = self._client.listed(collection, _sent(clause), limit=limit, offset=offset)
        with self._reading():
            return Page([_document(each) for each in answer["documents"]], int(answer["total"]), None, 0)

    def _ids(self, collection: str, clause: Clause | bool) -> list[str]:
        page = self._listed(collection, clause, limit=MAX_PAGE, offset=0)
        ids = [document.id for document in page.documents]
        while len(ids) < page.total and page.documents:
            page = self._listed(collection, clause, limit=MAX_PAGE, offset=len(ids))
            ids += [document.id for document in page.documents]
        return ids

    def _is_current(self, collection: str) -> bool:
        """Whether the service answers all that this release does. Raises CollectionNotFoundError."""
        checked_name(collection)
        if not self._is_known_as_current:
            self._is_known_as_current = "revision" in self._client.collection(collection)
        return self._is_known_as_current

    def _clause(self, where: Where) -> Clause | bool:
        try:
            return to_chroma(where)
        except UnsupportedFilterError as error:
            raise self._too_old(f"this filter ({error.message})", **error.details) from error

    @contextmanager
    def _needing(self, what: str) -> Iterator[None]:
        try:
            yield
        except RouteNotFoundError as error:
            raise self._too_old(what) from error

    def _too_old(self, what: str, **details: Any) -> UnsupportedError:
        return UnsupportedError(f"{self._name} is too old for {what}", code="service_too_old", **details)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with reading(self._name):
            yield


def _info(found: Body) -> CollectionInfo:
    metadata = dict(found.get("metadata") or {})
    told = metadata.get(METRIC_KEY)
    dimension, count, revision, identity = (found.get(key) for key in ("dimension", "count", "revision", "id"))
    return CollectionInfo(
        str(found["name"]),
        None if count is None else int(count),
        metadata,
        found.get("metric") or (told if told in METRICS else DEFAULT_METRIC),
        None if dimension is None else int(dimension),
        None if revision is None else int(revision),
        None if identity is None else str(identity),
    )


def _document(found: Body) -> Document:
    embedding, document_id = found.get("embedding"), found.get("id")
    return Document(
        _name_of(found) if document_id is None else str(document_id),
        _text_of(found),
        orjson.dumps(found.get("metadata") or {}).decode(),
        0,
        None if embedding is None else parse_embedding(embedding),
    )


def _text_of(found: Body) -> str:
    """Empty where a service answers null: Chroma may have records without a text."""
    text = found["text"]
    return "" if text is None else str(text)


def _name_of(found: Body) -> str:
    """An id for a document that comes without one: the same for the same text and metadata, wherever it is found."""
    said = orjson.dumps([_text_of(found), found.get("metadata") or {}], option=orjson.OPT_SORT_KEYS)
    return NAMELESS + hashlib.sha256(said).hexdigest()[:32]


def _group(found: Body) -> Group:
    return Group(
        found["key"],
        int(found["rank"]),
        [_document(each) for each in found["documents"]],
        frozenset(str(each["id"]) for each in found["documents"] if each["hit"]),
        int(found["total"]),
        found.get("best_distance"),
    )


def _sent(clause: Clause | bool) -> Clause | None:
    return clause if isinstance(clause, dict) else None


def _spelt(order_by: Sequence[OrderBy]) -> list[str]:
    return [f"-{each.field}" if each.descending else each.field for each in order_by]


def register(registry: Registry) -> None:
    registry.register(ChromaWrapperProvider)
