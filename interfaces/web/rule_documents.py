"""`/api/rag/documents:batch` and `/api/rag/retrieve`: contract *rules*."""

from __future__ import annotations

from flask import Blueprint, Response

from interfaces.web.current_request import layers
from schemas.wire.error_bodies import error_body_with_short_word
from schemas.wire.rule_documents import RETRIEVE, RULE_BATCH, Json, ingestion_result, rag_context
from wrapper.web.bodies import json_response, read_body
from wrapper.web.error_statuses import spell_errors
from wrapper.web.lanes import Lane
from wrapper.web.reading import body, respond, store, unknown, write_options
from wrapper.web.route_table import declare

blueprint = Blueprint("rules", __name__, url_prefix="/api/rag")
spell_errors(blueprint, error_body_with_short_word)


@blueprint.post("/retrieve")
@declare(Lane.EMBEDDING, body=RETRIEVE)
def retrieve() -> Response:
    return json_response(rag_context(layers().pipeline.retrieve(body()["request"])))


@blueprint.post("/documents:batch")
@declare(Lane.EMBEDDING, body=RULE_BATCH)
def ingest_batch() -> Response:
    content, pipeline = read_body(), layers().pipeline
    asked = body(content)

    def work() -> Json:
        return ingestion_result(pipeline.ingest(**asked), unknown().take())

    written = store().writing.once(Json, write_options(content), work, pipeline.target(asked["collection"]))
    return respond(written, lambda result: result)
