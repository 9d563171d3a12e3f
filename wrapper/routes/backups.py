"""`/api/backups`: backups of everything the service keeps."""

from __future__ import annotations

from flask import Blueprint, Response, send_file

from schemas.wire.storage.backups import backup, backups, begun_backup, deleted_backup
from wrapper.audit.noted import note_subject
from wrapper.routes.service import service
from wrapper.web.bodies import json_response
from wrapper.web.lanes import Lane
from wrapper.web.route_table import declare

blueprint = Blueprint("backups", __name__, url_prefix="/api/backups")

MEDIA_TYPE = "application/octet-stream"


@blueprint.get("")
@declare(Lane.READ)
def list_backups() -> Response:
    return json_response(backups(service().backups.all()))


@blueprint.post("")
@declare(Lane.WRITE)
def begin_backup() -> Response:
    backup_id = service().backups.begin()
    note_subject(backup_id)
    response = json_response(begun_backup(backup_id), 202)
    response.headers["Location"] = f"/api/backups/{backup_id}"
    return response


@blueprint.get("/<backup_id>")
@declare(Lane.READ)
def show_backup(backup_id: str) -> Response:
    return json_response(backup(service().backups.find(backup_id)))


@blueprint.get("/<backup_id>/content")
@declare(Lane.READ, exact=True)
def download_backup(backup_id: str) -> Response:
    path = service().backups.file(backup_id)
    note_subject(backup_id)
    response = send_file(
        path, MEDIA_TYPE, as_attachment=True, download_name=path.name, conditional=False, etag=False, max_age=0
    )
    response.headers["Cache-Control"] = "no-store"
    return response


@blueprint.delete("/<backup_id>")
@declare(Lane.WRITE)
def delete_backup(backup_id: str) -> Response:
    service().backups.delete(backup_id)
    note_subject(backup_id)
    return json_response(deleted_backup(backup_id))
