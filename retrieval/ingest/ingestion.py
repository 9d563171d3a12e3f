"""Bring a document's chunks in a collection up to date: split, embed what is new, swap all of them in one request.

Every document is stored this way, whether it comes from `rag-wrapper load`, an HTTP contract or a caller in Python. A
document is the chunks with its `document_id`; the first of them has the metadata of the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from retrieval.clock import utc_now
from retrieval.ingest.collection_writer import CollectionWriter, Stored
from retrieval.ingest.drafts import SourceDocument, drafts_of, named_chunk, place_of
from retrieval.ingest.embedding_texts import TextNotEmbeddedError
from schemas.errors import InvalidInputError
from schemas.records import Metadata
from schemas.where import Equals

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
    advance: Callable[[float], None] = lambda part: None,
) -> Ingested:
    """Store a document in place of its previous version.

    A document or chunk that has not changed is not embedded again. Until the swap the previous version stays as it is,
    whatever fails; of a chunk that alone cannot be embedded or stored the error tells number and first words. A text
    without words leaves no chunks. When the collection is re-embedded meanwhile, the document is
    embedded again.
    """
    return writer.following(partial(_ingest, writer, document, advance))


def _ingest(writer: CollectionWriter, document: SourceDocument, advance: Callable[[float], None]) -> Ingested:
    where = Equals("document_id", document.id) if document.replaces is None else document.replaces
    stored = writer.stored(where)
    first = first_chunk_of(stored)
    is_own = {each.metadata.get("document_id") for each in stored.values()} == {document.id}
    if document.chunking is None and document.hash is not None and is_own and first.get("hash") == document.hash:
        return Ingested(UNCHANGED, len(stored), unchanged=len(stored))
    drafts, warnings = drafts_of(document, writer.embedding.model)
    gone = stored.keys() - {draft.id for draft in drafts}
    same = {draft.id for draft in drafts if draft.is_stored_as(stored.get(draft.id))}
    is_same = len(same) == len(drafts) and not gone
    if is_same and (document.chunking is None or not drafts or is_same_file(first, drafts[0].metadata)):
        return Ingested(UNCHANGED, len(drafts), unchanged=len(drafts), warnings=warnings)
    if not drafts:
        writer.delete(where)
        return Ingested(EMPTIED, 0, deleted=len(gone), warnings=warnings)
    now = utc_now().isoformat(timespec="milliseconds")
    for draft in drafts[1:]:
        unchanged = stored[draft.id].metadata if draft.id in same else {}
        draft.metadata["updated_at"] = unchanged.get("updated_at", now)
    updated_at = first.get("updated_at", now) if is_same else now
    drafts[0].metadata.update(created_at=first.get("created_at") or now, updated_at=updated_at)
    try:
        vectors = writer.vectors(drafts, stored, advance)
        indexed = writer.write(drafts, vectors, replace_where=where)
    except TextNotEmbeddedError as error:
        place = place_of(error.text, drafts)
        if place is None:
            raise
        named = named_chunk(drafts[place].text, place)
        raise type(error)(error.text, error.failure, named, chunk_index=place) from error.__cause__
    except InvalidInputError as error:
        index = error.details.get("index")
        if error.code != "zero_vector" or index is None:
            raise
        sentence = f"{named_chunk(drafts[index].text, index)} cannot be stored: {error.message}"
        raise InvalidInputError(sentence, code=error.code, **error.details) from error
    known = stored.keys() - gone
    return Ingested(
        UNCHANGED if is_same else UPDATED if stored else CREATED,
        len(drafts),
        created=len(drafts) - len(known),
        updated=len(known) - len(same),
        unchanged=len(same),
        deleted=len(gone),
        indexed=indexed,
        warnings=warnings,
    )


def is_same_file(first: Metadata, wanted: Metadata) -> bool:
    """Return whether a document with this first chunk was made of the same bytes in the same way.

    Whoever gives nothing with a file leaves what others gave with it.
    """
    names = ("hash", "chunking", "embedding_model", *(["given"] if wanted["given"] else []))
    return all(first.get(name) == wanted[name] for name in names)


def first_chunk_of(stored: Stored) -> Metadata:
    return next((each.metadata for each in stored.values() if each.metadata.get("chunk_index") == 0), {})
