"""Collections and their metadata (seed 003, "Collection Metadata Storage")."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response

from schemas.wire import COLLECTIONS_ARGUMENTS, MERGING_ARGUMENTS, NEW_COLLECTION, NEW_METADATA
from wrapper import answers
from wrapper.bodies import json_response, read_body
from wrapper.lanes import Lane
from wrapper.requests_in import arguments, body, is_known, respond, store, write_options
from wrapper.route_table import declare

blueprint = Blueprint("collections", __name__)

OF_DOCUMENTS = dict.fromkeys(("where", "ids"), "in the body of DELETE /collections/{name}/documents")
"""Who would delete some documents must not delete all."""


@blueprint.post("/collections")
@declare(Lane.WRITE, body=NEW_COLLECTION)
def create_collection() -> Response:
    content = read_body()
    wanted = body(content)
    written = store().create_collection(**wanted, options=write_options(content))
    return respond(written, 201, 201)


@blueprint.get("/collections")
@declare(Lane.READ, query=COLLECTIONS_ARGUMENTS)
def list_collections() -> Response:
    asked = arguments()
    found, next_cursor = store().collections_page(**asked)
    answer: dict[str, Any] = {"collections": [answers.collection(each) for each in found]}
    if asked["limit"] is not None or asked["cursor"] is not None:
        answer["next_cursor"] = next_cursor
    return json_response(answer)


@blueprint.get("/collections/<name>")
@declare(Lane.READ)
def get_collection(name: str) -> Response:
    found = store().collection(name)
    if is_known(answers.etag(found)):
        return Response(status=304, headers={"ETag": f'"{answers.etag(found)}"'})
    return json_response(answers.collection(found), etag=answers.etag(found))


@blueprint.put("/collections/<name>/metadata")
@declare(Lane.WRITE, query=MERGING_ARGUMENTS, body=NEW_METADATA, if_match=True)
def update_metadata(name: str) -> Response:
    return _change_metadata(name, merge=arguments()["merge"])


@blueprint.patch("/collections/<name>/metadata")
@declare(Lane.WRITE, body=NEW_METADATA, if_match=True)
def merge_metadata(name: str) -> Response:
    return _change_metadata(name, merge=True)


@blueprint.delete("/collections/<name>")
@declare(Lane.WRITE, elsewhere=OF_DOCUMENTS, if_match=True)
def delete_collection(name: str) -> Response:
    return respond(store().delete_collection(name, write_options()), 200, 200)


@blueprint.delete("/collections/<name>/documents/all")
@declare(Lane.WRITE, elsewhere=OF_DOCUMENTS, if_match=True)
def empty_collection(name: str) -> Response:
    written = store().empty_collection(name, write_options())
    return respond(written, 200, 200)


def _change_metadata(name: str, *, merge: bool) -> Response:
    content = read_body()
    metadata = body(content)["metadata"]
    written = store().change_collection_metadata(name, metadata, write_options(content), merge=merge)
    return respond(written, 200, 200)
