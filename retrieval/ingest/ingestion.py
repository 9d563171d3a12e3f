"""Bring a document's chunks in a collection up to date: split, embed what is new, swap all of them in one request.

Every document is stored this way, whether it comes from `rag-wrapper load`, an HTTP contract or a caller in Python. A
document is the chunks with its `document_id`; the first of them has the metadata of the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from retrieval.clock import utc_now
from retrieval.ingest.collection_writer import CollectionWriter, Stored
from retrieval.ingest.drafts import SourceDocument, drafts_of
from schemas.where import Equals, Where

CREATED, UPDATED, UNCHANGED, EMPTIED = "created", "updated", "unchanged", "emptied"


@dataclass(frozen=True, slots=True)
class Ingested:
    """The outcome for a document (one of the words above) and for its chunks."""

    status: str
    chunks: int
    created: int = 0
    updated: int = 0
    unchanged: int = 0
    deleted: int = 0
    indexed: bool = True
    warnings: Sequence[str] = ()


def ingest_document(
    writer: CollectionWriter,
    document: SourceDocument,
    *,
    replaces: Where | None = None,
    advance: Callable[[float], None] = lambda part: None,
    clock: Callable[[], datetime] = utc_now,
) -> Ingested:
    """Store a document in place of its previous version: the chunks that `replaces` selects, by default its own.

    A document or chunk that has not changed is not embedded again. Until the swap the previous version stays as it is,
    whatever fails. A text without words leaves no chunks.
    """
    where = Equals("document_id", document.id) if replaces is None else replaces
    stored = writer.stored(where)
    if document.hash is not None and _recorded_hash(stored) == document.hash:
        return Ingested(UNCHANGED, len(stored), unchanged=len(stored))
    drafts, warnings = drafts_of(document, writer.embedding.model)
    gone = stored.keys() - {draft.id for draft in drafts}
    same = {draft.id for draft in drafts if draft.is_stored_as(stored.get(draft.id))}
    if len(same) == len(drafts) and not gone:
        return Ingested(UNCHANGED, len(drafts), unchanged=len(drafts), warnings=warnings)
    if not drafts:
        writer.delete(where)
        return Ingested(EMPTIED, 0, deleted=len(gone), warnings=warnings)
    now = clock().isoformat(timespec="milliseconds")
    for draft in drafts[1:]:
        unchanged = stored[draft.id].metadata if draft.id in same else {}
        draft.metadata["updated_at"] = unchanged.get("updated_at", now)
    drafts[0].metadata.update(created_at=_created_at(stored) or now, updated_at=now)
    vectors = writer.vectors(drafts, stored, advance)
    indexed = writer.write(drafts, vectors, replace_where=where)
    known = stored.keys() - gone
    return Ingested(
        UPDATED if stored else CREATED,
        len(drafts),
        created=len(drafts) - len(known),
        updated=len(known) - len(same),
        unchanged=len(same),
        deleted=len(gone),
        indexed=indexed,
        warnings=warnings,
    )


def _recorded_hash(stored: Stored) -> object:
    return _first(stored).get("hash")


def _created_at(stored: Stored) -> object:
    return _first(stored).get("created_at")


def _first(stored: Stored) -> dict[str, object]:
    return next((each.metadata for each in stored.values() if each.metadata.get("chunk_index") == 0), {})
