"""`/api/erase`: documents, or what belongs to a user, disappear from every table and file."""

from __future__ import annotations

from dataclasses import replace

from flask import Blueprint, Response

from interfaces.web.current_request import layers
from schemas.access.api_keys import KEY_OWNER
from schemas.storage.erasure import ErasureUnfinishedError
from schemas.wire.storage.erasure import ERASURE, erasure_receipt
from wrapper.audit.noted import note_collection, note_count, note_subject
from wrapper.web.bodies import json_response
from wrapper.web.lanes import Lane
from wrapper.web.request_parts import body
from wrapper.web.route_table import declare

blueprint = Blueprint("erasure", __name__, url_prefix="/api")


@blueprint.post("/erase")
@declare(Lane.WRITE, body=ERASURE)
def erase() -> Response:
    request = body()["request"]
    if request.collection is not None:
        note_collection(request.collection)
    erasing = layers().erasure
    if request.user is not None:
        owner = erasing.owner_of(request.user)
        note_subject(owner.removeprefix(KEY_OWNER))
        request = replace(request, user=owner)
    try:
        receipt = erasing.erasure.erase(request)
    except ErasureUnfinishedError as error:
        note_count(error.documents)
        raise
    note_count(receipt.documents)
    return json_response(erasure_receipt(receipt))
