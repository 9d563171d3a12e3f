"""Documents as records of Qdrant, which are its points, and points of any layout as documents.

Ours have the payload `{"document", "metadata", "id"}` and a point id that follows from the document's id. In the
others' payloads the first of `TEXT_FIELDS` that holds a string is the text, and the rest is the metadata.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

import orjson

from providers.outbound.answers import vector
from schemas.records import Document, Metadata, Vector

Payload = Mapping[str, Any]

NAMESPACE = uuid.UUID("6f1d3c0e-3a52-5b0f-9c55-0d6c6f2f8f0a")
TEXT_FIELDS = ("document", "text", "page_content", "content")
OUR_FIELDS = ("id", "document", "metadata")


def point_id(document_id: str) -> str:
    return str(uuid.uuid5(NAMESPACE, document_id))


def foreign_point_id(document_id: str) -> int | str | None:
    """Return the id that the document's point can have in another layout, None when there is none."""
    if document_id.isascii() and document_id.isdigit() and len(document_id) <= 20 and int(document_id) < 2**64:
        return int(document_id) if str(int(document_id)) == document_id else None
    try:
        found = str(uuid.UUID(document_id))
    except ValueError:
        return None
    return found if found == document_id else None


def to_payload(document_id: str, text: str, metadata: Metadata) -> dict[str, Any]:
    return {"id": document_id, "document": text, "metadata": metadata}


def to_document(identity: Any, payload: Payload, embedding: Vector | None) -> Document:
    if all(payload.get(field) not in (None, []) for field in OUR_FIELDS):
        metadata = payload["metadata"]
        name, text = str(payload["id"]), payload["document"]
    else:
        field = next((each for each in TEXT_FIELDS if isinstance(payload.get(each), str)), None)
        metadata = {name: value for name, value in payload.items() if name != field}
        name, text = str(identity), payload[field] if field else ""
    held = metadata if isinstance(metadata, dict) else {"metadata": metadata}
    return Document(name, str(text), orjson.dumps(held).decode(), 0, embedding)


def to_vector(found: Any, name: str) -> Vector | None:
    """Return the dense vector of that name ("" for the one without), None when the point has none."""
    dense = found.get(name) if isinstance(found, dict) else found
    return None if dense is None else vector(dense)
