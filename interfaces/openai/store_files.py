"""`/v1/vector_stores/{id}/files`: files are attached and become documents, are listed, changed and detached."""

from __future__ import annotations

from contextlib import suppress

from flask import Blueprint, Response
from werkzeug.routing import PathConverter

from interfaces.openai import stored_files
from interfaces.openai.face import IN_PATH
from interfaces.openai.stores import active_collection_of, collection_of
from interfaces.web import current_request
from interfaces.web.current_request import layers
from retrieval.ingest.files import fingerprint_of
from retrieval.kept_files.attaching import FILE_ID
from retrieval.kept_files.kept_files import file_of
from schemas.access.callers import current
from schemas.contracts.vector_stores import (
    COMPLETED,
    IN_PROGRESS,
    OWN_NAMES,
    FileNotStoredError,
    FileToAttach,
    StoreFile,
    StoreFileNotFoundError,
)
from schemas.errors import NotFoundError
from schemas.records import Collection, Document, Metadata
from schemas.where import EVERYTHING, Equals
from schemas.wire.openai.paging import DESCENDING, listed
from schemas.wire.openai.store_files import STORE_FILES_PAGE, content_page, store_file
from schemas.wire.openai.vector_stores import CHANGED_FILE, NEW_STORE_FILE, deleted, to_attach
from wrapper.web.bodies import json_response
from wrapper.web.lanes import Lane
from wrapper.web.request_parts import arguments, body, store
from wrapper.web.route_table import declare
from wrapper.writing import WriteOptions

POLL_AFTER = "openai-poll-after-ms"
POLL_AFTER_MS = "500"


class StoreFileId(PathConverter):
    """Any id, slashes too, except one that ends as the route of contents does."""

    regex = r"(?![\s\S]*/content\Z)[\s\S]+"
    part_isolating = False


class StoreFileContentId(StoreFileId):
    """Any id, in the route of contents."""

    regex = r"[\s\S]+"
    part_isolating = False


blueprint = Blueprint("openai_store_files", __name__, url_prefix="/v1/vector_stores/<vector_store_id>/files")


@blueprint.post("")
@declare(Lane.WRITE, body=NEW_STORE_FILE, elsewhere=IN_PATH, places=True)
def attach_file(vector_store_id: str) -> Response:
    asked = to_attach(body())
    return _answer(_attached(active_collection_of(vector_store_id), asked))


@blueprint.get("")
@declare(Lane.READ, query=STORE_FILES_PAGE)
def list_store_files(vector_store_id: str) -> Response:
    asked = arguments()
    files, has_more = stored_files.page(
        collection_of(vector_store_id),
        status=asked["status"],
        limit=asked["limit"],
        newest_first=asked["order"] == DESCENDING,
        after=asked["after"],
        before=asked["before"],
    )
    return json_response(listed([store_file(each) for each in files], has_more=has_more))


@blueprint.get("/<store_file_id:file_id>")
@declare(Lane.READ)
def show_store_file(vector_store_id: str, file_id: str) -> Response:
    return _answer(stored_files.one(collection_of(vector_store_id), file_id))


@blueprint.get("/<store_content_id:file_id>/content")
@declare(Lane.READ)
def show_store_file_content(vector_store_id: str, file_id: str) -> Response:
    collection = collection_of(vector_store_id)
    if stored_files.one(collection, file_id).status != COMPLETED:
        return json_response(content_page(()))
    document = _document_of(collection, file_id)
    _, chunks = layers().documents.with_chunks(_document_id(document), collection.name)
    return json_response(content_page(each.text for each in chunks))


@blueprint.post("/<store_file_id:file_id>")
@declare(Lane.WRITE, body=CHANGED_FILE, elsewhere=IN_PATH, places=True)
def change_attributes(vector_store_id: str, file_id: str) -> Response:
    attributes = body()["attributes"]
    collection = active_collection_of(vector_store_id)
    file = stored_files.one(collection, file_id)
    if file.status == IN_PROGRESS:
        return _answer(_attached(collection, FileToAttach(file.id, attributes, file.windows)))
    if file.status != COMPLETED:
        raise FileNotStoredError(file_id)
    _change(collection, _document_of(collection, file_id), attributes)
    return _answer(stored_files.one(collection, file_id))


@blueprint.delete("/<store_file_id:file_id>")
@declare(Lane.WRITE)
def detach_file(vector_store_id: str, file_id: str) -> Response:
    collection = collection_of(vector_store_id)
    detach(collection, file_id)
    return json_response(deleted("vector_store.file", file_id))


def detach(collection: Collection, file_id: str) -> None:
    """Take a file out of a store: its job, if it is under way, and its document. Raises StoreFileNotFoundError."""
    store().reach.check_writing(collection.name)
    file = stored_files.one(collection, file_id)
    stored_files.pass_by(collection, file)
    for job_id, number in layers().kept.attached.take_back(file_id, collection.id, asker=current_request.asker()):
        layers().kept.facts.pass_by(job_id, file_id, number)
    _delete_document(collection, file_id)


def detach_everywhere(file_id: str) -> None:
    """Take a file out of all stores that the caller may write to."""
    for each in store().collections():
        if store().reach.owns(current(), each.name):
            with suppress(StoreFileNotFoundError):
                detach(each, file_id)
    layers().kept.attached.take_back(file_id, asker=current_request.asker())


def _delete_document(collection: Collection, file_id: str) -> None:
    document = stored_files.document_of(collection, file_id)
    if document is not None:
        try:
            layers().documents.delete(_document_id(document), collection.name)
        except NotFoundError:  # somebody else was first
            return


def _attached(collection: Collection, asked: FileToAttach) -> StoreFile:
    store().reach.check_writing(collection.name)
    layers().kept.attaching.attach(collection.id, collection.name, [asked], asker=current_request.asker())
    return stored_files.one(collection, asked.file_id)


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


def _document_of(collection: Collection, file_id: str) -> Document:
    document = stored_files.document_of(collection, file_id)
    if document is None:
        raise StoreFileNotFoundError(file_id, collection.name)
    return document


def _document_id(document: Document) -> str:
    return str(document.metadata.get("document_id", document.id))


def _answer(file: StoreFile) -> Response:
    response = json_response(store_file(file))
    if file.status == IN_PROGRESS:
        response.headers[POLL_AFTER] = POLL_AFTER_MS
    return response
