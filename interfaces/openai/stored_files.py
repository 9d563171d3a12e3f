"""The files of a vector store: the documents of its collection, and the kept files that are on their way or failed.

The collection says what is stored, whatever stored it; the jobs say of the rest how it stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

from interfaces.openai.stores import store_id
from interfaces.web import current_request
from interfaces.web.current_request import layers
from retrieval.ingest.drafts import FIRST_CHUNKS, WHOLE
from retrieval.kept_files.attaching import FILE_ID
from retrieval.kept_files.kept_files import ID, file_of
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
from schemas.errors import InvalidInputError
from schemas.names import spellings_of_id
from schemas.records import Collection, Document, Metadata
from schemas.where import And, Equals, In, Or
from schemas.wire.openai.attributes import attributes_of
from wrapper.web.request_parts import store

Place = tuple[int, int, int]
STORED, UNSTORED = 0, 1
"""The beginnings of places: what is stored comes before what is not, and is thus older."""
DOCUMENTS = Or((FIRST_CHUNKS, WHOLE))
MOST_AT_ONCE = 1_000
NO_TEXT = "contains no text"
_WINDOWS = re.compile(r"windows (\d+)/(\d+)/")


def page(
    collection: Collection, *, status: str | None, limit: int, newest_first: bool, after: str | None, before: str | None
) -> tuple[list[StoreFile], bool]:
    """Return (the files behind or before the one of an id, whether there are more).

    Raises InvalidInputError for an id that no file has, or had within the last hour.
    """
    if after is not None and before is not None:
        raise InvalidInputError("after and before cannot both be given", code="invalid_field", field="before")
    start = None
    if after is not None or before is not None:
        start = _place_of(collection, after or before or "", "after" if before is None else "before")
    backwards = before is not None
    walked = _walk(collection, start, newest_first=newest_first != backwards, status=status, most=limit + 1)
    found = [each for each, _ in zip(walked, range(limit + 1), strict=False)]
    shown = found[:limit]
    return shown[::-1] if backwards else shown, len(found) > limit


def one(collection: Collection, file_id: str) -> StoreFile:
    """Return a file of a store. Raises StoreFileNotFoundError."""
    last = layers().kept.attached.last(collection.id, file_id, asker=current_request.asker())
    told = None if last is None else of_job(collection, last, last.files[0])
    document = None
    if told is None or told.status in (COMPLETED, CANCELLED):  # what is cancelled leaves what is stored
        document = document_of(collection, file_id)
    if document is not None:
        return of_document(collection, document)
    if told is None or told.status == COMPLETED:
        raise StoreFileNotFoundError(file_id, store_id(collection))
    return told


def counts(collection: Collection) -> FileCounts:
    """Return how many files a store has, by their status."""
    unstored = _unstored(collection)
    found = {IN_PROGRESS: 0, FAILED: 0, CANCELLED: 0}
    for each in unstored:
        found[each.status] += 1
    stored = 0
    if collection.count:
        stored = sum(store().count(collection.name, where)[0] for where in (FIRST_CHUNKS, WHOLE))
        # A file that is being stored anew counts as what it is becoming.
        ids = [each.id for each in unstored]
        for begin in range(0, len(ids), MOST_AT_ONCE):
            again = And((FIRST_CHUNKS, In(FILE_ID, tuple(ids[begin : begin + MOST_AT_ONCE]))))
            stored -= store().count(collection.name, again)[0]
    return FileCounts(completed=stored, **found)


def document_of(collection: Collection, file_id: str) -> Document | None:
    """Return the first chunk of the document that a file has become, None when none is stored."""
    listing, ids = store().file_listing, tuple(spellings_of_id(file_id))
    where = Equals(FILE_ID, file_id) if ID.fullmatch(file_id) else In("document_id", ids)
    chunks = And((where, FIRST_CHUNKS))
    for each in listing.neighbours(collection.name, chunks, position=None, newest_first=False, limit=MOST_AT_ONCE):
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
    return StoreFile(
        id=_id_of(document),
        store_id=store_id(collection),
        status=COMPLETED,
        created_at_ms=0 if is_whole else milliseconds(told.get("created_at")),
        usage_bytes=size_bytes,
        attributes=attributes_of(told, is_attached=is_attached),
        windows=None if is_whole else _windows(told),
        place=(STORED, document.position, 0),
    )


def of_job(collection: Collection, job: Job, file: JobFile) -> StoreFile:
    """Return a kept file as its job tells of it."""
    assert file.file_id is not None
    status, code, message = status_of(job, file)
    told = {name: value for name, value in file.metadata.items() if name != FILE_ID}
    return StoreFile(
        id=file.file_id,
        store_id=store_id(collection),
        status=status,
        created_at_ms=milliseconds(job.created_at),
        usage_bytes=file.size_bytes if status == COMPLETED else 0,
        attributes=attributes_of(told, is_attached=True),
        windows=file.windows,
        code=code,
        message=message,
        place=(UNSTORED, job.number, file.number),
    )


def status_of(job: Job, file: JobFile) -> tuple[str, str | None, str | None]:
    """Return (the status of a file by its job; the code and sentence of its failure)."""
    if file.status in (jobs.DONE, jobs.UNCHANGED):
        return (COMPLETED, None, None) if file.chunks else (FAILED, "empty", NO_TEXT)
    if file.status == jobs.FAILED:
        return FAILED, file.code, file.message
    return (IN_PROGRESS if job.status in jobs.WAITING else CANCELLED), None, None


def pass_by(collection: Collection, file: StoreFile) -> None:
    """Remember the place of a file that is about to be detached."""
    layers().kept.facts.pass_by(collection.id, file.id, file.place)


def _walk(
    collection: Collection, start: Place | None, *, newest_first: bool, status: str | None, most: int
) -> Iterator[StoreFile]:
    """Yield at least `most` files behind a place, if there are so many, in the order of their places or against it."""
    unstored = _unstored(collection)
    behind = [each for each in unstored if status in (None, each.status)]
    if start is not None:
        behind = [each for each in behind if (each.place < start if newest_first else each.place > start)]
    if newest_first:
        yield from reversed(behind)
    if status in (None, COMPLETED) and not (start is not None and start[0] == UNSTORED and not newest_first):
        position = start[1] if start is not None and start[0] == STORED else None
        hidden = {each.id for each in unstored}
        yield from _documents(collection, position, hidden, newest_first=newest_first, most=most)
    if not newest_first:
        yield from behind


def _documents(
    collection: Collection, position: int | None, hidden: set[str], *, newest_first: bool, most: int
) -> Iterator[StoreFile]:
    while True:
        found = store().file_listing.neighbours(
            collection.name, DOCUMENTS, position=position, newest_first=newest_first, limit=min(most, MOST_AT_ONCE)
        )
        yield from (of_document(collection, each) for each in found if _id_of(each) not in hidden)
        if len(found) < min(most, MOST_AT_ONCE):
            return
        position = found[-1].position


def _unstored(collection: Collection) -> list[StoreFile]:
    """Return the files that are on their way or failed, in the order of their places."""
    attached = layers().kept.attached.unstored(collection.id, asker=current_request.asker())
    found = sorted((of_job(collection, each, each.files[0]) for each in attached), key=lambda each: each.place)
    stored = _stored_among(collection, [each.id for each in found if each.status == CANCELLED])
    return [each for each in found if each.id not in stored]


def _stored_among(collection: Collection, file_ids: list[str]) -> set[str]:
    """Return those of the kept files that documents of the collection were made of."""
    stored = set()
    for begin in range(0, len(file_ids), MOST_AT_ONCE):
        chunks = And((FIRST_CHUNKS, In(FILE_ID, tuple(file_ids[begin : begin + MOST_AT_ONCE]))))
        stored |= {
            _id_of(each)
            for each in store().file_listing.neighbours(
                collection.name, chunks, position=None, newest_first=False, limit=MOST_AT_ONCE
            )
        }
    return stored


def _place_of(collection: Collection, file_id: str, field: str) -> Place:
    try:
        return one(collection, file_id).place
    except StoreFileNotFoundError:
        passed = layers().kept.facts.passed(collection.id, file_id)
    if passed is None:
        sentence = f"{field} is the id of no file of the vector store"
        raise InvalidInputError(sentence, code="invalid_cursor", field=field)
    kind, first, second = passed
    return kind, first, second


def _id_of(document: Document) -> str:
    told = document.metadata
    of_document = str(told.get("document_id", document.id))
    return file_of(told.get("source"), of_document) or of_document


def _windows(metadata: Metadata) -> tuple[int, int] | None:
    told = _WINDOWS.match(str(metadata.get("chunking")))
    return None if told is None else (int(told[1]), int(told[2]))


def milliseconds(told: object) -> int:
    """Return an ISO 8601 time in milliseconds since the epoch, 0 for what is none."""
    try:
        return round(datetime.fromisoformat(str(told)).timestamp() * 1e3)
    except ValueError:
        return 0
