"""`/api/keys` and `/api/me`: who may do what."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from flask import Blueprint, Response

from schemas.access.api_keys import ApiKey
from schemas.access.callers import current
from schemas.wire.keys import (
    CHANGED_KEY,
    NEW_KEY,
    ROTATION,
    api_key,
    api_keys,
    changed_grant,
    end_of,
    myself,
    new_key,
    revoked_key,
)
from wrapper.access.stored_keys import StoredKeys
from wrapper.audit import noted
from wrapper.web.bodies import json_response
from wrapper.web.callers import authentication
from wrapper.web.lanes import Lane
from wrapper.web.request_parts import body
from wrapper.web.route_table import declare

blueprint = Blueprint("access", __name__, url_prefix="/api")


@blueprint.get("/me")
@declare(Lane.READ)
def show_myself() -> Response:
    return json_response(myself(current()))


@blueprint.get("/keys")
@declare(Lane.READ)
def list_keys() -> Response:
    return json_response(api_keys(_stored().all()))


@blueprint.post("/keys")
@declare(Lane.WRITE, body=NEW_KEY)
def create_key() -> Response:
    return _secret(*_stored().create(**body(), keeps_admin=authentication().relies_on_keys()))


@blueprint.get("/keys/<key_id>")
@declare(Lane.READ)
def show_key(key_id: str) -> Response:
    return json_response(api_key(_stored().one(key_id)))


@blueprint.patch("/keys/<key_id>")
@declare(Lane.WRITE, body=CHANGED_KEY)
def change_key(key_id: str) -> Response:
    asked = body()
    keeps_admin = authentication().relies_on_keys()
    changed = _stored().change(key_id, lambda before: _changed(before, asked), keeps_admin=keeps_admin)
    return json_response(api_key(changed))


@blueprint.delete("/keys/<key_id>")
@declare(Lane.WRITE)
def revoke_key(key_id: str) -> Response:
    return json_response(revoked_key(_stored().revoke(key_id, keeps_admin=authentication().relies_on_keys())))


@blueprint.post("/keys/<key_id>/rotate")
@declare(Lane.WRITE, body=ROTATION)
def rotate_key(key_id: str) -> Response:
    grace = timedelta(seconds=body()["grace_seconds"])
    return _secret(*_stored().rotate(key_id, grace=grace))


def _stored() -> StoredKeys:
    return authentication().stored


def _changed(before: ApiKey, asked: dict[str, Any]) -> ApiKey:
    return replace(
        before,
        name=asked.get("name", before.name),
        grant=changed_grant(before.grant, asked),
        expires_at=end_of(asked, before.expires_at),
    )


def _secret(key: ApiKey, text: str) -> Response:
    noted.note_subject(key.id)
    response = json_response(new_key(key, text), 201)
    response.headers["Cache-Control"] = "no-store"
    return response
