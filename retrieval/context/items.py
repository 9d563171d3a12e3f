"""Documents of the context tools as they are stored, and any stored chunks as the tools show them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson

from providers.embeddings.base import EmbeddingProvider
from retrieval.chunking import Syntax
from retrieval.clock import z_time
from retrieval.ingest import profiles
from retrieval.ingest.drafts import INTERNAL, SourceDocument, Splitter, document_id
from schemas.contracts.context import ContextItem
from schemas.contracts.search import OracleResult
from schemas.metadata import check_metadata
from schemas.records import Metadata
from schemas.where import Equals, Where, all_of

CODE, DOCUMENTATION = "code", "documentation"
"""Two of the values of `contentType`."""
MAX_TOKENS, OVERLAP_TOKENS = 512, 50
CODE_MAX_TOKENS, CODE_OVERLAP_TOKENS = 256, 25
FILTERS = ("category", "sessionId", "contentType", "game")
"""The arguments of a search that filter by the metadata field of the same name."""
UNKNOWN_TIME = "1970-01-01T00:00:00.000Z"
"""The `timestamp` of chunks that were not ingested here."""
_TOP_LEVEL = ("source", "sessionId", "contentType")
_NOT_SHOWN = frozenset({*INTERNAL, "source", "created_at", "updated_at", "embedding_model"})
_TEXTS = frozenset({"agent", "category", "game"})

Json = dict[str, Any]


def to_source(arguments: Json, embedding: EmbeddingProvider) -> SourceDocument:
    """Return the document of checked arguments of `rag_context_index`. Raises InvalidInputError when its metadata is
    invalid."""
    told = check_metadata(arguments.get("metadata"))
    own = {name: arguments[name] for name in _TOP_LEVEL if name in arguments}
    metadata: Metadata = {name: value for name, value in told.items() if name not in _TOP_LEVEL} | own
    if "agent" in arguments:
        metadata.setdefault("agent", arguments["agent"])
    return SourceDocument(
        id=document_id_of(arguments),
        title="",
        text=arguments["content"],
        metadata=metadata,
        split=splitter(arguments.get("contentType"), embedding),
    )


def splitter(content_type: str | None, embedding: EmbeddingProvider) -> Splitter:
    """Return how documents of that `contentType` are split, by the contract *context*."""
    if content_type == CODE:
        return profiles.windows(embedding, CODE_MAX_TOKENS, CODE_OVERLAP_TOKENS, Syntax.CODE)
    return profiles.windows(embedding, MAX_TOKENS, OVERLAP_TOKENS)


def document_id_of(arguments: Json) -> str:
    """Return the id of a document, the same for the same content, source and session.

    Indexed again, a document is brought up to date. The same text in two sessions makes two documents, so that each
    session finds its own.
    """
    return document_id(orjson.dumps([arguments.get(name) for name in ("content", "source", "sessionId")]).decode())


def to_where(arguments: Json) -> Where:
    """Return the filter of a search's arguments. Documents without one of the fields do not match."""
    return all_of(*(Equals(name, arguments[name]) for name in FILTERS if name in arguments))


def to_item(found: OracleResult) -> ContextItem:
    """Return a result of `rag_context_search` as the contract *context* has it."""
    told = found.metadata
    source = told.get("source")
    metadata = {name: value for name, value in told.items() if name not in _NOT_SHOWN and _is_as_described(name, value)}
    return ContextItem(
        found.content,
        found.score,
        source=source if isinstance(source, str) and source else found.collection,
        timestamp=_timestamp(told.get("updated_at") or told.get("created_at")),
        metadata=metadata,
        document_id=found.doc_id,
        chunk_index=told.get("chunk_index", 0),
        collection=found.collection,
        chunk_id=found.chunk_id,
    )


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
