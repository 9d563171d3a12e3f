"""Documents of the context tools as they are stored, and stored chunks of anybody as the tools tell of them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson

from providers.base import Filter
from providers.embeddings.base import EmbeddingConnection
from retrieval import profiles
from retrieval.chunking import Syntax
from retrieval.clock import z_time
from retrieval.drafts import INTERNAL, SourceDocument, Splitter, document_id
from schemas.metadata import check_metadata
from schemas.records import Metadata
from schemas.searched import OracleResult

CODE, DOCUMENTATION = "code", "documentation"
"""Two of the values of `contentType`."""
MAX_TOKENS, OVERLAP_TOKENS = 512, 50
CODE_MAX_TOKENS, CODE_OVERLAP_TOKENS = 256, 25
FILTERS = ("category", "sessionId", "contentType", "game")
"""Arguments of a search that name metadata of what is searched."""
UNKNOWN_TIME = "1970-01-01T00:00:00.000Z"
"""`timestamp` of chunks that were not ingested here."""
_TOP_LEVEL = ("source", "sessionId", "contentType")
_NOT_SHOWN = frozenset({*INTERNAL, "source", "created_at", "updated_at", "embedding_model"})
_TEXTS = frozenset({"agent", "category", "game"})

Json = dict[str, Any]


def to_source(arguments: Json, embedding: EmbeddingConnection) -> SourceDocument:
    """The document of checked arguments of `rag_context_index`. Raises InvalidInputError."""
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


def splitter(content_type: str | None, embedding: EmbeddingConnection) -> Splitter:
    """How documents of that `contentType` are split (seed 000)."""
    if content_type == CODE:
        return profiles.windows(embedding, CODE_MAX_TOKENS, CODE_OVERLAP_TOKENS, Syntax.CODE)
    return profiles.windows(embedding, MAX_TOKENS, OVERLAP_TOKENS)


def document_id_of(arguments: Json) -> str:
    """The same for the same content from the same source in the same session: indexed again, it is brought up to date.
    Two sessions that say the same are two documents, so that each finds its own."""
    return document_id(orjson.dumps([arguments.get(name) for name in ("content", "source", "sessionId")]).decode())


def to_where(arguments: Json) -> Filter | None:
    """What the filters of a search match; documents without the field they do not."""
    return {name: arguments[name] for name in FILTERS if name in arguments} or None


def to_item(found: OracleResult) -> Json:
    """A result of `rag_context_search` (seed 000)."""
    told = found.metadata
    source = told.get("source")
    metadata = {name: value for name, value in told.items() if name not in _NOT_SHOWN and _is_as_described(name, value)}
    return {
        "content": found.content,
        "score": found.score,
        "source": source if isinstance(source, str) and source else found.collection,
        "timestamp": _timestamp(told.get("updated_at") or told.get("created_at")),
        "metadata": metadata
        | {
            "documentId": found.doc_id,
            "chunkIndex": told.get("chunk_index", 0),
            "collection": found.collection,
            "chunkId": found.chunk_id,
        },
    }


def _is_as_described(name: str, value: Any) -> bool:
    """Others may use these names for something else."""
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
