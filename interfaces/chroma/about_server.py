"""What Chroma's clients ask of the server itself, and the way back from what it does not do."""

from __future__ import annotations

import time

from flask import Blueprint, Response

from interfaces.chroma.face import DATABASE, ROOT, check_reset, chroma_route
from schemas.access.callers import current
from schemas.errors import GoneError, UnsupportedError
from schemas.names import DEFAULT_DATABASE, DEFAULT_TENANT
from wrapper.web.bodies import json_response
from wrapper.web.document_batches import MAX_DOCUMENTS
from wrapper.web.lanes import Lane
from wrapper.web.request_parts import store

blueprint = Blueprint("chroma_server", __name__)

VERSION = "1.0.0"
"""What every server of 1.x says; its clients ask no more than that there are three numbers."""
FORKING = "Collection forking is unsupported for local chroma"
FUNCTIONS = "Attached functions are unsupported for local chroma"
SEARCHING = "Search is unsupported for local chroma"
CONDITIONAL = "Conditional transactions are unsupported for local chroma"
REFUSED = (
    ("POST", "fork", FORKING),
    ("GET", "fork_count", FORKING),
    ("POST", "search", SEARCHING),
    ("POST", "functions/attach", FUNCTIONS),
    ("GET", "functions/<name>", FUNCTIONS),
    ("POST", "attached_functions/<name>/detach", FUNCTIONS),
    ("POST", "conditional/get", CONDITIONAL),
    ("POST", "conditional/commit", CONDITIONAL),
)
"""What a server of Chroma's on one machine refuses, below a collection, and how it says so."""


@blueprint.get(ROOT)
@blueprint.get(f"{ROOT}/heartbeat")
@chroma_route(Lane.STATE)
def heartbeat() -> Response:
    return json_response({"nanosecond heartbeat": time.time_ns()})


@blueprint.get(f"{ROOT}/version")
@chroma_route(Lane.STATE)
def version() -> Response:
    return json_response(VERSION)


@blueprint.get(f"{ROOT}/healthcheck")
@chroma_route(Lane.READ)
def healthcheck() -> Response:
    store().writing.erasures()  # which the catalogue answers, for any caller
    return json_response({"is_executor_ready": True, "is_log_client_ready": True})


@blueprint.get(f"{ROOT}/pre-flight-checks")
@chroma_route(Lane.STATE)
def pre_flight_checks() -> Response:
    return json_response({"max_batch_size": MAX_DOCUMENTS, "supports_base64_encoding": True})


@blueprint.get(f"{ROOT}/auth/identity")
@chroma_route(Lane.STATE)
def identity() -> Response:
    """Say who asks, and the tenant and databases to use: those of a key for one database alone are its own.

    Chroma's Python client takes no other field.
    """
    caller = current()
    patterns = caller.collections or ()
    own = {tuple(each.split("/")[1:3]) for each in patterns if each.startswith("/") and each.count("/") > 2}
    tenants = {tenant for tenant, _ in own}
    tenant, databases = DEFAULT_TENANT, [DEFAULT_DATABASE]
    if len(tenants) == 1 and all(each.startswith("/") for each in patterns):
        tenant, databases = tenants.pop(), sorted(each[1] for each in own)
    return json_response({"user_id": caller.id, "tenant": tenant, "databases": databases})


@blueprint.post(f"{ROOT}/reset")
@chroma_route(Lane.WRITE)
def reset() -> Response:
    check_reset()
    store().namespaces.reset()
    return json_response(True)


@chroma_route(Lane.STATE, exact=False)
def refuse(sentence: str, **path: str) -> Response:
    raise UnsupportedError(sentence)


for _method, _path, _sentence in REFUSED:
    blueprint.add_url_rule(
        f"{DATABASE}/collections/<collection_id>/{_path}",
        f"refuse {_method} {_path}",
        refuse,
        methods=[_method],
        defaults={"sentence": _sentence},
    )


@blueprint.route("/api/v1/<path:rest>", methods=["GET", "POST", "PUT", "DELETE"])
@chroma_route(Lane.STATE, exact=False)
def old_api(rest: str) -> Response:
    raise GoneError("The v1 API is deprecated. Please use /v2 apis")
