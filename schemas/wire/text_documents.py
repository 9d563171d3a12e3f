"""Bodies of contract *documents*, and its answers as JSON."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from marshmallow import ValidationError, fields, post_load

from schemas.bounds import DEFAULT_PAGE, MAX_PAGE
from schemas.contracts.text_documents import (
    DEFAULT_TOP_K,
    MAX_TOP_K,
    Deleted,
    Filters,
    KnownDocument,
    RagDocument,
    SimilarChunk,
    SimilarChunks,
    StoreMetrics,
    Upserted,
)
from schemas.errors import InvalidInputError
from schemas.wire.body import Body, ExactBody
from schemas.wire.checked_fields import CollectionName, Share, Words
from schemas.wire.fields import Count, Filtered, MetadataObject, Text
from schemas.wire.search import AskingCollections, collections_receipt

MAX_TAGS = 100
_SOURCE = re.compile(r"[a-zA-Z0-9_-]+")

Json = dict[str, Any]


class Tags(fields.Field[tuple[str, ...]]):
    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> tuple[str, ...]:
        if not isinstance(value, list):
            raise ValidationError("must be an array of strings")
        for index, tag in enumerate(value):
            if not isinstance(tag, str):
                raise ValidationError(f"must be an array of strings: element {index} is not one")
        if len(value) > MAX_TAGS:
            raise ValidationError(f"must be at most {MAX_TAGS} tags")
        return tuple(value)


class Source(Words):
    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> str:
        text = super()._deserialize(value, attr, data, **options)
        if not _SOURCE.fullmatch(text):
            raise ValidationError(f"must match ^{_SOURCE.pattern}$")
        return text


class LaterMetadata(MetadataObject):
    """Metadata whose faults are told after those of the fields before it."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> Json:
        try:
            return super()._deserialize(value, attr, data, **options)
        except InvalidInputError as error:
            raise ValidationError(error.message.removeprefix(f"{attr} ")) from None


class Ingest(ExactBody):
    source = Source(required=True)
    path = Words(required=True)
    title = Words(required=True)
    text = Words(required=True)
    hash = Words(load_default=None)
    tags = Tags(load_default=())
    metadata = LaterMetadata(load_default=dict)

    @post_load
    def _to_document(self, loaded: Json, **_: Any) -> dict[str, RagDocument]:
        return {"document": RagDocument(**loaded)}


class FiltersObject(ExactBody):
    source = Words(load_default=None)
    tags = Tags(load_default=())

    @post_load
    def _to_filters(self, loaded: Json, **_: Any) -> Filters:
        return Filters(**loaded)


class RagSearch(AskingCollections, Filtered):
    query = Words(required=True)
    top_k = Count(data_key="topK", least=1, most=MAX_TOP_K, load_default=DEFAULT_TOP_K)
    min_score = Share(data_key="minScore", load_default=0.0)
    min_relevance = Share(load_default=0.0)
    filters = fields.Nested(FiltersObject, load_default=Filters)

    @post_load
    def _to_arguments(self, loaded: Json, **_: Any) -> Json:
        return self.one_field(loaded)


class DocumentsPage(Body):
    collection = CollectionName(load_default=None)
    source = Words(load_default=None)
    path = Words(load_default=None)
    tag = Words(load_default=None)
    limit = Count(least=1, most=MAX_PAGE, capped=True, in_text=True, load_default=DEFAULT_PAGE)
    cursor = Text(load_default=None)

    @post_load
    def _to_arguments(self, loaded: Json, **_: Any) -> Json:
        source, path, tag = (loaded.pop(name) for name in ("source", "path", "tag"))
        return {**loaded, "filters": Filters(source, () if tag is None else (tag,), path)}


class InCollection(Body):
    """The collection that a query string names."""

    collection = CollectionName(load_default=None)


INGEST, CHUNK_SEARCH, DOCUMENTS_PAGE, COLLECTION_ARGUMENTS = Ingest(), RagSearch(), DocumentsPage(), InCollection()


def upserted(done: Upserted) -> Json:
    """Spell an ingestion with exactly these fields: clients of the contract break at any other."""
    return {"status": done.status, "documentId": done.document_id, "chunkCount": done.chunk_count}


def similar_chunks(query: str, found: SimilarChunks) -> Json:
    results = [_similar_chunk(chunk) for chunk in found.chunks]
    receipt = collections_receipt(found.receipt)
    return {"query": query, "resultCount": len(results), "results": results, "receipt": receipt}


def _similar_chunk(chunk: SimilarChunk) -> Json:
    return {
        "text": chunk.text,
        "score": chunk.score,
        "relevance": chunk.relevance,
        "metadata": {
            **chunk.metadata,
            "documentId": chunk.document_id,
            "source": chunk.source,
            "path": chunk.path,
            "title": chunk.title,
            "chunkIndex": chunk.chunk_index,
            "tags": chunk.tags,
            "collection": chunk.collection,
            "chunkId": chunk.chunk_id,
        },
    }


def documents_page(documents: Sequence[KnownDocument], total: int, next_cursor: str | None) -> Json:
    listed = [_known_document(each) for each in documents]
    return {"documents": listed, "count": len(listed), "total": total, "nextCursor": next_cursor}


def _known_document(document: KnownDocument) -> Json:
    return {
        "documentId": document.document_id,
        "collection": document.collection,
        "source": document.source,
        "path": document.path,
        "title": document.title,
        "hash": document.hash,
        "tags": document.tags,
        "chunkCount": document.chunk_count,
        "embeddingModel": document.embedding_model,
        "createdAt": document.created_at,
        "updatedAt": document.updated_at,
    }


def deleted_document(document_id: str, done: Deleted) -> Json:
    return {"status": "deleted", "documentId": document_id, "chunkCount": done.chunks, "collection": done.collection}


def store_metrics(metrics: StoreMetrics) -> Json:
    return {
        "documents": sum(each.documents for each in metrics.collections),
        "chunks": sum(each.chunks for each in metrics.collections),
        "collections": [asdict(each) for each in metrics.collections],
        "embedding": {"provider": metrics.provider, "model": metrics.model, "dimension": metrics.dimension},
    }
