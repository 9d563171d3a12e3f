"""The files of a vector store: the documents of its collection, and the kept files that are on their way or failed.

The collection says what is stored, whatever stored it; the jobs say of the rest how it stands.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from interfaces.openai.face import Place, behind, page_of, store_id
from interfaces.web.current_request import layers
from retrieval.ingest.collection_writer import batches
from retrieval.ingest.drafts import FIRST_CHUNKS, WHOLE
from retrieval.kept_files.kept_files import FILE_ID, ID, file_of
from schemas.access.callers import current
from schemas.contracts import jobs
from schemas.contracts.jobs import Job, JobFile
from schemas.contracts.vector_stores import (
    CANCELLED,
    COMPLETED,
    FAILED,
    IN_PROGRESS,
    FileCounts,
    StoreFile,
    StoreFileNotFoundError,
)
from schemas.names import spellings_of_id
from schemas.records import Collection, Document
from schemas.where import And, Equals, In, Or, Where
from schemas.wire.openai.attributes import attributes_of
from wrapper.web.request_parts import store

STORED, UNSTORED = 0, 1
"""The beginnings of places: what is stored comes before what is not, and is thus older."""
DOCUMENTS = Or((FIRST_CHUNKS, WHOLE))
MOST_AT_ONCE = 1_000
NO_TEXT = "contains no text"
_WINDOWS = re.compile(r"windows (\d+)/(\d+)/")


def page(collection: Collection, asked: Mapping[str, Any]) -> tuple[list[StoreFile], bool]:
    """Return (the files of a page as it was asked for, whether there are more). Raises InvalidInputError."""
    status = asked["status"]

    def walk(start: Place | None, newest_first: bool) -> Iterator[StoreFile]:
        unstored = _unstored(collection)
        on_the_way = behind([each for each in unstored if status in (None, each.status)], start, newest_first)
        if newest_first:
            yield from on_the_way
        if status in (None, COMPLETED) and (newest_first or start is None or start[0] == STORED):
            position = start[1] if start is not None and start[0] == STORED else None
            hidden, most = {each.id for each in unstored}, min(asked["limit"] + 1, MOST_AT_ONCE)
            while found := _some(collection, DOCUMENTS, position=position, newest_first=newest_first, limit=most):
                yield from (of_document(collection, each) for each in found if _id_of(each) not in hidden)
                position = found[-1].position
        if not newest_first:
            yield from on_the_way

    def place_of(file_id: str) -> Place | None:
        try:
            return one(collection, file_id)[0].place
        except StoreFileNotFoundError:
            return None

    return page_of(asked, walk, place_of, listing=collection.id, what="file of the vector store")


def one(collection: Collection, file_id: str) -> tuple[StoreFile, Document | None]:
    """Return (a file of a store; if it is stored, the first chunk of its document). Raises StoreFileNotFoundError."""
    last = layers().jobs.last(collection.id, file_id, asker=current().asker)
    told, document = next((of_job(collection, job, job.files[0]) for job in last), None), None
    if told is None or told.status in (COMPLETED, CANCELLED):  # what is cancelled leaves what is stored
        document = document_of(collection, file_id)
    if document is not None:
        return of_document(collection, document), document
    if told is None or told.status == COMPLETED:
        raise StoreFileNotFoundError(file_id, store_id(collection))
    return told, None


def counts(collection: Collection) -> FileCounts:
    """Return how many files a store has, by their status."""
    unstored, stored = _unstored(collection), 0
    if collection.count:
        stored = sum(store().count(collection.name, where)[0] for where in (FIRST_CHUNKS, WHOLE))
        # A file that is being stored anew counts as what it is becoming.
        for where in _of_files(unstored):
            stored -= store().count(collection.name, where)[0]
    # Documents may come and go between the two.
    return FileCounts(completed=max(0, stored), **Counter(each.status for each in unstored))


def document_of(collection: Collection, file_id: str) -> Document | None:
    """Return the first chunk of the document that a file has become, None when none is stored."""
    ids = tuple(spellings_of_id(file_id))
    where = Equals(FILE_ID, file_id) if ID.fullmatch(file_id) else In("document_id", ids)
    for each in _some(collection, And((where, FIRST_CHUNKS))):
        if _id_of(each) in (file_id, *ids):
            return each
    whole, _ = store().documents(collection.name, ids, WHOLE)
    return whole[0] if whole else None


def of_document(collection: Collection, document: Document) -> StoreFile:
    told = document.metadata
    is_whole = "document_id" not in told
    is_attached = file_of(told.get("source"), told.get("document_id")) is not None
    size_bytes = told.get("bytes")
    if is_whole or not isinstance(size_bytes, int):
        size_bytes = len(document.text.encode())
    windows = None if is_whole else _WINDOWS.match(str(told.get("chunking")))
    return StoreFile(
        id=_id_of(document),
        store_id=store_id(collection),
        status=COMPLETED,
        created_at_ms=0 if is_whole else milliseconds(told.get("created_at")),
        usage_bytes=size_bytes,
        attributes=attributes_of(told, is_attached=is_attached),
        windows=None if windows is None else (int(windows[1]), int(windows[2])),
        place=(STORED, document.position, 0),
    )


def of_job(collection: Collection, job: Job, file: JobFile) -> StoreFile:
    """Return a kept file as its job tells of it."""
    code, message = (file.code, file.message) if file.status == jobs.FAILED else (None, None)
    if file.status in jobs.UNFINISHED:
        status = IN_PROGRESS if job.status in jobs.WAITING else CANCELLED
    elif file.status != jobs.FAILED and file.chunks:
        status = COMPLETED
    else:
        status, code, message = FAILED, code or "empty", message or NO_TEXT
    return StoreFile(
        id=file.file_id or "",
        store_id=store_id(collection),
        status=status,
        created_at_ms=milliseconds(job.created_at),
        usage_bytes=file.size_bytes if status == COMPLETED else 0,
        attributes=attributes_of(file.metadata, is_attached=True),
        windows=file.windows,
        code=code,
        message=message,
        place=(UNSTORED, job.number, file.number),
    )


def _unstored(collection: Collection) -> list[StoreFile]:
    """Return the files that are on their way or failed."""
    attached = layers().jobs.last(collection.id, asker=current().asker)
    found = [of_job(collection, each, each.files[0]) for each in attached]
    stored = {
        _id_of(each)
        for where in _of_files([each for each in found if each.status == CANCELLED])
        for each in _some(collection, where)
    }
    return [each for each in found if each.id not in stored]


def _of_files(files: list[StoreFile]) -> list[Where]:
    """Return the conditions on the first chunks of documents that were made of kept files, as many as one may name."""
    ids = [each.id for each in files]
    return [And((FIRST_CHUNKS, In(FILE_ID, tuple(some)))) for some in batches(ids, MOST_AT_ONCE)]


def _some(
    collection: Collection,
    where: Where,
    *,
    position: int | None = None,
    newest_first: bool = False,
    limit: int = MOST_AT_ONCE,
) -> list[Document]:
    return store().file_listing.neighbours(
        collection.name, where, position=position, newest_first=newest_first, limit=limit
    )


def _id_of(document: Document) -> str:
    return file_of(document.metadata.get("source"), document_id(document)) or document_id(document)


def document_id(document: Document) -> str:
    """Return the id of the document that a chunk is of, or that is stored as a whole."""
    return str(document.metadata.get("document_id", document.id))


def milliseconds(told: object) -> int:
    """Return an ISO 8601 time in milliseconds since the epoch, 0 for what is none."""
    try:
        return round(datetime.fromisoformat(str(told)).timestamp() * 1e3)
    except ValueError:
        return 0
