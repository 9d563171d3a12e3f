"""`/api/watchers`: the folders that `rag-wrapper watch` keeps in sync, and their progress."""

from __future__ import annotations

from flask import Blueprint, Response

from interfaces.web.current_request import layers
from schemas.access.callers import current
from schemas.wire.checked_fields import OF_OWNER
from schemas.wire.watchers import WATCHER_REPORT, forgotten_watcher, known_watcher, known_watchers
from wrapper.web.bodies import json_response
from wrapper.web.lanes import Lane
from wrapper.web.request_parts import arguments, body
from wrapper.web.route_table import declare

blueprint = Blueprint("watchers", __name__, url_prefix="/api/watchers")


@blueprint.get("")
@declare(Lane.READ)
def list_watchers() -> Response:
    return json_response(known_watchers(layers().watchers.all(asker=current().asker)))


@blueprint.get("/<name>")
@declare(Lane.READ, query=OF_OWNER)
def show_watcher(name: str) -> Response:
    return json_response(known_watcher(layers().watchers.one(name, asker=current().asker, **arguments())))


@blueprint.put("/<name>")
@declare(Lane.WRITE, body=WATCHER_REPORT)
def report(name: str) -> Response:
    told = layers().watchers.report(name, body()["report"], asker=current().asker)
    return json_response(known_watcher(told))


@blueprint.delete("/<name>")
@declare(Lane.WRITE, query=OF_OWNER)
def forget(name: str) -> Response:
    layers().watchers.forget(name, asker=current().asker, **arguments())
    return json_response(forgotten_watcher(name))
