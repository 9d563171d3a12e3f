"""Erasure: what is to disappear from every table and file, and the receipt that says that it has."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

import orjson

from schemas.contracts.chat import SHOWN_CHARACTERS, ChatSource
from schemas.errors import ConflictError, UnavailableError
from schemas.where import Where, to_json

MARK_BYTES = 16
LIMIT_SECONDS = 600.0
"""The longest that one request works at an erasure, before it searches files. The same request again goes on
with it."""


class ErasureUnfinishedError(UnavailableError):
    """Something of what is to be erased is still there. The same erasure again goes on with it."""

    code = "erasure_unfinished"
    retry_after_seconds = 30
    documents = 0
    """How many documents were removed."""

    def __init__(self, left: Mapping[str, str]) -> None:
        told = "; ".join(f"{place}: {reason}" for place, reason in left.items())
        super().__init__(f"Not everything is erased yet ({told}). Ask for the same again", left=dict(left))


class ErasureUnderWayError(ConflictError):
    code = "erasure_under_way"

    def __init__(self) -> None:
        super().__init__("Another erasure is under way: ask again when it has ended")


class UploadWaitingError(ConflictError):
    """An upload that has not ended would store a document again that is to be erased."""

    code = "upload_waiting"

    def __init__(self, job_id: str) -> None:
        super().__init__(
            f"Job '{job_id}' has yet to store a document that is to be erased: cancel it, or wait for its end",
            job=job_id,
        )


@dataclass(frozen=True, slots=True)
class ErasureRequest:
    """What somebody wants erased: the documents of a collection that match `where`, one `document` of it, or what
    belongs to a `user`. Only with `may_empty` may `where` match all that the collection has. `is_private` says that
    nobody but the user could read it."""

    collection: str | None = None
    where: Where | None = None
    document: str | None = None
    user: str | None = None
    may_empty: bool = False
    is_private: bool = False

    @property
    def digest(self) -> str:
        """What tells this request from others, without the names and values that it has."""
        where = None if self.where is None else to_json(self.where)
        asked = orjson.dumps([self.collection, where, self.document, self.user], option=orjson.OPT_SORT_KEYS)
        return hashlib.sha256(asked).hexdigest()


@dataclass(frozen=True, slots=True)
class Target:
    """What is erased, in the words of the places that hold it.

    `ids` are those of stored documents, and `ids_beside` those that are erased from the vectors beside the collection
    alone, as they once were; `former` has what `mark_of` gives of the texts that these had then and have no more. Those
    that belong together as chunks count as one of `documents`, and `document_ids` are all that these may be called
    elsewhere; `sources` are names and paths by which reports know them, and `file_names` those of their uploads.
    Without a collection there are none of all these. `owner` is whose things go, and `job_ids` are their uploads;
    nobody else could read what `is_private`.
    """

    collection: str | None = None
    collection_id: str | None = None
    ids: frozenset[str] = frozenset()
    ids_beside: frozenset[str] = frozenset()
    former: frozenset[str] = frozenset()
    documents: frozenset[str] = frozenset()
    document_ids: frozenset[str] = frozenset()
    sources: frozenset[str] = frozenset()
    file_names: frozenset[str] = frozenset()
    owner: str | None = None
    is_private: bool = False
    job_ids: frozenset[str] = frozenset()

    def names(self, collection: object, document_id: object) -> bool:
        """Return whether a document is erased. Where nobody noted its collection, its id alone decides."""
        return self._is_of(collection) and (document_id in self.document_ids or document_id in self.ids)

    def names_source(self, source: ChatSource) -> bool:
        """Return whether an answer was made from what is erased: a document, or what one that stays once had."""
        return self.names(source.collection, source.document_id) or (
            bool(self.former)
            and self._is_of(source.collection)
            and mark_of(source.document_id, source.text) in self.former
        )

    def _is_of(self, collection: object) -> bool:
        return self.collection is not None and collection in (self.collection, "", None)


def mark_of(document: str, text: str) -> str:
    """Return what tells a chunk of a document by what `ChatSource` shows of it, without its words."""
    beginning = f"{document}\0{text[:SHOWN_CHARACTERS]}"
    return hashlib.blake2b(beginning.encode(errors="surrogatepass"), digest_size=MARK_BYTES).hexdigest()


@dataclass(frozen=True, slots=True)
class Matched:
    """The stored documents to erase. `probes` are bytes of some of them, by which files are searched afterwards.

    The storage notes `mark` with their deletion. `is_removed` says that what is of them above the storage was removed,
    too: what has one of their names or owners by now came later. `request_digest` tells by which request.
    """

    target: Target
    probes: tuple[bytes, ...] = ()
    is_removed: bool = field(default=False, compare=False)
    mark: str = field(default_factory=lambda: uuid.uuid4().hex, compare=False)
    request_digest: str = ""


@dataclass(frozen=True, slots=True)
class Cleaned:
    """A place that was cleaned, and what was done there. `removed` is None where nothing is counted."""

    place: str
    done: str
    removed: int | None = None


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was erased and where. Times are ISO 8601 in UTC.

    `chunks` are stored documents, those that belong together counted as one of `documents`. `also_in` names what holds
    the same words and was not to be erased.
    """

    collection: str | None
    user: str | None
    documents: int
    chunks: int
    places: tuple[Cleaned, ...]
    also_in: tuple[str, ...]
    began_at: str
    ended_at: str
