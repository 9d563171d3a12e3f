"""`/v1/vector_stores/{id}/file_batches`: files that are attached together, by one job."""

from __future__ import annotations

from flask import Blueprint, Response

from interfaces.openai import stored_files
from interfaces.openai.face import IN_PATH
from interfaces.openai.store_files import POLL_AFTER, POLL_AFTER_MS
from interfaces.openai.stores import active_collection_of, collection_of, store_id
from interfaces.web import current_request
from interfaces.web.current_request import layers
from schemas.contracts import jobs
from schemas.contracts.jobs import Job, JobNotFoundError
from schemas.contracts.vector_stores import CANCELLED, COMPLETED, FAILED, IN_PROGRESS, FileBatch
from schemas.errors import InvalidInputError, NotFoundError
from schemas.records import Collection
from schemas.wire.openai.paging import DESCENDING, listed
from schemas.wire.openai.store_files import STORE_FILES_PAGE, files_batch, store_file
from schemas.wire.openai.vector_stores import NEW_BATCH, batch_to_attach
from wrapper.web.bodies import json_response
from wrapper.web.lanes import Lane
from wrapper.web.request_parts import arguments, body, store
from wrapper.web.route_table import declare

PREFIX = "vsfb_"
STATUSES = {
    jobs.QUEUED: IN_PROGRESS,
    jobs.RUNNING: IN_PROGRESS,
    jobs.DONE: COMPLETED,
    jobs.FAILED: FAILED,
    jobs.CANCELLED: CANCELLED,
}

blueprint = Blueprint("openai_batches", __name__, url_prefix="/v1/vector_stores/<vector_store_id>/file_batches")


@blueprint.post("")
@declare(Lane.WRITE, body=NEW_BATCH, elsewhere=IN_PATH, places=True)
def create_batch(vector_store_id: str) -> Response:
    asked = body()
    collection = active_collection_of(vector_store_id)
    store().reach.check_writing(collection.name)
    wanted = batch_to_attach(asked)
    job = layers().kept.attaching.attach(collection.id, collection.name, wanted, asker=current_request.asker())
    return _answer(_batch(collection, job))


@blueprint.get("/<batch_id>")
@declare(Lane.READ)
def show_batch(vector_store_id: str, batch_id: str) -> Response:
    collection = collection_of(vector_store_id)
    return _answer(_batch(collection, _job(collection, batch_id)))


@blueprint.post("/<batch_id>/cancel")
@declare(Lane.WRITE)
def cancel_batch(vector_store_id: str, batch_id: str) -> Response:
    collection = collection_of(vector_store_id)
    job = _job(collection, batch_id)
    return _answer(_batch(collection, layers().uploads.cancel(job.id, asker=current_request.asker())))


@blueprint.get("/<batch_id>/files")
@declare(Lane.READ, query=STORE_FILES_PAGE)
def list_batch_files(vector_store_id: str, batch_id: str) -> Response:
    asked = arguments()
    after, before, most = asked["after"], asked["before"], asked["limit"]
    if after is not None and before is not None:
        raise InvalidInputError("after and before cannot both be given", code="invalid_field", field="before")
    collection = collection_of(vector_store_id)
    job = _job(collection, batch_id)
    files = [each for each in _batch(collection, job).files if asked["status"] in (None, each.status)]
    if after is not None or before is not None:
        place = _place_of(job, after or before or "", "after" if before is None else "before")
        is_later = (asked["order"] == DESCENDING) == (after is None)
        files = [each for each in files if (each.place > place if is_later else each.place < place)]
    if asked["order"] == DESCENDING:
        files.reverse()
    shown = files[:most] if before is None else files[-most:]
    return json_response(listed([store_file(each) for each in shown], has_more=len(files) > most))


def _place_of(job: Job, file_id: str, field: str) -> stored_files.Place:
    """Return the place of a file in a batch, also of one that was detached within the last hour. Raises
    InvalidInputError."""
    for each in job.files:
        if each.file_id == file_id:
            return stored_files.UNSTORED, job.number, each.number
    number = layers().kept.facts.passed(job.id, file_id)
    if number is None:
        raise InvalidInputError(f"{field} is the id of no file of the batch", code="invalid_cursor", field=field)
    return stored_files.UNSTORED, job.number, int(number)


def _job(collection: Collection, batch_id: str) -> Job:
    """Return the job that a batch is. Raises NotFoundError for another one."""
    try:
        job = layers().jobs.one(batch_id.removeprefix(PREFIX), asker=current_request.asker())
    except JobNotFoundError:
        job = None
    first = None if job is None or not batch_id.startswith(PREFIX) else job.files[0]
    if job is None or first is None or first.file_id is None or first.collection_id != collection.id:
        sentence = f"Batch '{batch_id[:100]}' of vector store '{store_id(collection)}' not found"
        raise NotFoundError(sentence, code="batch_not_found")
    return job


def _batch(collection: Collection, job: Job) -> FileBatch:
    return FileBatch(
        id=PREFIX + job.id,
        store_id=store_id(collection),
        status=STATUSES[job.status],
        created_at_ms=stored_files.milliseconds(job.created_at),
        files=[stored_files.of_job(collection, job, each) for each in job.files],
    )


def _answer(batch: FileBatch) -> Response:
    response = json_response(files_batch(batch))
    if batch.status == IN_PROGRESS:
        response.headers[POLL_AFTER] = POLL_AFTER_MS
    return response
