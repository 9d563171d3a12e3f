"""Collections as OpenAI's clients know them: vector stores, and the files in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from schemas.errors import ConflictError, InvalidInputError, NotFoundError
from schemas.metadata import ATTRIBUTES, UNNAMEABLE
from schemas.records import Metadata

IN_PROGRESS, COMPLETED, FAILED, CANCELLED = FILE_STATUSES = ("in_progress", "completed", "failed", "cancelled")
EXPIRED = "expired"
MAX_BATCH = 2_000
"""The most files of a batch, and of a new store."""
DAY_MS = 86_400_000
OWN_NAMES = frozenset(
    {
        *("document_id", "chunk_index", "chunk_count", "chunking", "content_hash", "hash", "given", "bytes", "section"),
        *("section_id", "start_line", "title_is_file_name", "source", "path", "title", "kind", "contentType", "pages"),
        *("page", "last_page", "sheet", "slide", "ocr", "tags", "created_at", "updated_at", "embedding_model"),
        "file_id",
    }
)
"""Metadata of chunks that the service sets itself: attributes of these names are stored as others."""
LANGUAGE = "language"
"""Metadata that a client may set: a text is the language of the file, and anything else an attribute like others."""


def stored_name(name: str) -> str:
    """Return by which name of metadata an attribute is stored: below `attributes.` where the service has its own,
    and where filters would not take it for a name."""
    return ATTRIBUTES + name if _is_taken(name) else name


def attribute_name(stored: str) -> str:
    """Return which attribute is stored by a name of metadata."""
    name = stored.removeprefix(ATTRIBUTES)
    return name if name != stored and _is_taken(name) else stored


def _is_taken(name: str) -> bool:
    inner = name.removeprefix(ATTRIBUTES)
    return name in OWN_NAMES or name == LANGUAGE or name.startswith(UNNAMEABLE) or (inner != name and _is_taken(inner))


class StoreFileNotFoundError(NotFoundError):
    code = "file_not_in_store"

    def __init__(self, file_id: str, store_id: str) -> None:
        super().__init__(f"File '{file_id[:100]}' is not in vector store '{store_id[:100]}'", id=file_id[:100])


class FileNotStoredError(ConflictError):
    code = "file_not_stored"

    def __init__(self, file_id: str) -> None:
        super().__init__(f"File '{file_id[:100]}' could not be stored, so it has no attributes: attach it again")


class StoreExpiredError(InvalidInputError):
    code = "vector_store_expired"

    def __init__(self, store_id: str) -> None:
        super().__init__(
            f"Vector store '{store_id[:100]}' has expired: an update of its expires_after brings it back", id=store_id
        )


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """What a client said of a collection as a vector store. Times are milliseconds since the epoch; `expires_days` are
    counted from the last activity."""

    collection_id: str
    name: str | None
    description: str | None
    metadata: Mapping[str, str]
    expires_days: int | None
    created_at_ms: int | None
    last_active_at_ms: int

    @property
    def expires_at_ms(self) -> int | None:
        return None if self.expires_days is None else self.last_active_at_ms + self.expires_days * DAY_MS


@dataclass(frozen=True, slots=True)
class FileCounts:
    in_progress: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0

    @property
    def total(self) -> int:
        return self.in_progress + self.completed + self.failed + self.cancelled


@dataclass(frozen=True, slots=True)
class StoreFile:
    """A file in a store, or on its way: `code` and `message` say why it failed. `windows` are the longest chunk and the
    overlap in tokens, where it is split so. `place` orders the files of a store."""

    id: str
    store_id: str
    status: str
    created_at_ms: int
    usage_bytes: int
    attributes: Metadata = field(default_factory=dict)
    windows: tuple[int, int] | None = None
    code: str | None = None
    message: str | None = None
    place: tuple[int, int, int] = (0, 0, 0)


@dataclass(frozen=True, slots=True)
class FileToAttach:
    """What a client wants attached: a file, with attributes, and how long windows are, if they are to have a length of
    their own: at most so many tokens, of which neighbours share at most so many."""

    file_id: str
    attributes: Metadata = field(default_factory=dict)
    windows: tuple[int, int] | None = None
