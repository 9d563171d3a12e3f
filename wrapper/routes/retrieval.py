"""Finding documents: by vector, by words, in whole groups, by their values."""

from __future__ import annotations

from typing import Any

import structlog
from flask import Blueprint, Response, g

from schemas.errors import InvalidInputError
from schemas.records import GatherSpec
from schemas.wire import FACET_ARGUMENTS, FIELD_ARGUMENTS, GATHER, QUERY, TEXT_SEARCH
from wrapper import answers
from wrapper.bodies import json_response
from wrapper.lanes import Lane
from wrapper.requests_in import arguments, body, is_known, store
from wrapper.route_table import declare

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
    return json_response({"status": "ready", "collections": store().collections_count()})


@blueprint.post("/collections/<name>/gather")
@declare(Lane.READ, body=GATHER)
def gather(name: str) -> Response:
    asked = body()
    spec = GatherSpec(asked["by"], asked["order_by"], asked["limit"])
    groups, collection = store().gather(name, spec, ids=asked["ids"], where=asked["where"])
    return json_response(
        {"groups": [answers.group(each, {}) for each in groups], "revision": collection.revision},
        etag=answers.etag(collection),
    )


@blueprint.post("/collections/<name>/text-search")
@declare(Lane.READ, body=TEXT_SEARCH)
def search_text(name: str) -> Response:
    asked = body()
    found, total, collection = store().text_search(name, asked["query"], asked["where"], limit=asked["top_k"])
    return json_response(
        {
            "results": [answers.text_match(each) for each in found],
            "total": total,
            "revision": collection.revision,
        },
        etag=answers.etag(collection),
    )


@blueprint.get("/collections/<name>/facets")
@declare(Lane.READ, query=FACET_ARGUMENTS)
def facets(name: str) -> Response:
    asked = arguments()
    found, total, collection = store().facets(name, asked["fields_"], asked["where"], limit=asked["limit"])
    etag = answers.etag(collection)
    if is_known(etag):
        return Response(status=304, headers={"ETag": f'"{etag}"'})
    return json_response(
        {
            "facets": {field: answers.facet(each) for field, each in found.items()},
            "total": total,
            "revision": collection.revision,
        },
        etag=etag,
    )


@blueprint.get("/collections/<name>/metadata-values")
@declare(Lane.READ, query=FIELD_ARGUMENTS)
def metadata_values(name: str) -> Response:
    field = arguments()["name"]
    values, collection = store().distinct_values(name, field)
    etag = answers.etag(collection)
    if is_known(etag):
        return Response(status=304, headers={"ETag": f'"{etag}"'})
    spelt = sorted({answers.spelt(value) for value in values})
    return json_response({"field": field, "values": spelt, "count": len(spelt)}, etag=etag)


def _query(name: str, asked: dict[str, Any]) -> Response:
    found = store().query(
        name,
        asked["query_embedding"],
        top_k=asked["top_k"],
        where=asked["where"],
        max_distance=asked["max_distance"],
        gather_by=asked["gather"],
        with_embeddings="embedding" in asked["include"],
    )
    g.plan = found.plan
    answer = {
        "results": [answers.match(each) for each in found.matches],
        "collection": found.collection.name,
        "collection_metadata": found.collection.metadata,
        "query": asked["query"],
        "plan": found.plan,
        "revision": found.collection.revision,
    }
    if found.groups is not None:
        distances = {each.document.id: each.distance for each in found.matches}
        answer["groups"] = [answers.group(each, distances) for each in found.groups]
    return json_response(answer, etag=answers.etag(found.collection))
