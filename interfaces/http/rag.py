"""`/api/rag/*` and `/api/chat`: seeds 001 and 002, whose errors have a short word under `error`."""

from __future__ import annotations

from dataclasses import asdict

from flask import Blueprint, Response
from werkzeug.routing import PathConverter

from interfaces.http import asking
from interfaces.http.layers import layers
from schemas.errors import RagError
from schemas.wire_rag import (
    CHAT,
    CHUNK_SEARCH,
    COLLECTION_ARGUMENTS,
    DOCUMENTS_PAGE,
    INGEST,
    RETRIEVE,
    RULE_BATCH,
    Json,
    chat_answer,
    known_document,
    rag_context,
    similar_chunks,
    store_metrics,
    stored_message,
    upserted,
)
from wrapper import errors
from wrapper.bodies import json_response, read_body
from wrapper.lanes import Lane
from wrapper.requests_in import arguments, body, respond, store, unknown, write_options
from wrapper.route_table import declare


class ConversationId(PathConverter):
    """Any id, slashes too."""

    regex = r"[\s\S]+"
    part_isolating = False


blueprint = Blueprint("rag", __name__, url_prefix="/api")

SUMMARIES = {
    400: "Validation error",
    403: "Forbidden",
    404: "Not found",
    408: "Request timeout",
    409: "Conflict",
    413: "Payload too large",
    415: "Unsupported media type",
    421: "Misdirected request",
    503: "Service Unavailable",
    507: "Insufficient storage",
    500: "Internal server error",
}


@blueprint.errorhandler(RagError)
def in_the_words_of_seed_002(error: RagError) -> Response:
    error.summary = SUMMARIES.get(errors.status_of(error), "Error")
    error.details = {**error.details, "message": error.message}
    return errors.respond(error)


@blueprint.post("/rag/ingest")
@declare(Lane.EMBEDDING, body=INGEST, exact=True)
def ingest() -> Response:
    content, rag_store = read_body(), layers().rag_store
    document = body(content)["document"]

    def work() -> Json:
        return upserted(rag_store.upsert_document_with_chunks(document))

    return respond(store().once(write_options(content), work, rag_store.collection))


@blueprint.post("/rag/search")
@declare(Lane.EMBEDDING, body=CHUNK_SEARCH)
def search() -> Response:
    asked = body()
    return json_response(similar_chunks(asked["query"], layers().rag_store.search_similar_chunks(**asked)))


@blueprint.get("/rag/documents")
@declare(Lane.READ, query=DOCUMENTS_PAGE)
def documents() -> Response:
    found, total, cursor = layers().rag_store.documents(**arguments())
    listed = [known_document(each) for each in found]
    return json_response({"documents": listed, "count": len(listed), "total": total, "nextCursor": cursor})


@blueprint.delete("/rag/documents/<path:document_id>")
@declare(Lane.WRITE, query=COLLECTION_ARGUMENTS)
def delete_document(document_id: str) -> Response:
    done = layers().rag_store.delete_document(document_id, arguments()["collection"])
    said = {"status": "deleted", "documentId": document_id, "chunkCount": done.chunks, "collection": done.collection}
    return json_response(said)


@blueprint.get("/rag/metrics")
@declare(Lane.READ)
def metrics() -> Response:
    return json_response(store_metrics(layers().rag_store.metrics()))


@blueprint.post("/rag/retrieve")
@declare(Lane.EMBEDDING, body=RETRIEVE)
def retrieve() -> Response:
    return json_response(rag_context(layers().pipeline.retrieve(body()["request"])))


@blueprint.post("/rag/documents:batch")
@declare(Lane.EMBEDDING, body=RULE_BATCH)
def ingest_batch() -> Response:
    content, pipeline = read_body(), layers().pipeline
    asked = body(content)

    def work() -> Json:
        result = asdict(pipeline.ingest(**asked))
        return {**result, "warnings": [*result["warnings"], *unknown().take()]}

    return respond(store().once(write_options(content), work, pipeline.target(asked["collection"])))


@blueprint.post("/chat")
@declare(Lane.SERVICE, body=CHAT)
def chat() -> Response:
    return json_response(chat_answer(layers().chat.answer(body()["request"], owner=asking.owner())))


@blueprint.get("/chat/<conversation_id:conversation_id>")
@declare(Lane.READ)
def conversation(conversation_id: str) -> Response:
    said = layers().chat.conversation(conversation_id, owner=asking.owner())
    return json_response({"conversationId": conversation_id, "messages": [stored_message(each) for each in said]})


@blueprint.delete("/chat/<conversation_id:conversation_id>")
@declare(Lane.WRITE)
def forget_conversation(conversation_id: str) -> Response:
    layers().chat.forget(conversation_id, owner=asking.owner())
    return json_response({"status": "deleted", "conversationId": conversation_id})
