"""Collections and documents as tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from interfaces.terminal.screen import Screen
from interfaces.terminal.services import AskedService
from providers.rag_wrapper.dialect import RouteNotFoundError
from schemas.errors import NotFoundError, RagError, UnsupportedError

Json = Mapping[str, Any]


def show_collections(screen: Screen, collections: Sequence[Json]) -> None:
    rows = [
        (
            each["name"],
            str(each["count"]),
            str(each["dimension"] or ""),
            each["metric"],
            str(each["metadata"].get("embedding_model") or ""),
        )
        for each in collections
    ]
    screen.table(("NAME", "DOCUMENTS", "DIMENSION", "METRIC", "MODEL"), rows, right=(1, 2))


def show_documents(screen: Screen, documents: Sequence[Json]) -> None:
    rows = [
        (
            each["source"],
            each["kind"] or "",
            each["title"] or "",
            str(each["chunks"]),
            ",".join(each["tags"]),
            (each["updated_at"] or "")[:19],
            each["collection"],
        )
        for each in documents
    ]
    screen.table(("SOURCE", "KIND", "TITLE", "CHUNKS", "TAGS", "UPDATED", "COLLECTION"), rows, right=(3,))


def documents_page(
    service: AskedService, *, collection: str | None, source: str | None, tag: str | None, kind: str | None, limit: int
) -> Json:
    """Return a page of documents as `GET /api/documents` gives it, of a service without that route too. Raises
    UnsupportedError when such a service is to filter by kind."""
    asked = {"collection": collection, "source": source, "tag": tag, "limit": limit}
    try:
        page: Json = json.loads(service.get("/api/documents", kind=kind, **asked))
        return page
    except NotFoundError as error:
        if not is_missing_route(error):
            raise
    if kind is not None:
        raise UnsupportedError(
            f"The service at {service.address} is an older release and cannot filter documents by kind"
        )
    found = json.loads(service.get("/api/rag/documents", **asked))
    documents = [_in_later_words(each) for each in found["documents"]]
    return {"documents": documents, "total": found["total"], "next_cursor": found["nextCursor"]}


def is_missing_route(error: RagError) -> bool:
    """Return whether a service has no such route, because it is an older release."""
    return error.code == RouteNotFoundError.code


def _in_later_words(document: Json) -> Json:
    return {
        "id": document["documentId"],
        "collection": document["collection"],
        "source": document["source"],
        "name": document["path"].rpartition("/")[2],
        "kind": None,
        "title": document["title"],
        "tags": document["tags"],
        "chunks": document["chunkCount"],
        "created_at": document["createdAt"],
        "updated_at": document["updatedAt"],
    }
