"""Bringing documents: files that are dropped, the jobs that store them, and watched folders."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from interfaces.console.current_page import wire
from interfaces.console.wire import encoded

blueprint = Blueprint("documents", __name__, url_prefix="/documents")

JOBS, DOCUMENTS = 20, 25


@blueprint.get("")
def bring() -> str:
    asked: dict[str, Any] = {name: request.args.get(name) for name in ("cursor", "source", "kind", "tag")}
    return render_template(
        "documents.html",
        **wire().get("/api/documents", limit=DOCUMENTS, **asked),
        collections=wire().get("/collections", aside=True, limit=200)["collections"],
        jobs=wire().get("/api/jobs", limit=JOBS)["jobs"],
        watchers=wire().get("/api/watchers")["watchers"],
    )


@blueprint.get("/jobs/<job_id>")
def job(job_id: str) -> str:
    return render_template("job.html", job=wire().get(encoded("api", "jobs", job_id)))


@blueprint.post("/jobs/<job_id>")
def cancel(job_id: str) -> Response:
    wire().delete(encoded("api", "jobs", job_id))
    return redirect(url_for("documents.job", job_id=job_id), 303)


@blueprint.get("/of/<collection>")
def document(collection: str) -> str:
    """Show a whole document: what was read from one file, in order."""
    path = encoded("api", "documents", request.args.get("id", ""))
    found = wire().get(path, collection=collection, chunks="true")
    return render_template("whole_document.html", document=found)


@blueprint.get("/of/<collection>/original")
def original(collection: str) -> Response:
    """Send the file that a document was read from."""
    path = encoded("api", "documents", request.args.get("id", ""), "original")
    return wire().download(path, collection=collection)


@blueprint.post("/of/<collection>")
def delete(collection: str) -> Response:
    path = encoded("api", "documents", request.args.get("id", ""))
    wire().delete(path, collection=collection)
    return redirect(url_for("documents.bring"), 303)
