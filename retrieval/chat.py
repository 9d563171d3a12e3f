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
from retrieval.quoting import BLOCK_IS_DATA, context_block
from retrieval.rag_store import RagStore
from schemas.chat import ChatRequest, ChatSource, ChatTurn, Message, StoredMessage
from schemas.errors import ConfigurationError, RagError, UnavailableError
from schemas.rag import SimilarChunk, SimilarChunks

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
        """The model's answer, remembered in its conversation. Raises ChatUnavailableError, InvalidInputError, and what
        `RagStore.search_similar_chunks` raises: without the context that was asked for there is no answer."""
        chat = self._connected()
        asked = next(each.content for each in reversed(request.messages) if each.role == "user")
        conversation_id = request.conversation_id or str(uuid.uuid4())
        found = self._found(request, asked)
        sources = [] if found is None else found.chunks
        messages = (*self._earlier(request, owner), *request.messages)
        try:
            answered = chat.chat(
                with_context(messages, request.system, sources),
                model=request.model,
                options=request.options,
            )
        except (UnavailableError, ConfigurationError) as error:
            raise ChatUnavailableError(error.message, **error.details) from error
        turn = ChatTurn(
            answered.content,
            answered.model,
            conversation_id,
            request.use_rag,
            tuple(map(to_source, sources)),
            None if found is None else found.receipt,
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

    def _found(self, request: ChatRequest, asked: str) -> SimilarChunks | None:
        if not request.use_rag:
            return None
        return self._store.search_similar_chunks(
            asked, top_k=request.rag_top_k, filters=request.rag_filters, collections=request.collections
        )

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
    """The messages for the model. The system prompt is `system`, else what the messages of that role say; what was
    found stands before it, and after it what that is. With neither the messages are as they came."""
    if system is None and not sources:
        return list(messages)
    said = [each.content for each in messages if each.role == "system"]
    original = "\n\n".join(said) if system is None else system
    block = context_block([(chunk.title, chunk.text) for chunk in sources])
    prompt = "\n\n".join(filter(None, (block, original, BLOCK_IS_DATA))) if sources else original
    others = [each for each in messages if each.role != "system"]
    return [Message("system", prompt), *others] if prompt else others


def to_source(chunk: SimilarChunk) -> ChatSource:
    return ChatSource(
        chunk.text[:SHOWN_CHARACTERS], chunk.score, chunk.source, chunk.title, chunk.document_id, chunk.collection
    )
