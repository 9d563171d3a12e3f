"""Documents: write, read, page and count them.

The routes follow the contract *storage* ("Document Storage" and "Metadata-Based Document Querying").
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

from flask import Blueprint, Response, request

from schemas.records import Document
from schemas.storage.outcomes import EarlierAnswer
from schemas.wire.storage.document import (
    DELETION,
    EMBEDDED_ARGUMENTS,
    MATCHING_ARGUMENTS,
    METADATA_PATCH,
    NEW_DOCUMENTS,
    PAGE_ARGUMENTS,
    PATCH,
    SEARCH,
    SHOWN_ARGUMENTS,
    SWEEPING_ARGUMENTS,
    WHOLE_DOCUMENT,
    WRITING_ARGUMENTS,
    added_answer,
    count_answer,
    deleted_answer,
    document_answer,
    exported_line,
    metadata_patched_answer,
    page_answer,
    put_answer,
)
from schemas.wire.storage.stream import imported_answer, streamed_answer
from wrapper.audit.noted import Noted
from wrapper.web.audited import noted_here
from wrapper.web.bodies import JSON, NDJSON, encode, json_response, read_body
from wrapper.web.document_batches import read_batch, read_document
from wrapper.web.importing import import_stream, parse_announced
from wrapper.web.lanes import Lane
from wrapper.web.line_streams import add_stream
from wrapper.web.request_parts import arguments, body, checked, decoded, store, unknown, write_options
from wrapper.web.responses import not_modified, respond, stream_snapshot
from wrapper.web.route_table import declare

blueprint = Blueprint("documents", __name__)

CUT = "an export was cut: its reader took longer than RAG_EXPORT_SECONDS"


@blueprint.post("/collections/<name>/documents")
@declare(Lane.WRITE, media_types=(JSON, NDJSON), query=WRITING_ARGUMENTS, body=NEW_DOCUMENTS, if_match=True, waits=True)
def add_documents(name: str) -> Response:
    add = _add_stream if request.mimetype == NDJSON else _add_batch
    return add(name, arguments())


def _add_batch(name: str, asked: dict[str, Any]) -> Response:
    batch, options = read_batch()
    options = replace(options, embedding_model=asked.pop("embedding_model"))
    written = store().add_documents(name, batch, options, **asked)
    spell = partial(added_answer, name, with_deleted=asked["replace_where"] is not None)
    return respond(written, spell, 201, with_index=True)


def _add_stream(name: str, asked: dict[str, Any]) -> Response:
    options = replace(write_options(), embedding_model=asked.pop("embedding_model"))
    written = add_stream(store(), name, options, unknown(), **asked)
    return respond(written, partial(streamed_answer, name), 201, with_index=True)


@blueprint.get("/collections/<name>/documents")
@declare(Lane.READ, query=PAGE_ARGUMENTS, elsewhere={"ids": "in the body of POST /collections/{name}/documents/search"})
def list_documents(name: str) -> Response:
    asked = arguments()
    if unchanged := _unchanged(name):
        return unchanged
    return _page(name, asked)


@blueprint.post("/collections/<name>/documents/search", strict_slashes=True)
@declare(Lane.READ, body=SEARCH)
def search_documents(name: str) -> Response:
    return _page(name, body())


@blueprint.get("/collections/<name>/documents/count", strict_slashes=True)
@declare(Lane.READ, query=MATCHING_ARGUMENTS)
def count_documents(name: str) -> Response:
    where = arguments()["where"]
    if unchanged := _unchanged(name):
        return unchanged
    count, collection = store().count(name, where)
    return json_response(count_answer(count, collection.revision), etag=collection.version)


@blueprint.get("/collections/<name>/export")
@declare(Lane.READ, exact=True)
def export_documents(name: str) -> Response:
    with ExitStack() as stack:
        collection, blocks = stack.enter_context(store().export(name))
        if unchanged := not_modified(collection):
            return unchanged
        snapshot = stack.pop_all()
    response = stream_snapshot(_lines(snapshot, blocks, noted_here()), snapshot, CUT, name)
    response.headers["ETag"] = f'"{collection.version}"'
    response.headers["X-Document-Count"] = str(collection.count)
    return response


def _lines(snapshot: ExitStack, blocks: Iterator[list[Document]], noted: Noted) -> Iterator[bytes]:
    noted.count = 0
    with snapshot:
        for documents in blocks:
            yield b"".join(encode(exported_line(each)) + b"\n" for each in documents)
            noted.count += len(documents)  # once they are taken


@blueprint.post("/collections/<name>/import")
@declare(Lane.WRITE, media_types=(NDJSON,), query=EMBEDDED_ARGUMENTS, if_match=True, waits=True)
def import_documents(name: str) -> Response:
    announced = parse_announced(request.headers.get("X-Document-Count"), request.headers.get("Content-Digest"))
    options = replace(write_options(), **arguments())
    written = import_stream(store(), name, options, announced, unknown())
    return respond(written, partial(imported_answer, name), with_index=True)


@blueprint.get("/collections/<name>/documents/<document_id:document_id>")
@declare(Lane.READ, query=SHOWN_ARGUMENTS)
def get_document(name: str, document_id: str) -> Response:
    include = arguments()["include"]
    if unchanged := _unchanged(name):
        return unchanged
    found, collection = store().document(name, document_id, with_embeddings="embedding" in include)
    return json_response(document_answer(found), etag=collection.version)


@blueprint.put("/collections/<name>/documents/<document_id:document_id>")
@declare(Lane.WRITE, query=EMBEDDED_ARGUMENTS, body=WHOLE_DOCUMENT, if_match=True, waits=True)
def put_document(name: str, document_id: str) -> Response:
    batch, options = read_document(document_id)
    written = store().add_documents(name, batch, replace(options, **arguments()))
    is_new = not isinstance(written.outcome, EarlierAnswer) and written.outcome.created > 0
    spell = partial(put_answer, name, document_id)
    return respond(written, spell, 201 if is_new else 200, with_index=True)


@blueprint.delete("/collections/<name>/documents/<document_id:document_id>")
@declare(Lane.WRITE, if_match=True, waits=True)
def delete_document(name: str, document_id: str) -> Response:
    written = store().delete_document(name, document_id, write_options())
    return respond(written, partial(deleted_answer, name))


@blueprint.patch("/collections/<name>/documents/<document_id:document_id>")
@declare(Lane.WRITE, query=EMBEDDED_ARGUMENTS, body=PATCH, if_match=True, waits=True)
def patch_document(name: str, document_id: str) -> Response:
    content = read_body()
    patch = body(content)["patch"]
    options = replace(write_options(content), **arguments())
    written = store().patch_document(name, document_id, patch, options)
    return respond(written, document_answer)


@blueprint.patch("/collections/<name>/documents")
@declare(Lane.WRITE, query=SWEEPING_ARGUMENTS, body=METADATA_PATCH, if_match=True, waits=True)
def patch_metadata(name: str) -> Response:
    content = read_body()
    asked = body(content) | arguments()
    written = store().patch_metadata(name, asked.pop("metadata"), write_options(content), **asked)
    return respond(written, partial(metadata_patched_answer, name), with_index=True)


@blueprint.delete("/collections/<name>/documents")
@declare(Lane.WRITE, query=SWEEPING_ARGUMENTS, body=DELETION, if_match=True, waits=True)
def delete_documents(name: str) -> Response:
    asked = arguments()
    content = read_body()
    source = decoded(content)
    doomed = checked({"ids": source} if isinstance(source, list) else source)
    written = store().delete_documents(name, write_options(content), **doomed, **asked)
    return respond(written, partial(deleted_answer, name))


def _page(name: str, asked: dict[str, Any]) -> Response:
    with_embeddings = "embedding" in asked.pop("include")
    page, collection = store().page(name, **asked, with_embeddings=with_embeddings)
    for field in page.unknown_fields:
        unknown().say(f"No document has the field '{field}' that order_by names")
    return json_response(page_answer(page), etag=collection.version)


def _unchanged(name: str) -> Response | None:
    """Return 304 when the caller already has the answer. The store is asked only when the caller says what it has."""
    return not_modified(store().collection(name)) if "If-None-Match" in request.headers else None
