"""`/api/documents` and `/api/jobs`: files in, the documents made of them, and what became of uploads."""

from __future__ import annotations

from urllib.parse import unquote

from flask import Blueprint, Response, request
from werkzeug.routing import Map, PathConverter

from interfaces.web.current_request import layers
from interfaces.web.upload_parts import arriving_pieces, form_fields, sent_file
from retrieval.jobs.uploads import Upload
from retrieval.reading import KINDS
from schemas.access.callers import current
from schemas.contracts.jobs import MAX_FILES, Uploaded
from schemas.errors import InvalidInputError
from schemas.where import EVERYTHING
from schemas.wire.jobs import COMPARISON, JOBS_PAGE, UPLOAD_ARGUMENTS, compared, job_answer, jobs_page, uploaded, wanted
from schemas.wire.stored_documents import (
    ONE_STORED,
    STORED_PAGE,
    deleted_stored,
    document_with_chunks,
    stored_document,
    stored_page,
)
from schemas.wire.text_documents import COLLECTION_ARGUMENTS
from wrapper.web.bodies import ANY_MEDIA_TYPE, MULTIPART, json_response
from wrapper.web.lanes import Lane
from wrapper.web.request_parts import arguments, arguments_beside, body, store, write_options
from wrapper.web.responses import respond
from wrapper.web.route_table import declare

FILE_NAME = "X-Filename"
MAX_PARTS = MAX_FILES + len(UPLOAD_ARGUMENTS.load_fields)


class AnyId(PathConverter):
    """Any id, slashes too, except one that ends as the route of what is `below` each does."""

    part_isolating = False

    def __init__(self, rules: Map, below: str = "") -> None:
        super().__init__(rules)
        self.regex = rf"(?![\s\S]*/{below}\Z)[\s\S]+" if below else r"[\s\S]+"


blueprint = Blueprint("stored_documents", __name__, url_prefix="/api")


@blueprint.post("/documents")
@declare(Lane.UPLOAD, query=UPLOAD_ARGUMENTS, media_types=(MULTIPART, ANY_MEDIA_TYPE))
def upload() -> Response:
    asker = current().asker
    with layers().uploads.begin(asker=asker) as arriving:
        fields = form_fields(arriving.take, MAX_PARTS) if request.mimetype == MULTIPART else _take_body(arriving)
        asked = wanted(arguments_beside(fields), layers().rag_store.collection)
        store().reach.check_adding(asked.collection)
        written = store().writing.once(
            Uploaded, write_options(arriving.content(asked)), lambda: arriving.finish(asked, asker=asker)
        )
        arriving.take_back(written.outcome)
    return respond(written, uploaded, 202)


@blueprint.post("/documents/compare")
@declare(Lane.READ, body=COMPARISON)
def compare_files() -> Response:
    asked = body()
    collection = asked["collection"] or layers().rag_store.collection
    caller = current()
    if caller.where == EVERYTHING or not caller.knows(collection):  # a key with a filter is told of what it sees
        store().reach.check_adding(collection)
    return json_response(compared(layers().known_files.compare(collection, asked["files"], asked["metadata"])))


@blueprint.get("/documents")
@declare(Lane.READ, query=STORED_PAGE)
def list_documents() -> Response:
    return json_response(stored_page(*layers().documents.page(**arguments())))


@blueprint.get("/documents/<any_id(below=original):document_id>")
@declare(Lane.READ, query=ONE_STORED)
def show_document(document_id: str) -> Response:
    asked = arguments()
    if asked["chunks"]:
        return json_response(document_with_chunks(*layers().documents.with_chunks(document_id, asked["collection"])))
    return json_response(stored_document(layers().documents.one(document_id, asked["collection"])))


@blueprint.delete("/documents/<any_id(below=original):document_id>")
@declare(Lane.WRITE, query=COLLECTION_ARGUMENTS)
def delete_document(document_id: str) -> Response:
    return json_response(deleted_stored(document_id, layers().documents.delete(document_id, arguments()["collection"])))


@blueprint.get("/documents/<any_id:document_id>/original")
@declare(Lane.READ, query=COLLECTION_ARGUMENTS, exact=True)
def show_original(document_id: str) -> Response:
    document, path = layers().documents.original(document_id, arguments()["collection"])
    return sent_file(path, stored_document(document)["name"], _media_type(document.kind))


@blueprint.get("/jobs")
@declare(Lane.READ, query=JOBS_PAGE)
def list_jobs() -> Response:
    return json_response(jobs_page(*layers().jobs.page(**arguments(), asker=current().asker)))


@blueprint.get("/jobs/<job_id>")
@declare(Lane.READ)
def show_job(job_id: str) -> Response:
    return json_response(job_answer(layers().jobs.one(job_id, asker=current().asker)))


@blueprint.delete("/jobs/<job_id>")
@declare(Lane.WRITE)
def cancel_job(job_id: str) -> Response:
    return json_response(job_answer(layers().uploads.cancel(job_id, asker=current().asker)))


def _media_type(kind: str | None) -> str:
    """Return the media type of files of a kind; source code has many."""
    types = {each.name: each.media_types[0] for each in KINDS} | {"code": "text/plain"}
    return types.get(kind or "", "application/octet-stream")


def _take_body(arriving: Upload) -> dict[str, str]:
    """Take the body as one file."""
    if FILE_NAME not in request.headers:
        sentence = f"A body that is one file needs its name in {FILE_NAME}; several files come as {MULTIPART}"
        raise InvalidInputError(sentence, code="invalid_field", field=FILE_NAME)
    arriving.take(_file_name(request.headers[FILE_NAME]), request.mimetype, arriving_pieces())
    return {}


def _file_name(header: str) -> str:
    """Return the name in a header, which may be UTF-8 or percent-encoded UTF-8."""
    try:
        return unquote(header.encode("latin-1").decode(), errors="strict")
    except UnicodeError:
        raise InvalidInputError(f"{FILE_NAME} is not UTF-8", code="invalid_field", field=FILE_NAME) from None
