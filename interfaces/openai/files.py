"""`/v1/files`: files that are kept for whoever sends them. `/v1/vector_stores/{id}/files` and `/file_batches`: they are
attached and become documents, alone or together by one job, are listed, changed and detached."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from flask import Blueprint, Response, request

from interfaces.openai import stored_files
from interfaces.openai.face import IN_PATH, active_collection_of, behind, collection_of, page_of, store_id
from interfaces.web.current_request import layers
from interfaces.web.upload_parts import form_fields, sent_file
from retrieval.ingest.files import fingerprint_of
from retrieval.kept_files.kept_files import FILE_ID, file_of
from schemas.access.callers import current
from schemas.contracts import jobs
from schemas.contracts.jobs import Job, JobNotFoundError
from schemas.contracts.vector_stores import (
    CANCELLED,
    COMPLETED,
    FAILED,
    IN_PROGRESS,
    OWN_NAMES,
    FileNotStoredError,
    FileToAttach,
    StoreFile,
    StoreFileNotFoundError,
)
from schemas.errors import InvalidInputError, NotFoundError
from schemas.field_names import check_names, names_of
from schemas.records import Collection, Document, Metadata
from schemas.where import EVERYTHING, Equals
from schemas.wire.body import load
from schemas.wire.openai.kept_files import FILE_FORM, FILES_PAGE, deleted_file, kept_file
from schemas.wire.openai.paging import DESCENDING, listed
from schemas.wire.openai.store_files import STORE_FILES_PAGE, content_page, files_batch, store_file
from schemas.wire.openai.vector_stores import (
    CHANGED_FILE,
    NEW_BATCH,
    NEW_STORE_FILE,
    batch_to_attach,
    deleted,
    to_attach,
)
from wrapper.web.bodies import MULTIPART, json_response
from wrapper.web.lanes import Lane
from wrapper.web.request_parts import arguments, body, store, unknown
from wrapper.web.route_table import declare
from wrapper.writing import WriteOptions

POLL_AFTER = "openai-poll-after-ms"
POLL_AFTER_MS = "500"
BATCH_PREFIX = "vsfb_"
BATCH_STATUSES = {
    jobs.QUEUED: IN_PROGRESS,
    jobs.RUNNING: IN_PROGRESS,
    jobs.DONE: COMPLETED,
    jobs.FAILED: FAILED,
    jobs.CANCELLED: CANCELLED,
}
KEPT = "/files"
FILES, BATCHES = (f"/vector_stores/<vector_store_id>/{each}" for each in ("files", "file_batches"))
MAX_PARTS = 20
ANY_BYTES = "application/octet-stream"


blueprint = Blueprint("openai_files", __name__, url_prefix="/v1")


@blueprint.post(KEPT)
@declare(Lane.UPLOAD, media_types=(MULTIPART,))
def keep_file() -> Response:
    if request.mimetype != MULTIPART:
        raise InvalidInputError(f"A file comes as {MULTIPART}", code="invalid_field", field="file")
    kept = layers().kept_files
    with kept.begin() as arriving:
        told = form_fields(partial(kept.take, arriving), MAX_PARTS)
        check_names(told, names_of(FILE_FORM), unknown())
        asked = load(FILE_FORM, told)
        file = kept.keep(arriving, asked["purpose"], asked["lives_seconds"], asker=current().asker)
    return json_response(kept_file(file))


@blueprint.get(KEPT)
@declare(Lane.READ, query=FILES_PAGE)
def list_files() -> Response:
    asked = arguments()
    files, has_more = layers().kept_files.page(
        asker=current().asker,
        purpose=asked["purpose"],
        limit=asked["limit"],
        after=asked["after"],
        newest_first=asked["order"] == DESCENDING,
    )
    return json_response(listed([kept_file(each) for each in files], has_more=has_more))


@blueprint.get(f"{KEPT}/<file_id>")
@declare(Lane.READ)
def show_file(file_id: str) -> Response:
    return json_response(kept_file(layers().kept_files.one(file_id, asker=current().asker)))


@blueprint.get(f"{KEPT}/<file_id>/content")
@declare(Lane.READ, own_rules=True)
def show_content(file_id: str) -> Response:
    file = layers().kept_files.one(file_id, asker=current().asker)
    return sent_file(layers().kept_files.content(file), file.name, ANY_BYTES)


@blueprint.delete(f"{KEPT}/<file_id>")
@declare(Lane.WRITE)
def delete_file(file_id: str) -> Response:
    asker = current().asker
    layers().kept_files.one(file_id, asker=asker)
    detach_everywhere(file_id)
    return json_response(deleted_file(layers().kept_files.delete(file_id, asker=asker)))


@blueprint.post(FILES)
@declare(Lane.WRITE, body=NEW_STORE_FILE, elsewhere=IN_PATH, places=True)
def attach_file(vector_store_id: str) -> Response:
    asked = to_attach(body())
    return _attached(active_collection_of(vector_store_id), asked)


@blueprint.get(FILES)
@declare(Lane.READ, query=STORE_FILES_PAGE)
def list_store_files(vector_store_id: str) -> Response:
    files, has_more = stored_files.page(collection_of(vector_store_id), arguments())
    return json_response(listed([store_file(each) for each in files], has_more=has_more))


@blueprint.get(f"{FILES}/<any_id(below=content):file_id>")
@declare(Lane.READ)
def show_store_file(vector_store_id: str, file_id: str) -> Response:
    return _answer(stored_files.one(collection_of(vector_store_id), file_id)[0])


@blueprint.get(f"{FILES}/<any_id:file_id>/content")
@declare(Lane.READ)
def show_store_file_content(vector_store_id: str, file_id: str) -> Response:
    collection = collection_of(vector_store_id)
    _, document = stored_files.one(collection, file_id)
    if document is None:
        return json_response(content_page(()))
    _, chunks = layers().documents.with_chunks(stored_files.document_id(document), collection.name)
    return json_response(content_page(each.text for each in chunks))


@blueprint.post(f"{FILES}/<any_id(below=content):file_id>")
@declare(Lane.WRITE, body=CHANGED_FILE, elsewhere=IN_PATH, places=True)
def change_attributes(vector_store_id: str, file_id: str) -> Response:
    attributes = body()["attributes"]
    collection = active_collection_of(vector_store_id)
    file, document = stored_files.one(collection, file_id)
    if file.status == IN_PROGRESS:
        return _attached(collection, FileToAttach(file.id, attributes, file.windows))
    if document is None:
        raise FileNotStoredError(file_id)
    _change(collection, document, attributes)
    return _answer(stored_files.one(collection, file_id)[0])


@blueprint.delete(f"{FILES}/<any_id(below=content):file_id>")
@declare(Lane.WRITE)
def detach_file(vector_store_id: str, file_id: str) -> Response:
    detach(collection_of(vector_store_id), file_id)
    return json_response(deleted("vector_store.file", file_id))


@blueprint.post(BATCHES)
@declare(Lane.WRITE, body=NEW_BATCH, elsewhere=IN_PATH, places=True)
def create_batch(vector_store_id: str) -> Response:
    asked = body()
    collection = active_collection_of(vector_store_id)
    return _batch_answer(collection, attach(collection, batch_to_attach(asked)))


@blueprint.get(f"{BATCHES}/<batch_id>")
@declare(Lane.READ)
def show_batch(vector_store_id: str, batch_id: str) -> Response:
    collection = collection_of(vector_store_id)
    return _batch_answer(collection, _job(collection, batch_id))


@blueprint.post(f"{BATCHES}/<batch_id>/cancel")
@declare(Lane.WRITE)
def cancel_batch(vector_store_id: str, batch_id: str) -> Response:
    collection = collection_of(vector_store_id)
    job = layers().uploads.cancel(_job(collection, batch_id).id, asker=current().asker)
    return _batch_answer(collection, job)


@blueprint.get(f"{BATCHES}/<batch_id>/files")
@declare(Lane.READ, query=STORE_FILES_PAGE)
def list_batch_files(vector_store_id: str, batch_id: str) -> Response:
    asked, collection = arguments(), collection_of(vector_store_id)
    job = _job(collection, batch_id)
    files = [stored_files.of_job(collection, job, each) for each in job.files]
    places = {each.file_id: each.number for each in job.files}
    wanted = [each for each in files if asked["status"] in (None, each.status)]
    shown, has_more = page_of(
        asked,
        lambda start, newest_first: behind(wanted, start, newest_first, lambda each: places[each.id]),
        places.get,
        listing=job.id,
        what="file of the batch",
    )
    return json_response(listed([store_file(each) for each in shown], has_more=has_more))


def attach(collection: Collection, files: Sequence[FileToAttach]) -> Job:
    """Have the caller's kept files become documents of a collection of theirs. Raises KeptFileNotFoundError."""
    store().reach.check_writing(collection.name)
    asker = current().asker
    lying = layers().kept_files.to_attach(files, asker=asker)
    return layers().uploads.attach(collection.id, collection.name, lying, asker=asker)


def detach(collection: Collection, file_id: str) -> None:
    """Take a file out of a store: its job, if it is under way, and its document. Raises StoreFileNotFoundError."""
    store().reach.check_writing(collection.name)
    file, _ = stored_files.one(collection, file_id)
    facts = layers().store_facts
    facts.pass_by(collection.id, file.id, file.place)
    for job_id, number in layers().jobs.take_back(file_id, collection.id, asker=current().asker):
        facts.pass_by(job_id, file_id, number)
    document = stored_files.document_of(collection, file_id)
    if document is not None:
        with suppress(NotFoundError):  # somebody else was first
            layers().documents.delete(stored_files.document_id(document), collection.name)


def detach_everywhere(file_id: str) -> None:
    """Take a file out of all stores that the caller may write to."""
    for each in store().collections():
        if store().reach.owns(current(), each.name):
            with suppress(StoreFileNotFoundError):
                detach(each, file_id)
    layers().jobs.take_back(file_id, asker=current().asker)


def _attached(collection: Collection, asked: FileToAttach) -> Response:
    attach(collection, [asked])
    return _answer(stored_files.one(collection, asked.file_id)[0])


def _change(collection: Collection, document: Document, attributes: Metadata) -> None:
    """Have the chunks of a document these attributes, in place of those that are not the service's own."""
    told = document.metadata
    patch: Metadata = {
        name: None
        for name, value in told.items()
        if name not in OWN_NAMES and isinstance(value, str | int | float) and name not in attributes
    } | attributes
    options = WriteOptions(collection_id=collection.id)
    if "document_id" not in told:
        store().patch_metadata(collection.name, patch, options, ids=[document.id], where=EVERYTHING)
        return
    file_id = file_of(told.get("source"), told["document_id"])
    if file_id is not None:
        patch["given"] = fingerprint_of({**attributes, FILE_ID: file_id})
    where = Equals("document_id", told["document_id"])
    store().patch_metadata(collection.name, patch, options, ids=None, where=where)


def _job(collection: Collection, batch_id: str) -> Job:
    """Return the job that a batch is. Raises NotFoundError for another one."""
    with suppress(JobNotFoundError):
        job = layers().jobs.one(batch_id.removeprefix(BATCH_PREFIX), asker=current().asker)
        first = job.files[0]
        if batch_id.startswith(BATCH_PREFIX) and first.file_id and first.collection_id == collection.id:
            return job
    sentence = f"Batch '{batch_id[:100]}' of vector store '{store_id(collection)}' not found"
    raise NotFoundError(sentence, code="batch_not_found")


def _batch_answer(collection: Collection, job: Job) -> Response:
    files = [stored_files.of_job(collection, job, each) for each in job.files]
    status, created_at_ms = BATCH_STATUSES[job.status], stored_files.milliseconds(job.created_at)
    return _polled(files_batch(BATCH_PREFIX + job.id, store_id(collection), status, created_at_ms, files))


def _answer(file: StoreFile) -> Response:
    return _polled(store_file(file))


def _polled(told: dict[str, object]) -> Response:
    """Answer with a file or batch, and with when to ask again for one that is in progress."""
    response = json_response(told)
    if told["status"] == IN_PROGRESS:
        response.headers[POLL_AFTER] = POLL_AFTER_MS
    return response
