"""The documents of `/api/documents`, their query strings and their answers as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import PurePosixPath
from typing import Any

from marshmallow import post_load

from schemas.bounds import DEFAULT_PAGE, MAX_PAGE
from schemas.contracts.text_documents import Deleted, Filters, KnownChunk, KnownDocument
from schemas.wire.checked_fields import Words
from schemas.wire.fields import Count, Text, TruthText
from schemas.wire.search import AskingCollections
from schemas.wire.text_documents import InCollection

Json = dict[str, Any]


class StoredPage(AskingCollections):
    source = Words(load_default=None)
    tag = Words(load_default=None)
    kind = Words(load_default=None)
    limit = Count(least=1, most=MAX_PAGE, capped=True, in_text=True, load_default=DEFAULT_PAGE)
    cursor = Text(load_default=None)

    @post_load
    def _to_arguments(self, loaded: Json, **_: Any) -> Json:
        asked = self.one_field(loaded)
        tag = asked.pop("tag")
        filters = Filters(asked.pop("source"), () if tag is None else (tag,), kind=asked.pop("kind"))
        return {"names": asked.pop("collections"), "filters": filters, **asked}


class OneStored(InCollection):
    chunks = TruthText(load_default=False)


STORED_PAGE, ONE_STORED = StoredPage(), OneStored()


def stored_page(documents: Sequence[KnownDocument], total: int, next_cursor: str | None) -> Json:
    return {"documents": [stored_document(each) for each in documents], "total": total, "next_cursor": next_cursor}


def stored_document(document: KnownDocument) -> Json:
    place = document.path or document.source
    return {
        "id": document.document_id,
        "collection": document.collection,
        "source": document.source,
        "name": PurePosixPath(place).name or document.title,
        "kind": document.kind,
        "title": document.title,
        "tags": document.tags,
        "chunks": document.chunk_count,
        **({} if document.pages is None else {"pages": document.pages}),
        "bytes": document.size_bytes,
        "created_at": document.created_at,
        "updated_at": document.updated_at,
        "has_original": document.has_original,
    }


def document_with_chunks(document: KnownDocument, chunks: Sequence[KnownChunk]) -> Json:
    """Spell a document with its chunks where its description has their number."""
    return {**stored_document(document), "chunks": [_chunk(each) for each in chunks]}


def deleted_stored(document_id: str, done: Deleted) -> Json:
    return {"status": "deleted", "id": document_id, "collection": done.collection, "chunks": done.chunks}


def _chunk(chunk: KnownChunk) -> Json:
    told = asdict(chunk)
    always = ("id", "text", "chunk_index")
    return {name: value for name, value in told.items() if name in always or value is not None}
