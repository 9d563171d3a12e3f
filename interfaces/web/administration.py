"""`/api/erase`: documents, or what belongs to a user, disappear from every table and file; `/api/settings`: the
settings in force, and where each comes from."""

from __future__ import annotations

from dataclasses import replace

from flask import Blueprint, Response, current_app

from interfaces.web.current_request import layers
from schemas.access.api_keys import KEY_OWNER, KeyNotFoundError
from schemas.access.owners import USER_OWNER
from schemas.errors import InvalidInputError
from schemas.settings.in_force import settings_in_force
from schemas.storage.erasure import ErasureUnfinishedError
from schemas.wire.service.settings import settings_answer
from schemas.wire.storage.erasure import ERASURE, erasure_receipt
from wrapper.audit.noted import note_collection, note_count, note_subject
from wrapper.web.bodies import json_response
from wrapper.web.callers import authentication
from wrapper.web.lanes import Lane
from wrapper.web.request_parts import body
from wrapper.web.route_table import declare

blueprint = Blueprint("administration", __name__, url_prefix="/api")
SETTINGS = "rag.settings"
"""Under which name the application has its settings."""


@blueprint.get("/settings")
@declare(Lane.LIFE)
def list_settings() -> Response:
    return json_response(settings_answer(settings_in_force(current_app.extensions[SETTINGS])))


@blueprint.post("/erase")
@declare(Lane.WRITE, body=ERASURE)
def erase() -> Response:
    request = body()["request"]
    if request.collection is not None:
        note_collection(request.collection)
    if request.user is not None:
        owner = _owner_of(request.user)
        note_subject(owner.removeprefix(KEY_OWNER))
        request = replace(request, user=owner)
    try:
        receipt = layers().erasure.erase(request)
    except ErasureUnfinishedError as error:
        note_count(error.documents)
        raise
    note_count(receipt.documents)
    return json_response(erasure_receipt(receipt))


def _owner_of(named: str) -> str:
    """Return the owner that is meant: by a user's name, or by the id of a key, which stands for all keys that came of
    the same one by rotation.

    Raises KeyNotFoundError, and InvalidInputError for the text of a key: that is a secret.
    """
    if named.startswith(USER_OWNER) and named != USER_OWNER:
        return named
    key_id = named.removeprefix(KEY_OWNER).removeprefix("rw_")
    if not key_id.isalnum():
        sentence = "user must be the id of a key, not the key itself, or user: and the name of a user"
        raise InvalidInputError(sentence, code="invalid_field", field="user")
    try:
        return KEY_OWNER + authentication().stored.one(key_id).owner
    except KeyNotFoundError as error:
        error.details["field"] = "user"
        raise
