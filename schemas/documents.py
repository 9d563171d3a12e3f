"""Parses incoming documents: checked one by one, kept column by column.

The wording of the errors is that of the contract *storage* ("RAG Wrapper Document Storage with Pre-computed
Embeddings").
"""

from __future__ import annotations

import base64
import binascii
import uuid
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from schemas.errors import InvalidInputError
from schemas.field_names import Names, Unknown, check_names
from schemas.metadata import check_metadata
from schemas.records import NO_EXTRAS, DocumentBatch, Extras, Metadata, Vector

NumberTypes = {int, float}
MAX_DIMENSION = 65_536
"""The most numbers of a vector. The engine makes room for a hundred vectors with the first: one of four million numbers
takes 1.6 GB of disk."""
MAX_URI_CHARACTERS = 2_048
DOCUMENT_NAMES = Names(dict.fromkeys(("id", "text", "metadata", "embedding", "uri")))


class ParsedDocument(NamedTuple):
    id: str
    text: str
    metadata: Metadata
    embedding: Vector
    extras: Extras = NO_EXTRAS


def new_id() -> str:
    return f"doc_{uuid.uuid4()}"


def parse_embedding(value: Any, *, field: str = "embedding", index: int | None = None) -> Vector:
    """Return a float32 vector (dimension,) of a JSON array of numbers, a base64 string of little-endian float32, or an
    array of NumPy.

    Raises InvalidInputError for anything else: booleans and numerals in strings, empty vectors, values that are
    not finite in float32, more than `MAX_DIMENSION` of them.
    """
    if isinstance(value, list):
        if not value:
            raise _invalid("embedding must not be empty", field, index)
        _check_dimension(len(value), field, index)
        if not set(map(type, value)) <= NumberTypes:
            position = next(place for place, number in enumerate(value) if type(number) not in NumberTypes)
            raise _invalid(f"embedding must be an array of numbers; element {position} is not one", field, index)
        with np.errstate(over="ignore"):
            vector = np.array(value, dtype=np.float64).astype("<f4")
    elif isinstance(value, str):
        try:
            content = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            raise _invalid("embedding must be an array of numbers or base64 of float32", field, index) from None
        if not content or len(content) % 4:
            raise _invalid("embedding in base64 must hold a whole number of float32 values", field, index)
        vector = np.frombuffer(content, dtype="<f4")
        _check_dimension(len(vector), field, index)
    elif isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind in "fiu":
        if not value.size:
            raise _invalid("embedding must not be empty", field, index)
        _check_dimension(len(value), field, index)
        with np.errstate(over="ignore"):
            vector = value.astype("<f4")
    elif isinstance(value, dict) and "0" in value:
        # JSON.stringify writes a Float32Array like this.
        reason = "not an object: Array.from(vector) makes an array of a Float32Array"
        raise _invalid(f"embedding must be an array of numbers or base64 of float32, {reason}", field, index)
    else:
        raise _invalid("embedding must be an array of numbers or base64 of float32", field, index)
    if not np.isfinite(vector).all():
        position = int(np.argmin(np.isfinite(vector)))
        raise _invalid(f"embedding must hold finite float32 numbers; element {position} is not", field, index)
    return vector


def parse_document(
    source: Any,
    index: int | None,
    make_id: Callable[[], str],
    unknown: Unknown | None = None,
    *,
    may_lack_text: bool = False,
) -> ParsedDocument:
    """Return the parts of a document object, and note its other names as `unknown`.

    A text that is null is taken of a document that `may_lack_text`, as one that a client of Chroma stored may. Raises
    InvalidInputError, naming the field and `index`, when a field is wrong.
    """
    if not isinstance(source, dict):
        raise InvalidInputError("A document must be an object", code="invalid_document", field="documents", index=index)
    check_names(source, DOCUMENT_NAMES, unknown or Unknown(), index=index)
    document_id = source.get("id")
    if document_id is None:
        document_id = make_id()
    elif not isinstance(document_id, str) or not document_id:
        raise InvalidInputError("id must be a non-empty string", code="invalid_id", field="id", index=index)
    text = source.get("text")
    textless = may_lack_text and "text" in source and text is None
    if textless:
        text = ""
    elif not isinstance(text, str):
        reason = "text is required" if text is None else "text must be a string"
        raise InvalidInputError(reason, code="invalid_text", field="text", index=index)
    embedding = source.get("embedding")
    if embedding is None:
        raise InvalidInputError(
            "All documents must include pre-computed embeddings",
            code="embedding_required",
            field="embedding",
            index=index,
        )
    return ParsedDocument(
        document_id,
        text,
        check_metadata(source.get("metadata"), index=index),
        parse_embedding(embedding, index=index),
        Extras(check_uri(source.get("uri"), index=index), textless),
    )


def check_uri(uri: Any, *, index: int | None = None) -> str | None:
    """Return the URI of a document, None when it has none. Raises InvalidInputError for what is no text of at most
    `MAX_URI_CHARACTERS`."""
    if uri is None:
        return None
    if not isinstance(uri, str) or len(uri) > MAX_URI_CHARACTERS:
        raise InvalidInputError(
            f"uri must be a string of at most {MAX_URI_CHARACTERS:,} characters",
            code="invalid_field",
            field="uri",
            index=index,
        )
    return uri


def parse_documents(source: Any, make_id: Callable[[], str] = new_id, unknown: Unknown | None = None) -> DocumentBatch:
    """Return the batch of a request's `documents`. Raises InvalidInputError for the first that is wrong."""
    if source is None or source == []:
        raise InvalidInputError("Documents array is required", code="documents_required", field="documents")
    if not isinstance(source, list):
        raise InvalidInputError("Documents array is required", code="documents_required", field="documents")
    return to_batch([parse_document(item, index, make_id, unknown) for index, item in enumerate(source)])


def to_batch(parsed: Sequence[ParsedDocument]) -> DocumentBatch:
    """Return documents as columns. Raises InvalidInputError when ids are repeated or dimensions differ."""
    seen: dict[str, int] = {}
    dimension = len(parsed[0][3])
    for index, (document_id, _, _, vector, *_) in enumerate(parsed):
        if document_id in seen:
            raise InvalidInputError(
                f"id '{document_id}' is given twice in one request",
                code="duplicate_id",
                field="id",
                index=index,
                first_index=seen[document_id],
            )
        seen[document_id] = index
        if len(vector) != dimension:
            raise InvalidInputError(
                f"Embedding dimension mismatch: document 0 has {dimension}, document {index} has {len(vector)}",
                code="dimension_mismatch",
                field="embedding",
                index=index,
                expected=dimension,
                actual=len(vector),
            )
    return DocumentBatch(
        ids=[each[0] for each in parsed],
        texts=[each[1] for each in parsed],
        metadatas=[each[2] for each in parsed],
        embeddings=np.stack([each[3] for each in parsed]).astype("<f4", copy=False),
        extras={index: each.extras for index, each in enumerate(parsed) if each.extras != NO_EXTRAS},
    )


def _check_dimension(count: int, field: str, index: int | None) -> None:
    if count > MAX_DIMENSION:
        raise _invalid(f"embedding has {count:,} numbers, {MAX_DIMENSION:,} are allowed", field, index)


def _invalid(message: str, field: str, index: int | None) -> InvalidInputError:
    return InvalidInputError(message, code="invalid_embedding", field=field, index=index)
