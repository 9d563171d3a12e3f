"""Documents on the wire: the bodies and query strings that write and read them, and the answers about them.

Stored metadata passes through as the JSON that it is.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import orjson
from marshmallow import ValidationError, fields, post_load

from schemas.bounds import DEFAULT_PAGE, MAX_OFFSET, MAX_PAGE
from schemas.records import Document, DocumentPatch
from schemas.records import Page as FoundPage
from schemas.storage.outcomes import WriteOutcome
from schemas.where import EVERYTHING
from schemas.wire.body import Body, ExactBody
from schemas.wire.fields import (
    Choice,
    Count,
    Embedding,
    Filter,
    FilterText,
    Include,
    MetadataObject,
    Ordering,
    Text,
    TruthText,
    Uri,
    check_either,
    check_ids,
)

ON_CONFLICT = ("replace", "skip", "error")

Answer = dict[str, Any]


class NewDocuments(Body):
    documents = fields.Raw(load_default=None)


class Embedded(Body):
    """The query string of a write with embeddings."""

    embedding_model = Text(load_default=None)


class Sweeping(Body):
    """The query string of what deletes or changes documents that match a filter."""

    may_match_all = TruthText(data_key="all", load_default=False)


class Writing(Embedded, Sweeping):
    """The query string of a write of documents."""

    on_conflict = Choice(ON_CONFLICT, load_default="replace")
    replace_where = FilterText(load_default=None, must_say=True)


class Patch(Body):
    text = Text()
    metadata = MetadataObject()
    embedding = Embedding()
    uri = Uri()

    @post_load
    def _to_patch(self, loaded: dict[str, Any], **_: Any) -> dict[str, DocumentPatch]:
        if not loaded:
            raise ValidationError("one of text, metadata, embedding, uri is required", "text")
        return {"patch": DocumentPatch(**loaded)}


class WholeDocument(Body):
    """The body of one document that is stored whole; its id is in the path."""

    id = fields.Raw(load_default=None)
    text = fields.Raw(load_default=None)
    metadata = fields.Raw(load_default=None)
    embedding = fields.Raw(load_default=None)
    uri = fields.Raw(load_default=None)


class MetadataPatch(ExactBody):
    """The body of a change of many documents' metadata: which ones, by filter or ids, and what is merged into it."""

    ids = fields.Raw(load_default=None)
    where = Filter(load_default=None)
    metadata = MetadataObject(required=True, error_messages={"required": "is required"})

    @post_load
    def _check_selection(self, loaded: dict[str, Any], **_: Any) -> dict[str, Any]:
        if loaded["ids"] is None and loaded["where"] is None:
            raise ValidationError("ids or where is required; {} stands for all documents", "where")
        if loaded["ids"] is not None:
            check_ids(loaded["ids"])
        loaded["where"] = loaded["where"] or EVERYTHING
        return loaded


class Paging(Body):
    order_by = Ordering(load_default=())
    cursor = Text(load_default=None)
    include = Include(load_default=())

    @post_load
    def _one_way_of_paging(self, loaded: dict[str, Any], **_: Any) -> dict[str, Any]:
        if loaded["cursor"] is not None and loaded["offset"]:
            raise ValidationError("goes without an offset", "cursor")
        return loaded


class Page(Paging):
    """The query string of a page of documents."""

    where = FilterText(load_default=EVERYTHING)
    limit = Count(least=1, most=MAX_PAGE, capped=True, in_text=True, load_default=DEFAULT_PAGE)
    offset = Count(least=0, most=MAX_OFFSET, in_text=True, load_default=0)


class Search(Paging):
    """The body of a page of documents, found by filter or by ids.

    Without a limit, a page by ids has up to `MAX_PAGE` documents.
    """

    ids = fields.Raw(load_default=None)
    where = Filter(load_default=EVERYTHING)
    offset = Count(least=0, most=MAX_OFFSET, load_default=0)
    limit = Count(least=1, most=MAX_PAGE, capped=True, load_default=None)

    @post_load
    def _check_ids(self, loaded: dict[str, Any], **_: Any) -> dict[str, Any]:
        by_ids = loaded["ids"] is not None
        if by_ids:
            check_ids(loaded["ids"])
            if loaded["cursor"] is not None:
                raise ValidationError("goes without ids", "cursor")
        if loaded["limit"] is None:
            loaded["limit"] = MAX_PAGE if by_ids else DEFAULT_PAGE
        return loaded


class Deletion(ExactBody):
    ids = fields.Raw(load_default=None)
    where = Filter(load_default=None)

    @post_load
    def _one_of(self, loaded: dict[str, Any], **_: Any) -> dict[str, Any]:
        check_either(loaded["ids"], loaded["where"])
        if loaded["where"] == EVERYTHING:
            raise ValidationError("an empty filter would delete everything: use DELETE …/documents/all", "where")
        return loaded


class Matching(Body):
    """The query string of a count of documents."""

    where = FilterText(load_default=EVERYTHING)


class Shown(Body):
    """The query string of one document."""

    include = Include(load_default=())


# Making a schema costs more than using it, and it keeps no state.
NEW_DOCUMENTS, PATCH, DELETION, SEARCH = NewDocuments(), Patch(), Deletion(), Search()
WHOLE_DOCUMENT, METADATA_PATCH = WholeDocument(), MetadataPatch()
EMBEDDED_ARGUMENTS, WRITING_ARGUMENTS, SWEEPING_ARGUMENTS = Embedded(), Writing(), Sweeping()
PAGE_ARGUMENTS, MATCHING_ARGUMENTS, SHOWN_ARGUMENTS = Page(), Matching(), Shown()


def added_answer(name: str, outcome: WriteOutcome, *, with_deleted: bool) -> Answer:
    answer: Answer = {
        "status": "added",
        "collection": name,
        "count": len(outcome.ids),
        "ids": outcome.ids,
        "created": outcome.created,
        "updated": outcome.updated,
        "unchanged": outcome.unchanged,
    }
    if with_deleted:
        answer["deleted"] = outcome.deleted
    return {**answer, "revision": outcome.revision}


def put_answer(name: str, document_id: str, outcome: WriteOutcome) -> Answer:
    status = "created" if outcome.created else "replaced" if outcome.updated else "unchanged"
    return {"status": status, "collection": name, "id": document_id, "revision": outcome.revision}


def metadata_patched_answer(name: str, outcome: WriteOutcome) -> Answer:
    return {
        "status": "updated",
        "collection": name,
        "count": outcome.count,
        "updated": outcome.updated,
        "unchanged": outcome.unchanged,
        "revision": outcome.revision,
    }


def deleted_answer(name: str, outcome: WriteOutcome) -> Answer:
    return {"status": "deleted", "collection": name, "count": outcome.deleted, "revision": outcome.revision}


def with_index_state(answer: Answer, indexed: bool, set_aside: Sequence[str]) -> Answer:
    """Add to the answer of a write of documents whether vector queries find them through the index.

    Documents that the engine cannot take are named in `set_aside`; queries find them by exact distances.
    """
    told: Answer = {**answer, "indexed": indexed}
    return {**told, "set_aside": list(set_aside)} if set_aside else told


def document_answer(found: Document) -> Answer:
    answer: Answer = {"id": found.id, "text": found.text, "metadata": orjson.Fragment(found.metadata_json)}
    if found.extras.uri is not None:
        answer["uri"] = found.extras.uri
    if found.embedding is not None:
        answer["embedding"] = found.embedding
    return answer


def exported_line(found: Document) -> Answer:
    """Return the line of an export for a document, which is also a line of an NDJSON stream of documents."""
    assert found.embedding is not None
    line = {**document_answer(found), "embedding": b64encode(found.embedding.tobytes()).decode()}
    return {**line, "text": None} if found.extras.textless else line


def page_answer(found: FoundPage) -> Answer:
    return {
        "documents": [document_answer(each) for each in found.documents],
        "count": len(found.documents),
        "total": found.total,
        "next_cursor": found.next_cursor,
        "revision": found.revision,
    }


def count_answer(count: int, revision: int) -> Answer:
    return {"count": count, "revision": revision}
