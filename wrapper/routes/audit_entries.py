"""`/api/audit`: the entries of the audit log."""

from __future__ import annotations

from datetime import UTC, datetime

from flask import Blueprint, Response

from schemas.storage.audit import AuditQuery
from schemas.wire.storage.audit import AUDIT_ARGUMENTS, audit_answer, since_of
from wrapper.audit.reading import newest_page
from wrapper.routes.service import service
from wrapper.web.bodies import json_response
from wrapper.web.lanes import Lane
from wrapper.web.request_parts import arguments, unknown
from wrapper.web.route_table import declare

blueprint = Blueprint("audit", __name__)

LIMIT_SECONDS = 10.0
"""The longest that is searched for entries: logs are never deleted, and may be long."""


@blueprint.get("/api/audit")
@declare(Lane.READ, query=AUDIT_ARGUMENTS)
def list_entries() -> Response:
    asked = arguments()
    limit, since = asked.pop("limit"), asked.pop("since")
    query = AuditQuery(since=None if since is None else since_of(since, datetime.now(UTC)), **asked)
    page = newest_page(service().recorder.audit_log.folder, query, limit, limit_seconds=LIMIT_SECONDS)
    if page.skipped:
        unknown().say(f"{page.skipped} lines of the audit log cannot be read")
    if not page.whole:
        unknown().say(f"Older entries were not searched: that took more than {LIMIT_SECONDS:.0f} seconds")
    return json_response(audit_answer(page.entries))
