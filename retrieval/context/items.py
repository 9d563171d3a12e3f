"""Documents of the context tools as they are stored, and any stored chunks as the tools show them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson

from providers.embeddings.base import EmbeddingProvider
from retrieval.chunking import Syntax
from retrieval.clock import z_time
from retrieval.ingest import profiles
from retrieval.ingest.drafts import INTERNAL, KIND, SourceDocument
from retrieval.ingest.files import CODE, CONTENT_TYPE
from retrieval.ingest.identity import document_id
from retrieval.ingest.profiles import CODE_MAX_TOKENS, CODE_OVERLAP_TOKENS
from schemas.contracts.context import ContextDocument, ContextItem, ContextQuery
from schemas.contracts.search import FusedResult
from schemas.metadata import check_metadata, set_apart
from schemas.where import Equals, Where, all_of

SOURCE, SESSION_ID, AGENT = "source", "sessionId", "agent"
CATEGORY, GAME = "category", "game"
"""The fields of the metadata, by the names under which chunks are stored."""
MAX_TOKENS, OVERLAP_TOKENS = 512, 50
UNKNOWN_TIME = "1970-01-01T00:00:00.000Z"
"""The `timestamp` of chunks that were not ingested here."""
_NOT_SHOWN = frozenset({*INTERNAL, KIND, SOURCE, "created_at", "updated_at", "embedding_model"})
_TEXTS = frozenset({AGENT, CATEGORY, GAME})


def to_source(document: ContextDocument, embedding: EmbeddingProvider) -> SourceDocument:
    """Return the document as it is ingested. Raises InvalidInputError when its metadata is invalid."""
    told, is_code = check_metadata(document.metadata), document.content_type == CODE
    own = {SOURCE: document.source, SESSION_ID: document.session_id, CONTENT_TYPE: document.content_type}
    metadata = set_apart(told, _given(own), own)
    if document.agent is not None:
        metadata.setdefault(AGENT, document.agent)
    return SourceDocument(
        id=document_id_of(document),
        title="",
        text=document.content,
        metadata=metadata,
        split=profiles.windows(embedding, CODE_MAX_TOKENS, CODE_OVERLAP_TOKENS, Syntax.CODE)
        if is_code
        else profiles.windows(embedding, MAX_TOKENS, OVERLAP_TOKENS),
        kind="code" if is_code else "markdown",
    )


def document_id_of(document: ContextDocument) -> str:
    """Return the id of a document, the same for the same content, source and session.

    Indexed again, a document is brought up to date. The same text in two sessions makes two documents, so that each
    session finds its own.
    """
    return document_id(orjson.dumps([document.content, document.source, document.session_id]).decode())


def to_where(asked: ContextQuery) -> Where:
    """Return the filter of a search. Documents without one of the fields do not match."""
    fields = {
        CATEGORY: asked.category,
        SESSION_ID: asked.session_id,
        CONTENT_TYPE: asked.content_type,
        GAME: asked.game,
    }
    return all_of(asked.where, *(Equals(name, value) for name, value in _given(fields).items()))


def to_item(found: FusedResult) -> ContextItem:
    """Return a result of a search as the contract *context* has it."""
    told = found.metadata
    source = told.get(SOURCE)
    metadata = {name: value for name, value in told.items() if name not in _NOT_SHOWN and _is_as_described(name, value)}
    return ContextItem(
        found.content,
        next(iter(found.provenance.values())).score,
        source=source if isinstance(source, str) and source else found.collection,
        timestamp=_timestamp(told.get("updated_at") or told.get("created_at")),
        metadata=metadata,
        document_id=found.doc_id,
        chunk_index=told.get("chunk_index", 0),
        collection=found.collection,
        chunk_id=found.chunk_id,
        relevance=found.relevance,
    )


def _given(fields: dict[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in fields.items() if value is not None}


def _is_as_described(name: str, value: Any) -> bool:
    """Return whether the value has the type of the contract: others may use these names for something else."""
    if name == "tags":
        return isinstance(value, list) and all(isinstance(tag, str) for tag in value)
    if name in _TEXTS:
        return isinstance(value, str)
    return name not in ("title", "section") or value != ""


def _timestamp(stored: Any) -> str:
    try:
        at = datetime.fromisoformat(stored).astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        return UNKNOWN_TIME
    return z_time(at)
