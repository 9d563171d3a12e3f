"""A conversation with a chat model, with or without retrieved context (seed 002, "Enhanced Chat with RAG")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from schemas.rag import DEFAULT_TOP_K, Filters
from schemas.searched import CollectionsReceipt

ROLES = ("system", "user", "assistant")


@dataclass(frozen=True, slots=True)
class Message:
    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """`messages` as the client has them; `is_continued` when there is but the last one, and the service remembers the
    rest. None leaves a value to the connection, `system` to the messages. `options` are the model's own, by the names
    that its server has for them."""

    messages: tuple[Message, ...]
    is_continued: bool = False
    model: str | None = None
    system: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    conversation_id: str | None = None
    use_rag: bool = False
    rag_top_k: int = DEFAULT_TOP_K
    rag_filters: Filters = field(default_factory=Filters)
    collections: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class ChatSource:
    """A chunk that an answer was made from; `text` is its beginning."""

    text: str
    score: float
    source: str
    title: str
    document_id: str
    collection: str = ""  # unknown of answers that earlier releases stored


@dataclass(frozen=True, slots=True)
class ChatTurn:
    """`rag_used` says whether retrieval had its part in the answer, `receipt` which collections were asked."""

    answer: str
    model: str
    conversation_id: str
    rag_used: bool
    sources: tuple[ChatSource, ...] = ()
    receipt: CollectionsReceipt | None = None


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message as it is remembered; `created_at` is ISO 8601 in UTC. Only answers have sources."""

    role: str
    content: str
    created_at: str
    rag_used: bool = False
    rag_sources: tuple[ChatSource, ...] = ()
