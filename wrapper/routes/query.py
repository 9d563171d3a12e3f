"""Finding documents: by vector, by words, in whole groups, by their values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import structlog
from flask import Blueprint, Response, g

from schemas.errors import InvalidInputError
from schemas.records import Collection
from schemas.wire.storage.projection import PROJECTION_ARGUMENTS, projection_answer
from schemas.wire.storage.query import (
    FACET_ARGUMENTS,
    FIELD_ARGUMENTS,
    GATHER,
    QUERY,
    TEXT_SEARCH,
    facets_answer,
    gather_answer,
    probe_answer,
    queries_answer,
    query_answer,
    text_search_answer,
    values_answer,
)
from wrapper.web.bodies import json_response
from wrapper.web.lanes import Lane
from wrapper.web.request_parts import arguments, body, store, unknown
from wrapper.web.responses import not_modified
from wrapper.web.route_table import declare

blueprint = Blueprint("retrieval", __name__)
log = structlog.get_logger(__name__)


@blueprint.post("/query")
@declare(Lane.READ, body=QUERY)
def query() -> Response:
    asked = body()
    if "collection" not in asked:
        raise InvalidInputError("collection is required", code="invalid_field", field="collection")
    return _query(asked.pop("collection"), asked)


@blueprint.post("/collections/<name>/query")
@declare(Lane.READ, body=QUERY)
def query_collection(name: str) -> Response:
    asked = body()
    asked.pop("collection", None)
    return _query(name, asked)


@blueprint.get("/query")
@declare(Lane.READ)
def probe() -> Response:
    return json_response(probe_answer(store().collections_count()))


@blueprint.post("/collections/<name>/gather")
@declare(Lane.READ, body=GATHER)
def gather(name: str) -> Response:
    asked = body()
    found = store().gather(name, asked["spec"], ids=asked["ids"], where=asked["where"])
    _name_unknown(found.unknown_fields)
    return json_response(gather_answer(found, given_ids=asked["ids"] is not None), etag=found.collection.version)


@blueprint.post("/collections/<name>/text-search")
@declare(Lane.READ, body=TEXT_SEARCH)
def search_text(name: str) -> Response:
    asked = body()
    found, total, collection = store().text_search(name, asked["query"], asked["where"], limit=asked["top_k"])
    return json_response(text_search_answer(found, total, collection.revision), etag=collection.version)


@blueprint.get("/collections/<name>/facets")
@declare(Lane.READ, query=FACET_ARGUMENTS)
def facets(name: str) -> Response:
    asked = arguments()
    found, total, collection = store().facets(name, asked["fields_"], asked["where"], limit=asked["limit"])
    return not_modified(collection) or json_response(
        facets_answer(found, total, collection.revision), etag=collection.version
    )


@blueprint.get("/collections/<name>/projection")
@declare(Lane.COMPUTING, query=PROJECTION_ARGUMENTS)
def projection(name: str) -> Response:
    known = not_modified(store().collection(name))
    if known is not None:
        return known
    found = store().projection(name, **arguments())
    return json_response(projection_answer(found), etag=found.collection.version)


@blueprint.get("/collections/<name>/metadata-values")
@declare(Lane.READ, query=FIELD_ARGUMENTS)
def metadata_values(name: str) -> Response:
    field = arguments()["name"]
    values, collection = store().distinct_values(name, field)
    return not_modified(collection) or json_response(values_answer(field, values), etag=collection.version)


def _query(name: str, asked: dict[str, Any]) -> Response:
    queries = asked.pop("queries")
    if queries is None:
        answer, collection = _answered(name, asked)
        return json_response(answer, etag=collection.version)
    return json_response(queries_answer([_answered(name, each)[0] for each in queries]))


def _answered(name: str, asked: dict[str, Any]) -> tuple[dict[str, Any], Collection]:
    found = store().query(
        name,
        asked["query_embedding"],
        near=asked["ids"] or (),
        top_k=asked["top_k"],
        where=asked["where"],
        max_distance=asked["max_distance"],
        gather_by=asked["gather"],
        with_embeddings="embedding" in asked["include"],
    )
    g.plan = found.plan
    _name_unknown(found.unknown_fields)
    answer = query_answer(
        found.collection, found.matches, found.groups, query=asked["query"], plan=found.plan, recall=found.recall
    )
    return answer, found.collection


def _name_unknown(fields: Sequence[str]) -> None:
    for field in fields:
        unknown().say(f"No document has the field '{field}' that gather names")
