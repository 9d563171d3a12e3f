"""`/api/rag/*` and `/api/chat`: seeds 001 and 002, whose errors have a short word under `error`."""

from __future__ import annotations

from dataclasses import asdict

from flask import Blueprint, Response

from interfaces.http.layers import layers
from schemas.errors import RagError
from schemas.wire_rag import (
    CHAT,
    CHUNK_SEARCH,
    DOCUMENT_PLACE,
    DOCUMENTS_PAGE,
    INGEST,
    RETRIEVE,
    RULE_BATCH,
    chat_answer,
    known_document,
    rag_context,
    similar_chunks,
    store_metrics,
    stored_message,
    upserted,
)
from wrapper import errors
from wrapper.bodies import json_response
from wrapper.requests_in import arguments, body
from wrapper.route_table import ASKS, EMBEDS, READS, WRITES

blueprint = Blueprint("rag", __name__, url_prefix="/api")

ROUTES = {
    "ingest": EMBEDS,
    "search": EMBEDS,
    "documents": READS,
    "delete_document": WRITES,
    "metrics": READS,
    "retrieve": EMBEDS,
    "ingest_batch": EMBEDS,
    "chat": ASKS,
    "conversation": READS,
    "forget_conversation": WRITES,
}

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
def ingest() -> Response:
    return json_response(upserted(layers().rag_store.upsert_document_with_chunks(body(INGEST)["document"])))


@blueprint.post("/rag/search")
def search() -> Response:
    asked = body(CHUNK_SEARCH)
    return json_response(similar_chunks(asked["query"], layers().rag_store.search_similar_chunks(**asked)))


@blueprint.get("/rag/documents")
def documents() -> Response:
    found, total, cursor = layers().rag_store.documents(**arguments(DOCUMENTS_PAGE))
    listed = [known_document(each) for each in found]
    return json_response({"documents": listed, "count": len(listed), "total": total, "nextCursor": cursor})


@blueprint.delete("/rag/documents/<path:document_id>")
def delete_document(document_id: str) -> Response:
    done = layers().rag_store.delete_document(document_id, **arguments(DOCUMENT_PLACE))
    said = {"status": "deleted", "documentId": document_id, "chunkCount": done.chunks, "collection": done.collection}
    return json_response(said)


@blueprint.get("/rag/metrics")
def metrics() -> Response:
    return json_response(store_metrics(layers().rag_store.metrics()))


@blueprint.post("/rag/retrieve")
def retrieve() -> Response:
    return json_response(rag_context(layers().pipeline.retrieve(body(RETRIEVE)["request"])))


@blueprint.post("/rag/documents:batch")
def ingest_batch() -> Response:
    return json_response(asdict(layers().pipeline.ingest(**body(RULE_BATCH))))


@blueprint.post("/chat")
def chat() -> Response:
    return json_response(chat_answer(layers().chat.answer(body(CHAT)["request"])))


@blueprint.get("/chat/<conversation_id>")
def conversation(conversation_id: str) -> Response:
    said = layers().chat.conversation(conversation_id)
    return json_response({"conversationId": conversation_id, "messages": [stored_message(each) for each in said]})


@blueprint.delete("/chat/<conversation_id>")
def forget_conversation(conversation_id: str) -> Response:
    layers().chat.forget(conversation_id)
    return json_response({"status": "deleted", "conversationId": conversation_id})
