"""`/api/settings`: the settings in force, and where each comes from."""

from __future__ import annotations

from flask import Blueprint, Response, current_app

from schemas.settings.in_force import settings_in_force
from schemas.wire.service.settings import settings_answer
from wrapper.web.bodies import json_response
from wrapper.web.lanes import Lane
from wrapper.web.route_table import declare

blueprint = Blueprint("settings", __name__, url_prefix="/api/settings")
SETTINGS = "rag.settings"
"""Under which name the application has its settings."""


@blueprint.get("")
@declare(Lane.LIFE)
def list_settings() -> Response:
    return json_response(settings_answer(settings_in_force(current_app.extensions[SETTINGS])))
