"""`/v1/files` as JSON, and the fields of its form."""

from __future__ import annotations

from typing import Any

from marshmallow import validates_schema

from schemas.contracts.kept_files import PURPOSES, KeptFile
from schemas.errors import InvalidInputError
from schemas.wire.body import Body
from schemas.wire.fields import Choice, Count, Text
from schemas.wire.openai.paging import CursorPage, seconds

Json = dict[str, Any]

ANCHOR, SECONDS = "expires_after[anchor]", "expires_after[seconds]"
CREATED_AT = "created_at"
LEAST_SECONDS, MOST_SECONDS = 3_600, 2_592_000
FILES_PAGE_SIZE = 10_000


class FileForm(Body):
    """What is said of a file beside it."""

    purpose = Choice(PURPOSES, required=True)
    anchor = Choice((CREATED_AT,), data_key=ANCHOR, load_default=None)
    lives_seconds = Count(least=LEAST_SECONDS, most=MOST_SECONDS, in_text=True, data_key=SECONDS, load_default=None)

    @validates_schema
    def _check_both(self, loaded: Json, **_: Any) -> None:
        for name, other in (("anchor", "lives_seconds"), ("lives_seconds", "anchor")):
            if loaded[name] is None and loaded[other] is not None:
                field = {"anchor": ANCHOR, "lives_seconds": SECONDS}[name]
                raise InvalidInputError(f"{field} is required", code="invalid_field", field=field)


class FilesPage(CursorPage):
    limit = Count(least=1, most=FILES_PAGE_SIZE, in_text=True, load_default=FILES_PAGE_SIZE)
    purpose = Text(load_default=None)


FILE_FORM, FILES_PAGE = FileForm(), FilesPage(exclude=("before",))


def kept_file(file: KeptFile) -> Json:
    return {
        "id": file.id,
        "object": "file",
        "bytes": file.size_bytes,
        "created_at": seconds(file.created_at_ms),
        "filename": file.name,
        "purpose": file.purpose,
        "status": "processed",
        "status_details": None,
        "expires_at": None if file.expires_at_ms is None else seconds(file.expires_at_ms),
    }


def deleted_file(file: KeptFile) -> Json:
    return {"id": file.id, "object": "file", "deleted": True}
