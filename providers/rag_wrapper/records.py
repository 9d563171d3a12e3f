"""Reads collections, documents and groups from the answers of a rag-wrapper service, older ones with fewer fields
included."""

from __future__ import annotations

import hashlib

import orjson

from providers.rag_wrapper.dialect import Body
from schemas.connections import CollectionInfo
from schemas.documents import parse_embedding
from schemas.records import METRICS, Document, Group

DEFAULT_METRIC = "cosine"
METRIC_KEY = "hnsw:space"
"""The key of a collection's metadata in which older services keep the metric for Chroma; this release ignores it."""
NAMELESS = "nameless-"
"""The prefix of ids made up for documents that the oldest services give without one: nothing can be fetched by them."""


def to_info(found: Body) -> CollectionInfo:
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


def to_document(found: Body) -> Document:
    embedding, document_id = found.get("embedding"), found.get("id")
    return Document(
        _name_of(found) if document_id is None else str(document_id),
        _text_of(found),
        orjson.dumps(found.get("metadata") or {}).decode(),
        0,
        None if embedding is None else parse_embedding(embedding),
    )


def _text_of(found: Body) -> str:
    """Return a document's text, empty where the service answers null: Chroma may have records without a text."""
    text = found["text"]
    return "" if text is None else str(text)


def _name_of(found: Body) -> str:
    """Return an id for a document that comes without one, the same wherever the same text and metadata are found."""
    said = orjson.dumps([_text_of(found), found.get("metadata") or {}], option=orjson.OPT_SORT_KEYS)
    return NAMELESS + hashlib.sha256(said).hexdigest()[:32]


def to_group(found: Body) -> Group:
    return Group(
        found["key"],
        int(found["rank"]),
        [to_document(each) for each in found["documents"]],
        frozenset(str(each["id"]) for each in found["documents"] if each["hit"]),
        int(found["total"]),
        found.get("best_distance"),
    )
