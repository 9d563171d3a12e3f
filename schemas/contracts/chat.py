"""A conversation with a chat model, with or without retrieved context (contract *documents*, "Enhanced Chat with
RAG")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from schemas.access.owners import Ownership
from schemas.contracts.search import SearchReceipt
from schemas.contracts.text_documents import DEFAULT_TOP_K, Filters, SimilarChunk
from schemas.records import Metadata
from schemas.where import EVERYTHING, Where

ROLES = ("system", "user", "assistant")
STOP, LENGTH, CONTENT_FILTER = "stop", "length", "content_filter"
"""Why an answer ends: it is whole, as long as it may be, or held back."""


@dataclass(frozen=True, slots=True)
class Message:
    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Thought:
    """A piece of what a model thinks before its answer, in a stream."""

    text: str


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One request to the chat model.

    `messages` are as the client has them. With `is_continued` they are only the last one, and the service remembers the
    others. `connection` is the chat model's, None for the service's. Any other value of None is left to the
    connection, except for `system`, which is left to the messages, and `min_relevance`, which is left to the settings.
    `options` are the model's own, by the names that its server uses. `shared` says whether others may read the
    conversation, None leaves that as it is. One that is not `is_kept` is not stored. `rerank` and `max_per_document`
    are those of the search.
    """

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
    min_relevance: float | None = None
    connection: str | None = None
    shared: bool | None = None
    where: Where = EVERYTHING
    is_kept: bool = True
    rerank: str | None = None
    max_per_document: int | None = None


PLACES = ("section", "page", "last_page", "sheet", "slide", "start_line")
"""Where a chunk stands in its document: the fields of its metadata that say so."""


SHOWN_CHARACTERS = 200
"""Characters of a chunk that are stored and shown as an answer's source."""


@dataclass(frozen=True, slots=True)
class ChatSource:
    """A chunk that an answer was made from; `text` is its beginning, and `relevance` None where it cannot be told.

    `place` has those of `PLACES` that the chunk has.
    """

    text: str
    score: float
    source: str
    title: str
    document_id: str
    collection: str = ""  # unknown for answers that earlier releases stored
    relevance: float | None = None  # likewise
    place: Metadata = field(default_factory=dict)  # likewise


@dataclass(frozen=True, slots=True)
class Citation:
    """A number that an answer cites, and the passage of that number: None when there was no such passage."""

    number: int
    passage: SimilarChunk | None


@dataclass(frozen=True, slots=True)
class ChatSearch:
    """How passages were searched for an answer: by which text, why by that one (`registry.topics.query_text`), and the
    report of the search."""

    strategy: str
    query_text: str
    receipt: SearchReceipt


@dataclass(frozen=True, slots=True)
class ChatTurn:
    """An answer; `rag_used` says whether retrieval was used for it, `search` what was searched and how. `relevance`
    is that of the best passage, None when nothing was found and where it cannot be told. The tokens are those that the
    model's server counted, None when it does not say. `finish_reason` is STOP, LENGTH or CONTENT_FILTER. `thoughts`
    are empty unless they are shown, and `notes` are sentences on what the answer lacks."""

    answer: str
    model: str
    conversation_id: str
    rag_used: bool
    sources: tuple[ChatSource, ...] = ()
    search: ChatSearch | None = None
    citations: tuple[Citation, ...] = ()
    relevance: float | None = None
    prompt_tokens: int | None = None
    answer_tokens: int | None = None
    finish_reason: str = STOP
    thoughts: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message as it is stored; `created_at` is ISO 8601 in UTC. Only answers have sources, and end for other reasons
    than STOP."""

    role: str
    content: str
    created_at: str
    rag_used: bool = False
    rag_sources: tuple[ChatSource, ...] = ()
    finish_reason: str = STOP


@dataclass(frozen=True, slots=True)
class Conversation:
    """A stored conversation with its messages in order."""

    id: str
    of: Ownership
    messages: tuple[StoredMessage, ...]
