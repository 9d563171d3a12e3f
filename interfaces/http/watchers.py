"""`/api/watchers`: folders that `rag-wrapper watch` keeps in sync, and how that goes."""

from __future__ import annotations

from flask import Blueprint, Response

from interfaces.http import asking
from interfaces.http.layers import layers
from schemas.wire_watchers import WATCHER_REPORT, known_watcher
from wrapper.bodies import json_response
from wrapper.lanes import Lane
from wrapper.requests_in import body
from wrapper.route_table import declare

blueprint = Blueprint("watchers", __name__, url_prefix="/api/watchers")


@blueprint.get("")
@declare(Lane.READ)
def list_watchers() -> Response:
    return json_response({"watchers": [known_watcher(each) for each in layers().watchers.all(owner=asking.owner())]})


@blueprint.get("/<name>")
@declare(Lane.READ)
def show_watcher(name: str) -> Response:
    return json_response(known_watcher(layers().watchers.one(name, owner=asking.owner())))


@blueprint.put("/<name>")
@declare(Lane.WRITE, body=WATCHER_REPORT)
def report(name: str) -> Response:
    told = layers().watchers.report(name, body()["report"], owner=asking.owner())
    return json_response(known_watcher(told))


@blueprint.delete("/<name>")
@declare(Lane.WRITE)
def forget(name: str) -> Response:
    layers().watchers.forget(name, owner=asking.owner())
    return json_response({"status": "deleted", "name": name})
