"""Documents as they are sent and exported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict

from numpy.typing import ArrayLike

from rag_wrapper_client.bodies import json_bytes
from rag_wrapper_client.embeddings import Vector, decoded, encoded


class NewDocument(TypedDict):
    """A document to store. `embedding` is a list, an array, or base64 of float32; without an `id` the service makes
    one."""

    id: NotRequired[str | None]
    text: str
    metadata: NotRequired[Mapping[str, Any] | None]
    embedding: ArrayLike | str
    uri: NotRequired[str | None]


class ExportedDocument(TypedDict):
    """A document of an export. It can be imported as it is."""

    id: str
    text: str
    metadata: dict[str, Any]
    embedding: Vector
    uri: NotRequired[str]


def sent(document: NewDocument | ExportedDocument) -> dict[str, Any]:
    """Return a document as it travels."""
    travelling: dict[str, Any] = dict(document)
    if travelling.get("embedding") is not None:
        travelling["embedding"] = encoded(travelling["embedding"])
    return travelling


def line_of(document: NewDocument | ExportedDocument | bytes) -> bytes:
    """Return a document as a line of a stream. What is a line already stays as it is."""
    if isinstance(document, bytes):
        return document if document.endswith(b"\n") else document + b"\n"
    return json_bytes(sent(document)) + b"\n"


def exported(line: Any) -> ExportedDocument:
    """Return the document of a line of an export."""
    document: ExportedDocument = line
    document["embedding"] = decoded(line["embedding"])
    return document
