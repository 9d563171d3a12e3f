"""Documents: written, read, paged and counted (seed 003, "Document Storage" and "Metadata-Based Document Querying")."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import structlog
from flask import Blueprint, Response, current_app, request

from schemas.documents import parse_documents
from schemas.errors import InvalidInputError, PayloadTooLargeError
from schemas.records import Collection, Document, DocumentBatch
from schemas.wire import (
    DELETING_ARGUMENTS,
    DELETION,
    MATCHING_ARGUMENTS,
    NEW_DOCUMENTS,
    PAGE_ARGUMENTS,
    PATCH,
    SEARCH,
    SHOWN_ARGUMENTS,
    WRITING_ARGUMENTS,
)
from wrapper import answers
from wrapper.bodies import JSON, NDJSON, decode_json, encode, finish_parsing, finish_within, json_response, read_body
from wrapper.importing import import_stream, parse_announced
from wrapper.lanes import Lane
from wrapper.requests_in import (
    arguments,
    body,
    checked,
    id_maker,
    is_known,
    respond,
    store,
    unknown,
    write_options,
)
from wrapper.route_table import declare
from wrapper.store import WriteOptions
from wrapper.streaming import add_stream

log = structlog.get_logger(__name__)

blueprint = Blueprint("documents", __name__)

MAX_DOCUMENTS = 20_000
"""Of one JSON body, which is stored as a whole or not at all."""

CUT = "an export was cut: its reader took longer than RAG_EXPORT_SECONDS"


@blueprint.post("/collections/<name>/documents")
@declare(Lane.WRITE, media_types=(JSON, NDJSON), query=WRITING_ARGUMENTS, body=NEW_DOCUMENTS, if_match=True)
def add_documents(name: str) -> Response:
    asked = arguments()
    if request.mimetype == NDJSON:
        if asked["replace_where"] is not None:
            raise InvalidInputError("replace_where needs all documents in one JSON body", field="replace_where")
        written = add_stream(store(), name, asked["on_conflict"], write_options(), unknown())
        return respond(written, 201)
    batch, options = _read_documents()
    finish_parsing()
    written = store().add_documents(name, batch, options, **asked)
    return respond(written.with_outcome(), 201)


def _read_documents() -> tuple[DocumentBatch, WriteOptions]:
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
    return parse_documents(checked(source)["documents"], id_maker(options), unknown()), options


@blueprint.get("/collections/<name>/documents")
@declare(Lane.READ, query=PAGE_ARGUMENTS, elsewhere={"ids": "in the body of POST /collections/{name}/documents/search"})
def list_documents(name: str) -> Response:
    asked = arguments()
    if unchanged := _unchanged(name):
        return unchanged
    return _page(name, asked)


@blueprint.post("/collections/<name>/documents/search")
@declare(Lane.READ, body=SEARCH)
def search_documents(name: str) -> Response:
    asked = body()
    ids = asked.pop("ids")
    if ids is None:
        return _page(name, asked)
    found, collection = store().documents(name, ids, asked["where"], with_embeddings="embedding" in asked["include"])
    shown = found[asked["offset"] : asked["offset"] + asked["limit"]]
    return json_response(answers.listing(shown, len(found), collection.revision), etag=answers.etag(collection))


@blueprint.get("/collections/<name>/documents/count")
@declare(Lane.READ, query=MATCHING_ARGUMENTS)
def count_documents(name: str) -> Response:
    where = arguments()["where"]
    if unchanged := _unchanged(name):
        return unchanged
    count, collection = store().count(name, where)
    return json_response({"count": count, "revision": collection.revision}, etag=answers.etag(collection))


@blueprint.get("/collections/<name>/export")
@declare(Lane.READ)
def export_documents(name: str) -> Response:
    with ExitStack() as stack:
        collection, blocks = stack.enter_context(store().export(name))
        etag = answers.etag(collection)
        if is_known(etag):
            return Response(status=304, headers={"ETag": f'"{etag}"'})
        snapshot = stack.pop_all()
    response = Response(_lines(snapshot, blocks), mimetype=NDJSON)
    # The reader may go away before the first line, or in the middle; while it stays, what is written piles up in the
    # write-ahead log.
    response.call_on_close(snapshot.close)
    limit_seconds = current_app.config["EXPORT_SECONDS"]
    finish_within(limit_seconds, lambda: log.warning(CUT, collection=name, limit_seconds=limit_seconds))
    response.headers["ETag"] = f'"{etag}"'
    response.headers["X-Document-Count"] = str(collection.count)
    return response


def _lines(snapshot: ExitStack, blocks: Iterator[list[Document]]) -> Iterator[bytes]:
    with snapshot:
        for documents in blocks:
            yield b"".join(encode(answers.exported(each)) + b"\n" for each in documents)


@blueprint.post("/collections/<name>/import")
@declare(Lane.WRITE, media_types=(NDJSON,), if_match=True)
def import_documents(name: str) -> Response:
    announced = parse_announced(request.headers.get("X-Document-Count"), request.headers.get("Content-Digest"))
    return respond(import_stream(store(), name, write_options(), announced, unknown()))


@blueprint.get("/collections/<name>/documents/<document_id:document_id>")
@declare(Lane.READ, query=SHOWN_ARGUMENTS)
def get_document(name: str, document_id: str) -> Response:
    include = arguments()["include"]
    if unchanged := _unchanged(name):
        return unchanged
    found, collection = store().document(name, document_id, with_embeddings="embedding" in include)
    return json_response(answers.document(found), etag=answers.etag(collection))


@blueprint.patch("/collections/<name>/documents/<document_id:document_id>")
@declare(Lane.WRITE, body=PATCH, if_match=True)
def patch_document(name: str, document_id: str) -> Response:
    content = read_body()
    patch = body(content)["patch"]
    written = store().patch_document(name, document_id, patch, write_options(content))
    return respond(written)


@blueprint.delete("/collections/<name>/documents")
@declare(Lane.WRITE, query=DELETING_ARGUMENTS, body=DELETION, if_match=True)
def delete_documents(name: str) -> Response:
    asked = arguments()
    content = read_body()
    source = decode_json(content)
    doomed = checked({"ids": source} if isinstance(source, list) else source)
    written = store().delete_documents(name, write_options(content), **doomed, **asked)
    return respond(written)


def _page(name: str, asked: dict[str, Any]) -> Response:
    with_embeddings = "embedding" in asked.pop("include")
    page, collection = store().page(name, **asked, with_embeddings=with_embeddings)
    for field in page.unknown_fields:
        unknown().say(f"No document has the field '{field}' that order_by names")
    return json_response(answers.page(page), etag=answers.etag(collection))


def _unchanged(name: str) -> Response | None:
    """304 when the caller has what it would get; asked only when it says what it has."""
    if "If-None-Match" not in request.headers:
        return None
    collection: Collection = store().collection(name)
    etag = answers.etag(collection)
    return Response(status=304, headers={"ETag": f'"{etag}"'}) if is_known(etag) else None
