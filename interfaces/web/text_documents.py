"""`/api/rag/ingest`, `/search`, `/documents` and `/metrics`: contract *documents*."""

from __future__ import annotations

from flask import Blueprint, Response

from interfaces.passages.shortfalls import SHORTENED, unasked
from interfaces.web.current_request import layers
from schemas.contracts.search import MAX_QUERY_CHARACTERS
from schemas.contracts.text_documents import Upserted
from schemas.wire.error_bodies import error_body_with_short_word
from schemas.wire.text_documents import (
    CHUNK_SEARCH,
    COLLECTION_ARGUMENTS,
    DOCUMENTS_PAGE,
    INGEST,
    deleted_document,
    documents_page,
    similar_chunks,
    store_metrics,
    upserted,
)
from wrapper.web.bodies import json_response, read_body
from wrapper.web.error_statuses import spell_errors
from wrapper.web.lanes import Lane
from wrapper.web.request_parts import arguments, body, store, unknown, write_options
from wrapper.web.responses import respond
from wrapper.web.route_table import declare

OTHER_COLLECTION = {"collection": "of POST /api/documents, which stores elsewhere than in RAG_DOCUMENTS_COLLECTION"}

blueprint = Blueprint("text_documents", __name__, url_prefix="/api/rag")
spell_errors(blueprint, error_body_with_short_word)


@blueprint.post("/ingest")
@declare(Lane.EMBEDDING, body=INGEST, elsewhere=OTHER_COLLECTION, exact=True)
def ingest() -> Response:
    content, rag_store = read_body(), layers().rag_store
    document = body(content)["document"]

    written = store().once(
        Upserted,
        write_options(content),
        lambda: rag_store.upsert_document_with_chunks(document),
        rag_store.collection,
    )
    return respond(written, upserted)


@blueprint.post("/search")
@declare(Lane.EMBEDDING, body=CHUNK_SEARCH)
def search() -> Response:
    asked = body()
    found = layers().rag_store.search_similar_chunks(**asked)
    if len(asked["query"]) > MAX_QUERY_CHARACTERS:
        unknown().say(SHORTENED)
    unknown().say(*unasked(found.receipt))
    return json_response(similar_chunks(asked["query"], found))


@blueprint.get("/documents")
@declare(Lane.READ, query=DOCUMENTS_PAGE)
def list_documents() -> Response:
    return json_response(documents_page(*layers().rag_store.documents(**arguments())))


@blueprint.delete("/documents/<path:document_id>")
@declare(Lane.WRITE, query=COLLECTION_ARGUMENTS)
def delete_document(document_id: str) -> Response:
    done = layers().documents.delete(document_id, arguments()["collection"])
    return json_response(deleted_document(document_id, done))


@blueprint.get("/metrics")
@declare(Lane.READ)
def metrics() -> Response:
    return json_response(store_metrics(layers().rag_store.metrics()))
