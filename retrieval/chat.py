"""An answer of the chat model, with retrieved context before it when the caller wants that (seed 002 §2.3)."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import cast

import structlog

from providers.chat.base import ChatConnection
from registry.connections import Connections
from registry.stored_connections import ConnectionNotFoundError
from retrieval.chat_history import ChatHistory, ConversationNotFoundError
from retrieval.rag_store import RagStore
from schemas.chat import ChatRequest, ChatSource, ChatTurn, Message, StoredMessage
from schemas.errors import ConfigurationError, RagError, UnavailableError
from schemas.rag import SimilarChunk

log = structlog.get_logger(__name__)

REMEMBERED_MESSAGES = 20
"""How many earlier messages of a conversation go with one that comes alone."""
SHOWN_CHARACTERS = 200
"""Of a chunk, in what is stored and shown of an answer's sources."""


class ChatUnavailableError(UnavailableError):
    """There is no chat model that answers."""

    code = "chat_unavailable"


class Chat:
    """Usable by several threads; `chat` is the connection of the operator's settings."""

    def __init__(
        self, connections: Connections, store: RagStore, history: ChatHistory, *, chat_connection: str = "chat"
    ) -> None:
        self._connections = connections
        self._store = store
        self._history = history
        self._chat_connection = chat_connection

    def answer(self, request: ChatRequest, *, owner: str) -> ChatTurn:
        """The model's answer, remembered in its conversation. A search that fails costs the context, not the answer,
        which says so. Raises ChatUnavailableError, InvalidInputError."""
        chat = self._connected()
        asked = next(each.content for each in reversed(request.messages) if each.role == "user")
        conversation_id = request.conversation_id or str(uuid.uuid4())
        sources, rag_error = self._sources(request, asked)
        messages = (*self._earlier(request, owner), *request.messages)
        try:
            answered = chat.chat(
                with_context(messages, request.system, sources),
                model=request.model,
                temperature=request.temperature,
                max_tokens=request.max_tokens,
            )
        except (UnavailableError, ConfigurationError) as error:
            raise ChatUnavailableError(error.message, **error.details) from error
        rag_used = request.use_rag and rag_error is None
        turn = ChatTurn(
            answered.content, answered.model, conversation_id, rag_used, tuple(map(to_source, sources)), rag_error
        )
        self._remember(turn, asked, owner)
        return turn

    def conversation(self, conversation_id: str, *, owner: str) -> list[StoredMessage]:
        """Raises ConversationNotFoundError."""
        found = self._history.messages(conversation_id, owner=owner)
        if not found:
            raise ConversationNotFoundError(conversation_id)
        return found

    def forget(self, conversation_id: str, *, owner: str) -> None:
        """Raises ConversationNotFoundError."""
        self._history.delete(conversation_id, owner=owner)

    def _connected(self) -> ChatConnection:
        try:
            return cast(ChatConnection, self._connections.open(self._chat_connection, "llm"))
        except ConnectionNotFoundError:
            raise ChatUnavailableError("No chat model is configured: set RAG_CHAT_PROVIDER") from None
        except ConfigurationError as error:
            raise ChatUnavailableError(error.message, **error.details) from error

    def _sources(self, request: ChatRequest, asked: str) -> tuple[list[SimilarChunk], str | None]:
        if not request.use_rag:
            return [], None
        try:
            return self._store.search_similar_chunks(asked, top_k=request.rag_top_k, filters=request.rag_filters), None
        except RagError as error:
            log.warning("answered without context", reason=error.message)
            return [], error.message

    def _earlier(self, request: ChatRequest, owner: str) -> list[Message]:
        if not request.is_continued or request.conversation_id is None:
            return []
        remembered = self._history.messages(request.conversation_id, owner=owner)[-REMEMBERED_MESSAGES:]
        return [Message("user" if each.role == "user" else "assistant", each.content) for each in remembered]

    def _remember(self, turn: ChatTurn, asked: str, owner: str) -> None:
        try:
            self._history.add_turn(
                turn.conversation_id,
                asked,
                turn.answer,
                owner=owner,
                rag_used=turn.rag_used,
                rag_sources=turn.sources,
            )
        except RagError as error:
            log.warning("a conversation could not be kept", reason=error.message)


def with_context(messages: Sequence[Message], system: str | None, sources: Sequence[SimilarChunk]) -> list[Message]:
    """The messages for the model. The system prompt is `system`, else what the messages of that role say, and what was
    found stands before it; with neither they are as they came."""
    if system is None and not sources:
        return list(messages)
    said = [each.content for each in messages if each.role == "system"]
    original = "\n\n".join(said) if system is None else system
    prompt = f"{context_block(sources)}\n\n{original}".strip() if sources else original
    others = [each for each in messages if each.role != "system"]
    return [Message("system", prompt), *others] if prompt else others


def context_block(sources: Sequence[SimilarChunk]) -> str:
    """As seed 002 writes it."""
    chunks = "\n\n".join(f"[Source: {chunk.title}]\n{chunk.text}" for chunk in sources)
    return f"=== Retrieved Context ===\n{chunks}\n=== End Context ==="


def to_source(chunk: SimilarChunk) -> ChatSource:
    return ChatSource(chunk.text[:SHOWN_CHARACTERS], chunk.score, chunk.source, chunk.title, chunk.document_id)
