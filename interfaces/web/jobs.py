"""`/api/jobs`: what became of uploads."""

from __future__ import annotations

from flask import Blueprint, Response

from interfaces.web import current_request
from interfaces.web.current_request import layers
from schemas.wire.jobs import JOBS_PAGE, job_answer, jobs_page
from wrapper.web.bodies import json_response
from wrapper.web.lanes import Lane
from wrapper.web.request_parts import arguments
from wrapper.web.route_table import declare

blueprint = Blueprint("jobs", __name__, url_prefix="/api/jobs")


@blueprint.get("")
@declare(Lane.READ, query=JOBS_PAGE)
def list_jobs() -> Response:
    return json_response(jobs_page(*layers().jobs.page(**arguments(), asker=current_request.asker())))


@blueprint.get("/<job_id>")
@declare(Lane.READ)
def show_job(job_id: str) -> Response:
    return json_response(job_answer(layers().jobs.one(job_id, asker=current_request.asker())))


@blueprint.delete("/<job_id>")
@declare(Lane.WRITE)
def cancel_job(job_id: str) -> Response:
    return json_response(job_answer(layers().uploads.cancel(job_id, asker=current_request.asker())))
