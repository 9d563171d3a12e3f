"""Answers of the chat model, with retrieved context when the caller wants it (contract *documents*, §2.3)."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from typing import cast

import structlog

from providers.chat.base import ChatAnswer, ChatProvider
from registry.connections import Connections
from retrieval.chat.citations import citations
from retrieval.chat.history import ChatHistory
from retrieval.chat.passages import ChatPassages, Passages
from retrieval.quoting import BLOCK_IS_DATA, HOW_TO_CITE, context_block
from schemas.access.callers import check_acting
from schemas.access.owners import Asker
from schemas.access.turns import waiting_for
from schemas.contracts.chat import (
    PLACES,
    SHOWN_CHARACTERS,
    ChatRequest,
    ChatSource,
    ChatTurn,
    Conversation,
    Message,
)
from schemas.contracts.text_documents import SimilarChunk
from schemas.errors import ConfigurationError, RagError, UnavailableError
from schemas.storage.erasure_count import UNKNOWN

log = structlog.get_logger(__name__)

REMEMBERED_MESSAGES = 20
"""Earlier messages of a conversation that are sent along with a message that comes alone."""
ABOUT_THE_BLOCK = f"{BLOCK_IS_DATA} {HOW_TO_CITE}"
"""What the prompt says of the block of passages, after it and the original system prompt."""
NOTHING_FOUND = "Nothing relevant to this question was found in the documents."
"""The answer to a question without a relevant passage."""
NOT_ALL_ASKED = "Not everything could be searched for this question. What was searched has no answer to it."
"""The answer where that is so of what could be asked."""
NONE_ASKED = "No documents could be searched for this question."
"""The answer where nothing could be asked."""


class ChatUnavailableError(UnavailableError):
    """No chat model is configured, or it does not answer. It passes when its cause does."""

    code = "chat_unavailable"

    def __init__(self, cause: RagError) -> None:
        super().__init__(cause.message, **cause.details)
        self.retry_after_seconds = cause.retry_after_seconds


@dataclass(frozen=True, slots=True)
class Question:
    """A request whose question is known, with all messages of its conversation, and the passages found for it.
    `began_at` is the count of erasures before anything was read."""

    request: ChatRequest
    asker: Asker
    text: str
    messages: Sequence[Message]
    conversation_id: str
    passages: Passages
    began_at: int


class Chat:
    """Answers chat requests through a connection, the service's unless one is named; safe for use by several threads.

    With `says_so` a request for retrieval for which nothing relevant is found is answered by `NOTHING_FOUND`,
    `NOT_ALL_ASKED` or `NONE_ASKED`, and the model is not asked.
    """

    def __init__(
        self,
        connections: Connections,
        passages: ChatPassages,
        history: ChatHistory,
        *,
        says_so: bool,
    ) -> None:
        self._connections = connections
        self._passages = passages
        self._history = history
        self._says_so = says_so

    def answer(self, request: ChatRequest, *, asker: Asker) -> ChatTurn:
        """Return the model's answer and store it in its conversation, unless something was erased meanwhile.

        Raises ChatUnavailableError when no chat model answers, InvalidInputError when the request is not valid, what
        `Connections.named` raises for the connection that it names, and what `SearchEngine.search` raises:
        without the context that it asked for, a request gets no answer.
        """
        connection, chat = self._connected(request)
        question = self._question(request, asker)
        if self._lacks_sources(question):
            return self._turn(question, _nothing_found(chat, question))
        with self._turn_with(connection), _telling_that_it_is_unavailable():
            answered = chat.chat(self._messages(question), model=request.model, options=request.options)
        return self._turn(question, answered)

    def stream(
        self, request: ChatRequest, *, asker: Asker, is_unwanted: Callable[[], bool] | None = None
    ) -> Generator[str | ChatTurn]:
        """Yield the pieces of the answer as the model says them, and at last the turn, which is stored by then.

        A turn that does not come to its end is not stored: closing the iterator before, or `is_unwanted`, which another
        thread asks, ends the request to the model. Raises what `answer` raises.
        """
        connection, chat = self._connected(request)
        question = self._question(request, asker)
        if self._lacks_sources(question):
            nothing = _nothing_found(chat, question)
            yield nothing.content
            yield self._turn(question, nothing)
            return
        with self._turn_with(connection), _telling_that_it_is_unavailable():
            pieces = chat.stream(
                self._messages(question), model=request.model, options=request.options, is_unwanted=is_unwanted
            )
            with closing(pieces):
                for piece in pieces:
                    yield piece if isinstance(piece, str) else self._turn(question, piece)

    def conversation(self, conversation_id: str, *, asker: Asker, of_owner: str | None = None) -> Conversation:
        """Return what `ChatHistory.conversation` returns. Raises ConversationNotFoundError when there is none."""
        return self._history.conversation(conversation_id, asker=asker, of_owner=of_owner)

    def forget(self, conversation_id: str, *, asker: Asker, of_owner: str | None = None) -> None:
        """Delete a conversation. Raises what `ChatHistory.delete` raises."""
        self._history.delete(conversation_id, asker=asker, of_owner=of_owner)

    def _connected(self, request: ChatRequest) -> tuple[str, ChatProvider]:
        """Return the connection that answers a request, and its provider."""
        asked = request.connection
        if asked is not None:
            self._connections.named(asked, "llm", field="connection")
        try:
            if asked is None:
                connection, provider = self._connections.open_chat()
            else:
                connection, provider = asked, self._connections.open(asked, "llm")
            return connection, cast(ChatProvider, provider)
        except ConfigurationError as error:
            raise ChatUnavailableError(error) from error

    def _turn_with(self, connection: str) -> AbstractContextManager[None]:
        return waiting_for(lambda: self._connections.elsewhere([connection]))

    def _question(self, request: ChatRequest, asker: Asker) -> Question:
        asked = next(each.content for each in reversed(request.messages) if each.role == "user")
        conversation_id = request.conversation_id or str(uuid.uuid4())
        began_at = self._erasures()
        messages = (*self._earlier(request, asker), *request.messages)
        passages = self._passages.find(request, messages, asker) if request.use_rag else Passages()
        check_acting()  # before a model is paid and told of documents: embedding may have taken long
        return Question(request, asker, asked, messages, conversation_id, passages, began_at)

    def _erasures(self) -> int:
        try:
            return self._history.erasures()
        except RagError:  # what can be answered without the catalogue is, and not stored
            return UNKNOWN

    def _lacks_sources(self, question: Question) -> bool:
        return question.request.use_rag and self._says_so and not question.passages.chunks

    def _messages(self, question: Question) -> list[Message]:
        return with_context(question.messages, question.request.system, question.passages.chunks)

    def _turn(self, question: Question, answered: ChatAnswer) -> ChatTurn:
        check_acting()  # a model may think for minutes
        passages = question.passages
        turn = ChatTurn(
            answered.content,
            answered.model,
            question.conversation_id,
            question.request.use_rag,
            tuple(map(to_source, passages.chunks)),
            passages.search,
            citations(answered.content, passages.chunks) if question.request.use_rag else (),
            passages.relevance,
            answered.prompt_tokens,
            answered.answer_tokens,
            answered.finish_reason,
        )
        if question.request.is_kept:
            self._remember(turn, question)
        return turn

    def _earlier(self, request: ChatRequest, asker: Asker) -> list[Message]:
        if not request.is_continued or request.conversation_id is None:
            return []
        remembered = self._history.messages(request.conversation_id, asker=asker)[-REMEMBERED_MESSAGES:]
        return [Message("user" if each.role == "user" else "assistant", each.content) for each in remembered]

    def _remember(self, turn: ChatTurn, question: Question) -> None:
        try:
            self._history.add_turn(
                turn.conversation_id,
                question.text,
                turn.answer,
                asker=question.asker,
                shared=question.request.shared,
                rag_used=turn.rag_used,
                rag_sources=turn.sources,
                since=question.began_at,
            )
        except RagError as error:
            log.warning("a conversation could not be kept", reason=error.message)


def with_context(messages: Sequence[Message], system: str | None, sources: Sequence[SimilarChunk]) -> list[Message]:
    """Return the messages to send to the model.

    The system prompt is `system`, else the text of the messages of that role. The retrieved chunks come before it, and
    sentences about them after it. Without system prompt and sources the messages stay as they are.
    """
    if system is None and not sources:
        return list(messages)
    said = [each.content for each in messages if each.role == "system"]
    original = "\n\n".join(said) if system is None else system
    block = context_block([(chunk.title, chunk.text) for chunk in sources])
    prompt = "\n\n".join(filter(None, (block, original, ABOUT_THE_BLOCK))) if sources else original
    others = [each for each in messages if each.role != "system"]
    return [Message("system", prompt), *others] if prompt else others


def _nothing_found(chat: ChatProvider, question: Question) -> ChatAnswer:
    """Return the answer that says so, under the name of the model that was not asked."""
    search, said = question.passages.search, NOTHING_FOUND
    if search is not None and search.receipt.is_short:
        said = NOT_ALL_ASKED if search.receipt.collections.asked else NONE_ASKED
    return ChatAnswer(said, question.request.model or chat.model)


@contextmanager
def _telling_that_it_is_unavailable() -> Iterator[None]:
    try:
        yield
    except (UnavailableError, ConfigurationError) as error:
        raise ChatUnavailableError(error) from error


def to_source(chunk: SimilarChunk) -> ChatSource:
    return ChatSource(
        chunk.text[:SHOWN_CHARACTERS],
        chunk.score,
        chunk.source,
        chunk.title,
        chunk.document_id,
        chunk.collection,
        chunk.relevance,
        {name: chunk.metadata[name] for name in PLACES if name in chunk.metadata},
    )
