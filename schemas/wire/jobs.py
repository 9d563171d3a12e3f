"""What uploads ask for, their answers, and jobs as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import orjson
from marshmallow import ValidationError, fields, post_load, validate

from schemas.contracts.jobs import (
    INGEST,
    ON_CONFLICT,
    REPLACE,
    STATUSES,
    ComparedFiles,
    FileToCompare,
    Job,
    JobFile,
    Uploaded,
    Wanted,
)
from schemas.errors import InvalidInputError
from schemas.metadata import check_metadata
from schemas.wire.body import Body, ExactBody
from schemas.wire.checked_fields import CollectionName, ownership
from schemas.wire.fields import Choice, Count, MetadataObject, Names, Text, TruthText
from schemas.wire.json_in import decode
from schemas.wire.text_documents import MAX_TAGS

MAX_JOBS_PAGE, JOBS_PAGE_SIZE = 100, 20
MAX_COMPARED = 10_000
"""The most files that are compared at once."""

Json = dict[str, Any]


class TagsText(Names):
    """Tags with commas between them."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> tuple[str, ...]:
        tags = super()._deserialize(value, attr, data, **options)
        if len(tags) > MAX_TAGS:
            raise ValidationError(f"must be at most {MAX_TAGS} tags")
        return tags


class MetadataText(Text):
    """The metadata of a document, written as JSON."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> Any:
        text = super()._deserialize(value, attr, data, **options)
        try:
            return check_metadata(decode(text.encode(), "metadata") if text.strip() else {})
        except (orjson.JSONDecodeError, UnicodeEncodeError):
            raise ValidationError("must be a JSON object") from None
        except InvalidInputError as error:
            raise InvalidInputError(error.message, code=error.code, **{**error.details, "field": "metadata"}) from None


class UploadArguments(Body):
    """What an upload asks for, in the query string or in fields of the form."""

    collection = CollectionName(load_default=None)
    tags = TagsText(load_default=())
    metadata = MetadataText(load_default=dict)
    on_conflict = Choice(ON_CONFLICT, load_default=REPLACE)
    shared = TruthText(load_default=False)


class FileOfComparison(ExactBody):
    name = Text(required=True, validate=validate.Length(min=1))
    sha256 = Text(required=True, validate=validate.Regexp(r"[0-9a-f]{64}\Z", error="must be 64 hexadecimal digits"))

    @post_load
    def _to_file(self, loaded: Json, **_: Any) -> FileToCompare:
        return FileToCompare(**loaded)


class Comparison(ExactBody):
    """Files that an upload with this metadata into this collection might have."""

    collection = CollectionName(load_default=None)
    metadata = MetadataObject(load_default=dict)
    files = fields.List(fields.Nested(FileOfComparison), required=True, validate=validate.Length(max=MAX_COMPARED))


class JobsPage(Body):
    status = Choice(STATUSES, load_default=None)
    limit = Count(least=1, most=MAX_JOBS_PAGE, capped=True, in_text=True, load_default=JOBS_PAGE_SIZE)
    cursor = Text(load_default=None)


UPLOAD_ARGUMENTS, COMPARISON, JOBS_PAGE = UploadArguments(), Comparison(), JobsPage()


def wanted(asked: Json, usual_collection: str) -> Wanted:
    """Return what the arguments of an upload ask for."""
    return Wanted(
        asked["collection"] or usual_collection,
        tags=tuple(asked["tags"]),
        metadata=asked["metadata"],
        on_conflict=asked["on_conflict"],
        shared=asked["shared"],
    )


def uploaded(done: Uploaded) -> Json:
    files = [{name: value for name, value in each.items() if value is not None} for each in done.files]
    return {"job": {"id": done.job_id, "status": done.status}, "files": files}


def compared(result: ComparedFiles) -> Json:
    return asdict(result)


def jobs_page(jobs: Iterable[Job], next_cursor: str | None) -> Json:
    return {"jobs": [job_answer(each) for each in jobs], "next_cursor": next_cursor}


def job_answer(job: Job) -> Json:
    return {
        "id": job.id,
        "kind": INGEST,
        "status": job.status,
        **ownership(job.of),
        "collection": job.wanted.collection,
        "created_at": job.created_at,
        "finished_at": job.finished_at,
        "files": [_file(each) for each in job.files],
        "progress": {
            "files": len(job.files),
            "files_done": job.files_done,
            "chunks": sum(each.chunks or 0 for each in job.files),
            "chunks_done": sum(each.chunks_done for each in job.files),
        },
    }


def _file(file: JobFile) -> Json:
    told = {
        "document_id": file.document_id,
        "chunks": file.chunks,
        "pages": file.pages,
        "code": file.code,
        "message": file.message,
    }
    return {
        "name": file.name,
        "status": file.status,
        **{name: value for name, value in told.items() if value is not None},
        "warnings": list(file.warnings),
    }
