"""Answers of the chat model, with retrieved context when the caller wants it (contract *documents*, §2.3)."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import cast

import structlog

from providers.chat.base import ChatAnswer, ChatProvider, Said
from providers.outbound.refusals import exceeds_context
from registry.connections import Connections
from registry.topics.topic import searched_text
from retrieval.chat.citations import citations, plainly
from retrieval.chat.history import ChatHistory
from retrieval.documents.stored_documents import to_where
from retrieval.documents.text_document_store import similar_chunk
from retrieval.quoting import BLOCK_IS_DATA, HOW_TO_CITE, context_block
from retrieval.search.engine import SearchEngine, search_by_meaning
from schemas.access.callers import check_acting
from schemas.access.owners import Asker
from schemas.access.turns import waiting_for
from schemas.contracts.chat import (
    CONTENT_FILTER,
    LENGTH,
    PLACES,
    SHOWN_CHARACTERS,
    STOP,
    ChatRequest,
    ChatSearch,
    ChatSource,
    ChatTurn,
    Conversation,
    Message,
    Thought,
)
from schemas.contracts.search import SearchRequest
from schemas.contracts.text_documents import SimilarChunk
from schemas.errors import ConfigurationError, RagError, UnavailableError
from schemas.settings import RetrievalSettings
from schemas.storage.erasure_count import UNKNOWN
from schemas.where import all_of

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
NOT_WHOLE = {
    LENGTH: "The answer is not whole: the model has come to the limit of its length",
    CONTENT_FILTER: "The answer is not whole: the chat service has held back the rest of it",
}
REMARK = "\n\n[This answer was not whole.]"
"""What the model is told of such an answer when the conversation goes on."""
MOST_TRIES = 3
"""How often a model is asked at most, each time with half of the passages, while they are more than it reads."""


class ChatUnavailableError(UnavailableError):
    """No chat model is configured, or it does not answer. It passes when its cause does."""

    code = "chat_unavailable"

    def __init__(self, cause: RagError) -> None:
        super().__init__(cause.message, **cause.details)
        self.retry_after_seconds = cause.retry_after_seconds


@dataclass(frozen=True, slots=True)
class Question:
    """A request whose question is known, with all messages of its conversation, of which the first so many are
    `remembered`, and the passages found for it. `began_at` is the count of erasures before anything was read."""

    request: ChatRequest
    asker: Asker
    text: str
    messages: Sequence[Message]
    remembered: int
    conversation_id: str
    passages: Passages
    began_at: int

    def shortened(self) -> Question | None:
        """Return the same with half of the passages and of what is remembered, None where there is nothing to leave
        out."""
        chunks = self.passages.chunks
        dropped = min(self.remembered, (self.remembered + 3) // 4 * 2)  # in pairs, of a question and its answer
        if len(chunks) < 2 and not dropped:
            return None
        return replace(
            self,
            messages=self.messages[dropped:],
            remembered=self.remembered - dropped,
            passages=replace(self.passages, chunks=chunks[: (len(chunks) + 1) // 2]),
        )


class Chat:
    """Answers chat requests through a connection, the service's unless one is named; safe for use by several threads.

    With `says_so` a request for retrieval for which nothing relevant is found is answered by `NOTHING_FOUND`,
    `NOT_ALL_ASKED` or `NONE_ASKED`, and the model is not asked. What a model thinks is told only with
    `shows_thoughts`, and never kept.
    """

    def __init__(
        self,
        connections: Connections,
        passages: ChatPassages,
        history: ChatHistory,
        *,
        says_so: bool,
        shows_thoughts: bool = False,
    ) -> None:
        self._connections = connections
        self._passages = passages
        self._history = history
        self._says_so = says_so
        self._shows_thoughts = shows_thoughts

    def answer(self, request: ChatRequest, *, asker: Asker) -> ChatTurn:
        """Return the model's answer and store it in its conversation, unless something was erased meanwhile.

        Raises ChatUnavailableError when no chat model answers, InvalidInputError when the request is not valid, what
        `Connections.named` raises for the connection that it names, and what `SearchEngine.search` raises:
        without the context that it asked for, a request gets no answer.
        """

        def ask(chat: ChatProvider, messages: list[Message]) -> Said:
            yield chat.chat(messages, model=request.model, options=request.options)

        *_, turn = self._turns(request, asker, ask)
        assert isinstance(turn, ChatTurn)
        return turn

    def stream(
        self, request: ChatRequest, *, asker: Asker, is_unwanted: Callable[[], bool] | None = None
    ) -> Generator[str | Thought | ChatTurn]:
        """Yield the pieces of the answer as the model says them, and at last the turn, which is stored by then.

        A turn that does not come to its end is not stored: closing the iterator before, or `is_unwanted`, which another
        thread asks, ends the request to the model. Raises what `answer` raises.
        """

        def ask(chat: ChatProvider, messages: list[Message]) -> Said:
            yield from chat.stream(messages, model=request.model, options=request.options, is_unwanted=is_unwanted)

        return self._turns(request, asker, ask)

    def _turns(
        self,
        request: ChatRequest,
        asker: Asker,
        ask: Callable[[ChatProvider, list[Message]], Said],
    ) -> Generator[str | Thought | ChatTurn]:
        connection, chat = self._connected(request)
        question = self._question(request, asker)
        if request.use_rag and self._says_so and not question.passages.chunks:
            nothing = _nothing_found(chat, question)
            yield nothing.content
            yield self._turn(question, nothing)
            return
        waiting = waiting_for(lambda: self._connections.elsewhere([connection]))
        with waiting, closing(_asked(question, lambda messages: ask(chat, messages))) as parts:
            for part in parts:
                if isinstance(part, tuple):
                    yield self._turn(*part)
                elif self._shows_thoughts or isinstance(part, str):
                    yield part

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

    def _question(self, request: ChatRequest, asker: Asker) -> Question:
        asked = next(each.content for each in reversed(request.messages) if each.role == "user")
        conversation_id = request.conversation_id or str(uuid.uuid4())
        began_at = self._erasures()
        earlier = self._earlier(request, asker)
        messages = (*earlier, *request.messages)
        passages = self._passages.find(request, messages, asker) if request.use_rag else Passages()
        check_acting()  # before a model is paid and told of documents: embedding may have taken long
        return Question(request, asker, asked, messages, len(earlier), conversation_id, passages, began_at)

    def _erasures(self) -> int:
        try:
            return self._history.erasures()
        except RagError:  # what can be answered without the catalogue is, and not stored
            return UNKNOWN

    def _turn(self, question: Question, answered: ChatAnswer, notes: tuple[str, ...] = ()) -> ChatTurn:
        check_acting()  # a model may think for minutes
        passages = question.passages
        is_not_whole = NOT_WHOLE.get(answered.finish_reason)
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
            answered.thoughts if self._shows_thoughts else "",
            (*notes, *([is_not_whole] if is_not_whole else [])),
        )
        if question.request.is_kept:
            self._remember(turn, question)
        return turn

    def _earlier(self, request: ChatRequest, asker: Asker) -> list[Message]:
        if not request.is_continued or request.conversation_id is None:
            return []
        remembered = self._history.messages(request.conversation_id, asker=asker)[-REMEMBERED_MESSAGES:]
        return [
            Message(
                "user" if each.role == "user" else "assistant", each.content + REMARK * (each.finish_reason != STOP)
            )
            for each in remembered
        ]

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
                finish_reason=turn.finish_reason,
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


def _asked(
    question: Question, ask: Callable[[list[Message]], Said]
) -> Generator[str | Thought | tuple[Question, ChatAnswer, tuple[str, ...]]]:
    """Yield the pieces of an answer, and at last (the question as it was asked, the answer, notes on what was left out
    of it). Where all that was found is more than the model reads, half of it is asked, and half of that."""
    found, remembered = len(question.passages.chunks), question.remembered
    for tries_left in reversed(range(MOST_TRIES)):
        messages = with_context(question.messages, question.request.system, question.passages.chunks)
        has_begun = False
        try:
            with closing(_telling_that_it_is_unavailable(ask(messages))) as pieces:
                for piece in plainly(pieces) if question.request.use_rag else pieces:
                    has_begun = True
                    if isinstance(piece, ChatAnswer):
                        yield question, piece, _left_out(question, found, remembered)
                    else:
                        yield piece
            return
        except RagError as error:
            shortened = question.shortened()
            if has_begun or not tries_left or shortened is None or not exceeds_context(error):
                raise
            log.warning("a question is asked again with less: the chat model reads no more", reason=error.message)
            question = shortened


def _left_out(question: Question, found: int, remembered: int) -> tuple[str, ...]:
    """Return a sentence on the passages, and one on the messages, that a question was asked without."""
    said = []
    if (sent := len(question.passages.chunks)) < found:
        said.append(f"Only the first {sent} of {found} passages were asked: the chat model reads no more at once")
    if question.remembered < remembered:
        sent, all_of = question.remembered, remembered
        said.append(
            f"Only the last {sent} of {all_of} earlier messages were asked: the chat model reads no more at once"
        )
    return tuple(said)


def _telling_that_it_is_unavailable(pieces: Said) -> Said:
    try:
        yield from pieces
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


@dataclass(frozen=True, slots=True)
class Passages:
    """What was found for a question: the passages that are relevant enough, best first, and the greatest relevance of
    them. A passage whose relevance cannot be told is relevant enough."""

    chunks: Sequence[SimilarChunk] = ()
    relevance: float | None = None
    search: ChatSearch | None = None


class ChatPassages:
    """Finds passages for chat requests; safe for use by several threads.

    They are those of `engine`, or with `chat_by_meaning` those nearest by meaning alone. With `chat_says_so`, requests
    that do not say how relevant they must be get what the search thinks relevant, and else the best that there is.
    """

    def __init__(self, engine: SearchEngine, settings: RetrievalSettings) -> None:
        self._engine = engine
        self._only_relevant = settings.chat_says_so
        self._by_meaning = settings.chat_by_meaning

    def find(self, request: ChatRequest, messages: Sequence[Message], asker: Asker) -> Passages:
        """Return the passages for the last of the messages. Raises what `SearchEngine.search` raises."""
        strategy, text = searched_text([each.content for each in messages if each.role == "user"])
        wanted = SearchRequest(
            text,
            limit=request.rag_top_k,
            collections=request.collections,
            where=all_of(to_where(request.rag_filters), request.where),
            min_relevance=0.0 if request.min_relevance is None and not self._only_relevant else request.min_relevance,
            rerank=request.rerank,
            max_per_document=request.max_per_document,
            asker=asker,
        )
        answer = search_by_meaning(self._engine, wanted) if self._by_meaning else self._engine.search(wanted)
        chunks = [similar_chunk(each) for each in answer.results]
        known = [each.relevance for each in chunks if each.relevance is not None]
        return Passages(
            chunks,
            max(known, default=None),
            ChatSearch(strategy.value, answer.receipt.asked_text or text, answer.receipt),
        )
