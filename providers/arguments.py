"""The checks that every provider of documents makes before it asks its service, with the same sentences for all."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import orjson

from schemas.bounds import MAX_PAGE, MAX_TOP_K
from schemas.connections import CollectionInfo
from schemas.documents import new_id, parse_document, parse_embedding, to_batch
from schemas.errors import CollectionNotFoundError, InvalidInputError, UnsupportedError
from schemas.metadata import check_metadata, check_reserved
from schemas.names import check_collection_name
from schemas.records import METRICS, Document, DocumentBatch, Metadata, Vector
from schemas.where import EVERYTHING, Where

JSON_NUMBER_BYTES = 22
"""The most bytes that a float32 takes in JSON, with its comma."""


def checked_batch(batch: DocumentBatch) -> DocumentBatch:
    """Return the same documents as every storage can take them. Raises InvalidInputError, naming field and `index`,
    when one is wrong."""
    if not batch.ids:
        raise InvalidInputError("Documents array is required", code="documents_required", field="documents")
    rows = zip(batch.ids, batch.texts, batch.metadatas, batch.embeddings, strict=True)
    parsed = []
    for index, (document_id, text, metadata, embedding) in enumerate(rows):
        source = {"id": document_id, "text": text, "metadata": metadata, "embedding": embedding}
        document = parse_document(source, index, new_id)
        _check_json({"id": document[0], "text": document[1], "metadata": document[2]}, index)
        parsed.append(document)
    return to_batch(parsed)


def checked_vector(embedding: Vector) -> Vector:
    """Return the vector of a query. Raises InvalidInputError when it is empty, too long or not finite."""
    return parse_embedding(np.asarray(embedding), field="query_embedding")


def checked_top_k(top_k: int) -> int:
    """Return the number itself. Raises InvalidInputError when it is not 1 to `MAX_TOP_K`."""
    if not 1 <= top_k <= MAX_TOP_K:
        raise InvalidInputError(f"top_k must be 1 to {MAX_TOP_K}", code="invalid_field", field="top_k")
    return top_k


def checked_limit(limit: int) -> int:
    """Return how many documents a page holds, `MAX_PAGE` at most. Raises InvalidInputError for less than one."""
    if limit < 1:
        raise InvalidInputError("limit must be at least 1", code="invalid_field", field="limit")
    return min(limit, MAX_PAGE)


def checked_ids(ids: Sequence[str]) -> list[str]:
    """Return the ids to look up, each once. Raises InvalidInputError for more than `MAX_PAGE`."""
    wanted = list(dict.fromkeys(ids))
    if len(wanted) > MAX_PAGE:
        raise InvalidInputError(f"ids must be at most {MAX_PAGE}", code="invalid_field", field="ids")
    return wanted


def in_order(documents: Iterable[Document], ids: Sequence[str]) -> list[Document]:
    """Return the documents that have one of the ids, in the order of the ids."""
    found = {document.id: document for document in documents}
    return [found[each] for each in ids if each in found]


def check_selection(ids: Sequence[str] | None, where: Where | None) -> None:
    """Raise InvalidInputError unless either ids or a filter that is not empty select the documents to delete."""
    if (ids is None) == (where is None):
        raise InvalidInputError("either ids or where is required", code="invalid_field", field="ids")
    if where == EVERYTHING:
        raise InvalidInputError("an empty filter would delete everything", code="invalid_field", field="where")


def checked_collection(name: str, metadata: Metadata, metric: str) -> Metadata:
    """Return the metadata that a new collection gets. Raises InvalidInputError when the name, the metadata or the
    metric is invalid."""
    check_collection_name(name)
    if metric not in METRICS:
        raise InvalidInputError(f"metric must be one of {', '.join(METRICS)}", code="invalid_field", field="metric")
    _check_json({"metadata": metadata}, None)
    return check_reserved(check_metadata(metadata))


def checked_name(name: str) -> str:
    """Return the name of a collection that may exist.

    Raises CollectionNotFoundError for a name that Chroma's rule forbids: as part of a path it might be another route.
    """
    try:
        return check_collection_name(name)
    except InvalidInputError:
        raise CollectionNotFoundError(name) from None


def check_dimension(collection: CollectionInfo, dimension: int, *, field: str = "embedding") -> None:
    """Raise InvalidInputError, with both numbers, unless the collection takes vectors of this dimension."""
    if collection.dimension is not None and dimension != collection.dimension:
        raise InvalidInputError(
            f"Embedding dimension mismatch: collection '{collection.name}' has {collection.dimension}, got {dimension}",
            code="dimension_mismatch",
            field=field,
            expected=collection.dimension,
            actual=dimension,
        )


def check_unfiltered(where: Where) -> None:
    """Raise UnsupportedError unless the filter is empty: for a provider without `SupportsMetadataFiltering`."""
    if where != EVERYTHING:
        raise UnsupportedError("This provider does not filter", capability="metadata_filtering")


def parts_of(batch: DocumentBatch, *, max_documents: int, max_bytes: int) -> Iterator[DocumentBatch]:
    """Yield the batch in pieces of about `max_bytes` of JSON. A single document may be larger."""
    start, size = 0, 0
    for index, (text, metadata) in enumerate(zip(batch.texts, batch.metadatas, strict=True)):
        own = batch.dimension * JSON_NUMBER_BYTES + 2 * len(text.encode()) + 2 * len(orjson.dumps(metadata))
        if index > start and (index - start == max_documents or size + own > max_bytes):
            yield _part(batch, start, index)
            start, size = index, 0
        size += own
    yield _part(batch, start, len(batch))


def _part(batch: DocumentBatch, start: int, end: int) -> DocumentBatch:
    rows = slice(start, end)
    return DocumentBatch(batch.ids[rows], batch.texts[rows], batch.metadatas[rows], batch.embeddings[rows])


def _check_json(fields: Mapping[str, Any], index: int | None) -> None:
    """Raise InvalidInputError for values that JSON does not have: they come from a program, not from a JSON reader."""
    for field, value in fields.items():
        try:
            json.dumps(value, allow_nan=False)
            orjson.dumps(value)
        except (TypeError, ValueError, RecursionError):
            reason = f"{field} must be JSON: finite numbers of at most 64 bits, and whole characters"
            raise InvalidInputError(reason, code=f"invalid_{field}", field=field, index=index) from None
