"""Aliases: names that stand for collections, switched in one step."""

from __future__ import annotations

from flask import Blueprint, Response

from schemas.names import check_collection_name
from schemas.wire.storage.alias import (
    ALIAS_TARGET,
    ALIASES_ARGUMENTS,
    alias_answer,
    alias_deleted_answer,
    alias_put_answer,
    aliases_answer,
)
from wrapper.web.bodies import json_response, read_body
from wrapper.web.lanes import Lane
from wrapper.web.request_parts import arguments, body, store, write_options
from wrapper.web.responses import respond
from wrapper.web.route_table import declare

blueprint = Blueprint("aliases", __name__)


@blueprint.get("/aliases")
@declare(Lane.READ, query=ALIASES_ARGUMENTS)
def list_aliases() -> Response:
    return json_response(aliases_answer(store().names.aliases(**arguments())))


@blueprint.get("/aliases/<alias>")
@declare(Lane.READ)
def get_alias(alias: str) -> Response:
    return json_response(alias_answer(store().names.alias(alias)))


@blueprint.put("/aliases/<alias>")
@declare(Lane.WRITE, body=ALIAS_TARGET)
def put_alias(alias: str) -> Response:
    content = read_body()
    asked = body(content)
    written = store().names.put_alias(
        check_collection_name(alias, field="alias"), asked["collection"], write_options(content)
    )
    return respond(written, alias_put_answer)


@blueprint.delete("/aliases/<alias>")
@declare(Lane.WRITE)
def delete_alias(alias: str) -> Response:
    return respond(store().names.remove_alias(alias, write_options()), alias_deleted_answer)
