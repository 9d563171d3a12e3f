"""`POST /dify/retrieval`. Dify takes any answer but 200 for an empty one, so failures are logged here."""

from __future__ import annotations

import structlog
from flask import Blueprint, Response, request

from interfaces.dify.conditions import ConditionFilters
from interfaces.passages.shortfalls import shortfalls
from interfaces.web.current_request import layers
from schemas.access.callers import current
from schemas.contracts.dify import Retrieval
from schemas.contracts.search import SearchAnswer, SearchRequest
from schemas.errors import CollectionNotFoundError, RagError
from schemas.where import EVERYTHING, Scalar, Where, all_of
from schemas.wire.dify import RETRIEVAL, error_body, records
from schemas.wire.search import search_receipt
from wrapper.web import error_statuses
from wrapper.web.bodies import json_response
from wrapper.web.error_statuses import UNKNOWN_IS_FORBIDDEN, ErrorFace
from wrapper.web.lanes import Lane
from wrapper.web.request_parts import body, store, unknown
from wrapper.web.route_table import declare

log = structlog.get_logger(__name__)

FACE = ErrorFace("/dify", error_body, UNKNOWN_IS_FORBIDDEN)
"""Dify takes 403 for a wrong key, and other refusals for an answer."""

blueprint = Blueprint("dify", __name__, url_prefix="/dify")


@blueprint.errorhandler(RagError)
def respond(error: RagError) -> Response:
    log.warning("a question of Dify's failed", path=request.path, code=error.code, reason=error.message)
    return error_statuses.respond(error)


@blueprint.post("/retrieval")
@declare(Lane.EMBEDDING, body=RETRIEVAL, places=True)
def retrieve() -> Response:
    asked: Retrieval | None = body()["retrieval"]
    return json_response(records(None if asked is None else _found(asked)))


def _found(asked: Retrieval) -> SearchAnswer:
    answer = layers().search.search(
        SearchRequest(
            asked.query,
            limit=asked.top_k,
            collections=asked.knowledge,
            where=all_of(asked.where, _conditions(asked)),
            asker=current().asker,
            min_relevance=asked.score_threshold,
        )
    )
    for sentence in shortfalls(search_receipt(answer.receipt), least=asked.score_threshold):
        unknown().say(sentence)
    return answer


def _conditions(asked: Retrieval) -> Where:
    if not asked.conditions:
        return EVERYTHING
    names = tuple(each.name for each in layers().choice.choose(asked.knowledge).asked)

    def values(field: str, where: Where, most: int) -> list[Scalar]:
        found: dict[tuple[type, Scalar], Scalar] = {}
        for name in names:
            try:
                facets, _, _ = store().facets(name, [field], where, limit=most + 1)
            except CollectionNotFoundError:  # deleted meanwhile
                continue
            found |= {(type(value), value): value for value, _ in facets[field].values}
            if len(found) > most:
                break
        return list(found.values())

    return ConditionFilters(values).where(asked.conditions, any_holds=asked.any_holds)
