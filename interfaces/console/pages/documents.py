"""Bringing documents: files that are dropped, the jobs that store them, and watched folders."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from interfaces.console.current_page import wire
from interfaces.console.wire import encoded
from retrieval.reading import SECRETS

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
        secrets=f"^(?:{SECRETS.pattern})$",
    )


@blueprint.route("/jobs/<job_id>", methods=["GET", "POST"])
def job(job_id: str) -> Response | str:
    """Show a job, or cancel it."""
    path = encoded("api", "jobs", job_id)
    if request.method != "POST":
        return render_template("job.html", job=wire().get(path))
    wire().delete(path)
    return redirect(url_for("documents.job", job_id=job_id), 303)


@blueprint.route("/of/<collection>", methods=["GET", "POST"])
def document(collection: str) -> Response | str:
    """Show a whole document, what was read from one file in order, or delete it."""
    path = encoded("api", "documents", request.args.get("id", ""))
    if request.method != "POST":
        found = wire().get(path, collection=collection, chunks="true")
        return render_template("whole_document.html", document=found)
    wire().delete(path, collection=collection)
    return redirect(url_for("documents.bring"), 303)


@blueprint.get("/of/<collection>/original")
def original(collection: str) -> Response:
    """Send the file that a document was read from."""
    path = encoded("api", "documents", request.args.get("id", ""), "original")
    return wire().download(path, collection=collection)
