"""What Chroma's clients ask of the server itself, and the way back from what it does not do."""

from __future__ import annotations

import time

from flask import Blueprint, Response, current_app

from interfaces.chroma.face import DATABASE, ROOT
from schemas.access.callers import current
from schemas.errors import GoneError, ResetDisabledError, UnsupportedError
from schemas.names import DEFAULT_DATABASE, DEFAULT_TENANT
from wrapper.web.bodies import json_response
from wrapper.web.document_batches import MAX_DOCUMENTS
from wrapper.web.lanes import Lane
from wrapper.web.request_parts import store
from wrapper.web.route_table import declare

blueprint = Blueprint("chroma_server", __name__)

VERSION = "1.0.0"
"""What every server of 1.x says; its clients ask no more than that there are three numbers."""
FORKING = "Collection forking is unsupported for local chroma"
FUNCTIONS = "Attached functions are unsupported for local chroma"
CONDITIONAL = "Conditional transactions are unsupported for local chroma"


@blueprint.get(ROOT)
@blueprint.get(f"{ROOT}/heartbeat")
@declare(Lane.STATE, own_rules=True, exact=True)
def heartbeat() -> Response:
    return json_response({"nanosecond heartbeat": time.time_ns()})


@blueprint.get(f"{ROOT}/version")
@declare(Lane.STATE, own_rules=True, exact=True)
def version() -> Response:
    return json_response(VERSION)


@blueprint.get(f"{ROOT}/healthcheck")
@declare(Lane.READ, own_rules=True, exact=True)
def healthcheck() -> Response:
    store().writing.erasures()  # an answer of the catalogue
    return json_response({"is_executor_ready": True, "is_log_client_ready": True})


@blueprint.get(f"{ROOT}/pre-flight-checks")
@declare(Lane.STATE, own_rules=True, exact=True)
def pre_flight_checks() -> Response:
    return json_response({"max_batch_size": MAX_DOCUMENTS, "supports_base64_encoding": True})


@blueprint.get(f"{ROOT}/auth/identity")
@declare(Lane.STATE, own_rules=True, exact=True)
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
@declare(Lane.WRITE, own_rules=True, exact=True)
def reset() -> Response:
    if not current_app.config["ALLOW_RESET"]:
        raise ResetDisabledError
    store().namespaces.reset()
    return json_response(True)


@blueprint.post(f"{DATABASE}/collections/<collection_id>/fork")
@declare(Lane.STATE, own_rules=True)
def fork(tenant: str, database: str, collection_id: str) -> Response:
    raise UnsupportedError(FORKING)


@blueprint.post(f"{DATABASE}/collections/<collection_id>/search")
@declare(Lane.STATE, own_rules=True)
def search(tenant: str, database: str, collection_id: str) -> Response:
    raise UnsupportedError("Search operation is not implemented for local executor")


@blueprint.get(f"{DATABASE}/collections/<collection_id>/fork_count")
@declare(Lane.STATE, own_rules=True)
def fork_count(tenant: str, database: str, collection_id: str) -> Response:
    raise UnsupportedError(FORKING)


@blueprint.post(f"{DATABASE}/collections/<collection_id>/functions/attach")
@declare(Lane.STATE, own_rules=True)
def attach_function(tenant: str, database: str, collection_id: str) -> Response:
    raise UnsupportedError(FUNCTIONS)


@blueprint.get(f"{DATABASE}/collections/<collection_id>/functions/<name>")
@declare(Lane.STATE, own_rules=True)
def get_function(tenant: str, database: str, collection_id: str, name: str) -> Response:
    raise UnsupportedError(FUNCTIONS)


@blueprint.post(f"{DATABASE}/collections/<collection_id>/attached_functions/<name>/detach")
@declare(Lane.STATE, own_rules=True)
def detach_function(tenant: str, database: str, collection_id: str, name: str) -> Response:
    raise UnsupportedError(FUNCTIONS)


@blueprint.post(f"{DATABASE}/collections/<collection_id>/conditional/get")
@declare(Lane.STATE, own_rules=True)
def conditional_get(tenant: str, database: str, collection_id: str) -> Response:
    raise UnsupportedError(CONDITIONAL)


@blueprint.post(f"{DATABASE}/collections/<collection_id>/conditional/commit")
@declare(Lane.STATE, own_rules=True)
def conditional_commit(tenant: str, database: str, collection_id: str) -> Response:
    raise UnsupportedError(CONDITIONAL)


@blueprint.route("/api/v1/<path:rest>", methods=["GET", "POST", "PUT", "DELETE"])
@declare(Lane.STATE, own_rules=True)
def old_api(rest: str) -> Response:
    raise GoneError("The v1 API is deprecated. Please use /v2 apis")
