"""Reads collections, documents and groups from the answers of a rag-wrapper service, older ones with fewer fields
included."""

from __future__ import annotations

import hashlib
from typing import Any

import orjson

from providers.outbound.answers import identifier, listed, members, number, text, vector, whole
from providers.rag_wrapper.dialect import Body
from schemas.connections import DEGRADED, HEALTHY, UNHEALTHY, CollectionInfo
from schemas.metadata import METRIC_KEY
from schemas.records import METRICS, Document, Group
from schemas.storage.joined_text import joined_text
from schemas.where import Where, to_json

DEFAULT_METRIC = "cosine"
NAMELESS = "nameless-"
"""The prefix of ids made up for documents that the oldest services give without one: nothing can be fetched by them."""


def to_report(found: Body) -> dict[str, Any]:
    """Return what a service says of its health: `status`, `version` and `index_lag`, as far as it says them.

    A status in other words than ours is left out: a service that answers counts as healthy. An unhealthy one knows no
    `index_lag`.
    """
    read = {"version": text, "index_lag": whole}
    told = {name: take(found[name]) for name, take in read.items() if found.get(name) is not None}
    status = found.get("status")
    return told | {"status": status} if status in (HEALTHY, DEGRADED, UNHEALTHY) else told


def to_info(found: Body) -> CollectionInfo:
    metadata = members(found.get("metadata"))
    told = metadata.get(METRIC_KEY)
    metric = text(found.get("metric") or (told if told in METRICS else DEFAULT_METRIC))
    dimension, count, revision, identity = (found.get(key) for key in ("dimension", "count", "revision", "id"))
    return CollectionInfo(
        text(found["name"]),
        None if count is None else whole(count),
        metadata,
        metric,
        None if dimension is None else whole(dimension),
        None if revision is None else whole(revision),
        None if identity is None else identifier(identity),
    )


def to_document(found: Body) -> Document:
    embedding, document_id = found.get("embedding"), found.get("id")
    return Document(
        _name_of(found) if document_id is None else identifier(document_id),
        _text_of(found),
        orjson.dumps(members(found.get("metadata"))).decode(),
        0,
        None if embedding is None else vector(embedding),
    )


def _text_of(found: Body) -> str:
    """Return a document's text, empty where the service answers null: Chroma may have records without a text."""
    words = found["text"]
    return "" if words is None else text(words)


def _name_of(found: Body) -> str:
    """Return an id for a document that comes without one, the same wherever the same text and metadata are found."""
    said = orjson.dumps([_text_of(found), members(found.get("metadata"))], option=orjson.OPT_SORT_KEYS)
    return NAMELESS + hashlib.sha256(said).hexdigest()[:32]


def to_group(found: Body, *, with_text: bool = False) -> Group:
    """Return a group, and with `with_text` its running text.

    Older services do not say places: they always give the first documents of a group.
    """
    best_distance, listing = found.get("best_distance"), listed(found, "documents")
    documents = [to_document(each) for each in listing]
    places = tuple(whole(each.get("place", place)) for place, each in enumerate(listing, start=1))
    return Group(
        found["key"],
        whole(found["rank"]),
        documents,
        places,
        frozenset(identifier(each["id"]) for each in listing if each["hit"]),
        whole(found["total"]),
        None if best_distance is None else number(best_distance),
        joined_text([each.text for each in documents], places) if with_text else None,
    )


def spelt_filter(where: Where) -> dict[str, Any] | None:
    """Return a filter as a service takes it, None for one that everything matches."""
    return to_json(where) or None
