"""Files of vector stores, and batches of them, as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from schemas.contracts.vector_stores import FILE_STATUSES, FileCounts, StoreFile
from schemas.wire.fields import Choice
from schemas.wire.openai.paging import CursorPage, seconds
from schemas.wire.openai.vector_stores import file_counts

Json = dict[str, Any]

REASONS = {"unsupported_kind": "unsupported_file"} | dict.fromkeys(
    ("unreadable", "empty", "too_large", "too_slow", "too_much_memory", "encrypted"), "invalid_file"
)
"""What OpenAI calls the reasons for which a file cannot be read; others are the server's."""


class StoreFilesPage(CursorPage):
    status = Choice(FILE_STATUSES, data_key="filter", load_default=None)


STORE_FILES_PAGE = StoreFilesPage()


def store_file(file: StoreFile) -> Json:
    return {
        "id": file.id,
        "object": "vector_store.file",
        "vector_store_id": file.store_id,
        "created_at": seconds(file.created_at_ms),
        "usage_bytes": file.usage_bytes,
        "status": file.status,
        "last_error": None if file.code is None else _error(file.code, file.message or file.code),
        "attributes": file.attributes,
        "chunking_strategy": _strategy(file.windows),
    }


def files_batch(batch_id: str, store_id: str, status: str, created_at_ms: int, files: Iterable[StoreFile]) -> Json:
    """Spell files that were attached together, of which `files` are all."""
    return {
        "id": batch_id,
        "object": "vector_store.files_batch",
        "vector_store_id": store_id,
        "created_at": seconds(created_at_ms),
        "status": status,
        "file_counts": file_counts(FileCounts(**Counter(each.status for each in files))),
    }


def content_page(texts: Iterable[str]) -> Json:
    return {
        "object": "vector_store.file_content.page",
        "data": [{"type": "text", "text": each} for each in texts],
        "has_more": False,
        "next_page": None,
    }


def _strategy(windows: tuple[int, int] | None) -> Json:
    if windows is None:
        return {"type": "other"}
    most, shared = windows
    return {"type": "static", "static": {"max_chunk_size_tokens": most, "chunk_overlap_tokens": shared}}


def _error(code: str, message: str) -> Json:
    """Spell why a file failed. What reading says of a file goes on after its name."""
    sentence = f"The file {message}" if message[:1].islower() else message
    return {"code": REASONS.get(code, "server_error"), "message": sentence}
