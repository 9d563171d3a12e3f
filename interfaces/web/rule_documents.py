"""`/api/rag/documents:batch` and `/api/rag/retrieve`: contract *rules*."""

from __future__ import annotations

from dataclasses import replace

from flask import Blueprint, Response

from interfaces.web.current_request import layers
from schemas.contracts.rule_documents import IngestionResult
from schemas.wire.error_bodies import error_body_with_short_word
from schemas.wire.rule_documents import RETRIEVE, RULE_BATCH, ingestion_result, rag_context
from wrapper.web.bodies import json_response, read_body
from wrapper.web.error_statuses import spell_errors
from wrapper.web.lanes import Lane
from wrapper.web.request_parts import body, store, unknown, write_options
from wrapper.web.responses import respond
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
    warnings = unknown().take()

    def work() -> IngestionResult:
        result = pipeline.ingest(**asked)
        return replace(result, warnings=[*result.warnings, *warnings])

    written = store().once(
        IngestionResult.of_fields,
        write_options(content),
        work,
        pipeline.target(asked["collection"]),
        is_final=lambda result: result.is_final,
    )
    return respond(written, ingestion_result)
