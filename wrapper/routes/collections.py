"""Collections and their metadata (seed 003, "Collection Metadata Storage")."""

from __future__ import annotations

from flask import Blueprint, Response, request

from schemas.errors import InvalidInputError
from schemas.wire import NEW_COLLECTION, NEW_METADATA, load
from wrapper import answers
from wrapper.bodies import json_response
from wrapper.requests_in import decode_json, is_known, read_body, store, write_options
from wrapper.route_table import READS, WRITES

blueprint = Blueprint("collections", __name__)

ROUTES = {
    "create_collection": WRITES,
    "list_collections": READS,
    "get_collection": READS,
    "update_metadata": WRITES,
    "delete_collection": WRITES,
    "empty_collection": WRITES,
}

TRUTH = {"true": True, "1": True, "false": False, "0": False}


@blueprint.post("/collections")
def create_collection() -> Response:
    content = read_body()
    wanted = load(NEW_COLLECTION, decode_json(content))
    written = store().create_collection(**wanted, options=write_options(content))
    return json_response(written.answer, 201, written.etag)


@blueprint.get("/collections")
def list_collections() -> Response:
    return json_response({"collections": [answers.collection(each) for each in store().collections()]})


@blueprint.get("/collections/<name>")
def get_collection(name: str) -> Response:
    found = store().collection(name)
    if is_known(answers.etag(found)):
        return Response(status=304, headers={"ETag": f'"{answers.etag(found)}"'})
    return json_response(answers.collection(found), etag=answers.etag(found))


@blueprint.route("/collections/<name>/metadata", methods=["PUT", "PATCH"])
def update_metadata(name: str) -> Response:
    content = read_body()
    metadata = load(NEW_METADATA, decode_json(content))["metadata"]
    merge = request.method == "PATCH" or _truth("merge")
    written = store().change_collection_metadata(name, metadata, write_options(content), merge=merge)
    return json_response(written.answer, etag=written.etag)


@blueprint.delete("/collections/<name>")
def delete_collection(name: str) -> Response:
    return json_response(store().delete_collection(name, write_options()).answer)


@blueprint.delete("/collections/<name>/documents/all")
def empty_collection(name: str) -> Response:
    written = store().empty_collection(name, write_options())
    return json_response(written.answer, etag=written.etag)


def _truth(argument: str) -> bool:
    said = request.args.get(argument, "false").lower()
    if said not in TRUTH:
        raise InvalidInputError(f"{argument} must be true or false", code="invalid_field", field=argument)
    return TRUTH[said]
