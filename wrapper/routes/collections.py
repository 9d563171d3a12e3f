"""Collections and their metadata (seed 003, "Collection Metadata Storage")."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response

from schemas.wire import COLLECTIONS_ARGUMENTS, MERGING_ARGUMENTS, NEW_COLLECTION, NEW_METADATA
from wrapper import answers
from wrapper.bodies import json_response
from wrapper.requests_in import arguments, body, is_known, read_body, respond, store, takes, write_options
from wrapper.route_table import READS, WRITES

blueprint = Blueprint("collections", __name__)

ROUTES = {
    "create_collection": WRITES,
    "list_collections": READS,
    "get_collection": READS,
    "update_metadata": WRITES,
    "merge_metadata": WRITES,
    "delete_collection": WRITES,
    "empty_collection": WRITES,
}

OF_DOCUMENTS = dict.fromkeys(("where", "ids"), "in the body of DELETE /collections/{name}/documents")
"""Who would delete some documents must not delete all."""


@blueprint.post("/collections")
@takes(body=NEW_COLLECTION)
def create_collection() -> Response:
    content = read_body()
    wanted = body(content)
    written = store().create_collection(**wanted, options=write_options(content))
    return respond(written, 201, 201)


@blueprint.get("/collections")
@takes(query=COLLECTIONS_ARGUMENTS)
def list_collections() -> Response:
    asked = arguments()
    found, next_cursor = store().collections_page(**asked)
    answer: dict[str, Any] = {"collections": [answers.collection(each) for each in found]}
    if asked["limit"] is not None or asked["cursor"] is not None:
        answer["next_cursor"] = next_cursor
    return json_response(answer)


@blueprint.get("/collections/<name>")
def get_collection(name: str) -> Response:
    found = store().collection(name)
    if is_known(answers.etag(found)):
        return Response(status=304, headers={"ETag": f'"{answers.etag(found)}"'})
    return json_response(answers.collection(found), etag=answers.etag(found))


@blueprint.put("/collections/<name>/metadata")
@takes(query=MERGING_ARGUMENTS, body=NEW_METADATA)
def update_metadata(name: str) -> Response:
    return _change_metadata(name, merge=arguments()["merge"])


@blueprint.patch("/collections/<name>/metadata")
@takes(body=NEW_METADATA)
def merge_metadata(name: str) -> Response:
    return _change_metadata(name, merge=True)


@blueprint.delete("/collections/<name>")
@takes(elsewhere=OF_DOCUMENTS)
def delete_collection(name: str) -> Response:
    return respond(store().delete_collection(name, write_options()), 200, 200)


@blueprint.delete("/collections/<name>/documents/all")
@takes(elsewhere=OF_DOCUMENTS)
def empty_collection(name: str) -> Response:
    written = store().empty_collection(name, write_options())
    return respond(written, 200, 200)


def _change_metadata(name: str, *, merge: bool) -> Response:
    content = read_body()
    metadata = body(content)["metadata"]
    written = store().change_collection_metadata(name, metadata, write_options(content), merge=merge)
    return respond(written, 200, 200)
