"""Answers of the chat model, with retrieved context when the caller wants it (contract *documents*, §2.3)."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import cast

import structlog

from providers.chat.base import ChatProvider
from registry.connections import Connections
from registry.stored_connections import ConnectionNotFoundError
from retrieval.chat.history import ChatHistory, ConversationNotFoundError
from retrieval.documents.text_document_store import RagStore
from retrieval.quoting import BLOCK_IS_DATA, context_block
from schemas.contracts.chat import ChatRequest, ChatSource, ChatTurn, Message, StoredMessage
from schemas.contracts.text_documents import SimilarChunk, SimilarChunks
from schemas.errors import ConfigurationError, RagError, UnavailableError

log = structlog.get_logger(__name__)

REMEMBERED_MESSAGES = 20
"""Earlier messages of a conversation that are sent along with a message that comes alone."""
SHOWN_CHARACTERS = 200
"""Characters of a chunk that are stored and shown as an answer's source."""


class ChatUnavailableError(UnavailableError):
    """No chat model is configured, or it does not answer."""

    code = "chat_unavailable"


class Chat:
    """Answers chat requests through the connection of the operator's settings; safe for use by several threads."""

    def __init__(
        self, connections: Connections, store: RagStore, history: ChatHistory, *, chat_connection: str = "chat"
    ) -> None:
        self._connections = connections
        self._store = store
        self._history = history
        self._chat_connection = chat_connection

    def answer(self, request: ChatRequest, *, owner: str) -> ChatTurn:
        """Return the model's answer and store it in its conversation.

        Raises ChatUnavailableError when no chat model answers, InvalidInputError when the request is not valid, and
        what `RagStore.search_similar_chunks` raises: without the context that it asked for, a request gets no answer.
        """
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
        """Return the messages of a conversation. Raises ConversationNotFoundError when there are none."""
        found = self._history.messages(conversation_id, owner=owner)
        if not found:
            raise ConversationNotFoundError(conversation_id)
        return found

    def forget(self, conversation_id: str, *, owner: str) -> None:
        """Delete a conversation. Raises ConversationNotFoundError when there is none."""
        self._history.delete(conversation_id, owner=owner)

    def _connected(self) -> ChatProvider:
        try:
            return cast(ChatProvider, self._connections.open(self._chat_connection, "llm"))
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
    """Return the messages to send to the model.

    The system prompt is `system`, else the text of the messages of that role. The retrieved chunks come before it, and
    a sentence about them after it. Without system prompt and sources the messages stay as they are.
    """
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
