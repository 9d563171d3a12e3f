"""Documents as one JSON body, which is stored as a whole or not at all."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from itertools import count

from schemas.documents import new_id, parse_document, parse_documents, to_batch
from schemas.errors import InvalidInputError, PayloadTooLargeError
from schemas.records import DocumentBatch
from wrapper.web.bodies import decode_json, finish_parsing, read_body
from wrapper.web.request_parts import checked, unknown, write_options
from wrapper.writing import WriteOptions

MAX_DOCUMENTS = 20_000
"""The most documents of one JSON body."""


def read_batch() -> tuple[DocumentBatch, WriteOptions]:
    """Return the documents of the request's body, and how it wants them written.

    Raises InvalidInputError for the first one that is wrong, and PayloadTooLargeError for more than `MAX_DOCUMENTS`.
    """
    content = read_body()
    source = decode_json(content)
    if not isinstance(source, dict):
        raise InvalidInputError("Documents array is required", code="documents_required", field="documents")
    documents = source.get("documents")
    if isinstance(documents, list) and len(documents) > MAX_DOCUMENTS:
        raise PayloadTooLargeError(
            f"A JSON body holds at most {MAX_DOCUMENTS:,} documents; lines of NDJSON have no limit",
            field="documents",
            limit=MAX_DOCUMENTS,
        )
    options = write_options(content)
    batch = parse_documents(checked(source)["documents"], _id_maker(options), unknown())
    finish_parsing()
    return batch, options


def read_document(document_id: str) -> tuple[DocumentBatch, WriteOptions]:
    """Return the one document of the request's body, which the path names, and how it wants it written.

    Raises InvalidInputError when it is wrong.
    """
    content = read_body()
    document = checked(decode_json(content))
    given = {name: value for name, value in document.items() if value is not None}
    parsed = parse_document({**given, "id": document_id}, None, new_id, unknown())
    finish_parsing()
    return to_batch([parsed]), write_options(content)


def _id_maker(options: WriteOptions) -> Callable[[], str]:
    """Return the maker of ids for documents without one: a repeat of an `Idempotency-Key` makes the same ids."""
    if options.idempotency_key is None:
        return new_id
    numbers = count()
    return lambda: f"doc_{uuid.uuid5(uuid.NAMESPACE_OID, f'{options.idempotency_key}:{next(numbers)}')}"
