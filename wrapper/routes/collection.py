"""Collections and their metadata (contract *storage*, "Collection Metadata Storage")."""

from __future__ import annotations

from functools import partial

from flask import Blueprint, Response

from schemas.access.callers import Scope
from schemas.storage.outcomes import EarlierAnswer
from schemas.wire.storage.collection import (
    COLLECTIONS_ARGUMENTS,
    CREATING_ARGUMENTS,
    MERGING_ARGUMENTS,
    NEW_COLLECTION,
    NEW_METADATA,
    NEW_NAME,
    changed_answer,
    collection_answer,
    collection_deleted_answer,
    collections_answer,
    copied_answer,
    created_answer,
    emptied_answer,
    renamed_answer,
)
from wrapper.web.bodies import json_response, read_body
from wrapper.web.callers import require
from wrapper.web.lanes import Lane
from wrapper.web.request_parts import arguments, body, store, write_options
from wrapper.web.responses import not_modified, respond
from wrapper.web.route_table import declare

blueprint = Blueprint("collections", __name__)

OF_DOCUMENTS = dict.fromkeys(("where", "ids"), "in the body of DELETE /collections/{name}/documents")
"""The fields that select documents. Deleting a collection refuses them: a caller that means to delete some documents
must not delete all of them."""


@blueprint.post("/collections")
@declare(
    Lane.WRITE,
    query=CREATING_ARGUMENTS,
    body=NEW_COLLECTION,
    elsewhere={"dimension": "as that of the first document, which sets it"},
    waits=True,
)
def create_collection() -> Response:
    asked = arguments()
    content = read_body()
    written = store().create_collection(**body(content), options=write_options(content), **asked)
    made = isinstance(written.outcome, EarlierAnswer) or not written.outcome.existed
    return respond(written, created_answer, *((201, 201) if made else (200, 200)))


@blueprint.get("/collections")
@declare(Lane.READ, query=COLLECTIONS_ARGUMENTS)
def list_collections() -> Response:
    asked = arguments()
    with_index = asked.pop("include") is not None
    if with_index:
        require(Scope.MANAGE)
    found, next_cursor = store().collections_page(**asked)
    is_page = asked["limit"] is not None or asked["cursor"] is not None
    indexes = store().indexes.of_all(found) if with_index else ()
    return json_response(collections_answer(found, next_cursor, indexes, is_page=is_page))


@blueprint.get("/collections/<name>")
@declare(Lane.READ)
def get_collection(name: str) -> Response:
    found = store().collection(name)
    return not_modified(found) or json_response(collection_answer(found), etag=found.version)


@blueprint.put("/collections/<name>/metadata")
@declare(Lane.WRITE, query=MERGING_ARGUMENTS, body=NEW_METADATA, if_match=True, waits=True)
def update_metadata(name: str) -> Response:
    return _change_metadata(name, merge=arguments()["merge"])


@blueprint.patch("/collections/<name>/metadata")
@declare(Lane.WRITE, body=NEW_METADATA, if_match=True, waits=True)
def merge_metadata(name: str) -> Response:
    return _change_metadata(name, merge=True)


@blueprint.patch("/collections/<name>")
@declare(Lane.WRITE, body=NEW_NAME, if_match=True, waits=True)
def rename_collection(name: str) -> Response:
    content = read_body()
    written = store().names.rename(name, body(content)["name"], write_options(content))
    return respond(written, partial(renamed_answer, name), 200, 200)


@blueprint.post("/collections/<name>/copy")
@declare(Lane.WRITE, body=NEW_NAME, if_match=True, waits=True)
def copy_collection(name: str) -> Response:
    content = read_body()
    written = store().names.copy(name, body(content)["name"], write_options(content))
    return respond(written, partial(copied_answer, name), 201, with_index=True)


@blueprint.delete("/collections/<name>")
@declare(Lane.WRITE, elsewhere=OF_DOCUMENTS, if_match=True, waits=True)
def delete_collection(name: str) -> Response:
    written = store().delete_collection(name, write_options())
    return respond(written, lambda _: collection_deleted_answer(name), 200, 200)


@blueprint.delete("/collections/<name>/documents/all", strict_slashes=True)
@declare(Lane.WRITE, elsewhere=OF_DOCUMENTS, if_match=True, waits=True)
def empty_collection(name: str) -> Response:
    written = store().empty_collection(name, write_options())
    return respond(written, partial(emptied_answer, name), 200, 200)


def _change_metadata(name: str, *, merge: bool) -> Response:
    content = read_body()
    metadata = body(content)["metadata"]
    written = store().change_collection_metadata(name, metadata, write_options(content), merge=merge)
    return respond(written, partial(changed_answer, merge=merge), 200, 200)
