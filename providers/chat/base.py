"""The contract of a chat provider: messages in, an answer out, whole or as it is being said."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from providers.base import Provider, ProviderContext
from providers.chat.thoughts import Parting, leaves_tags_open, parted
from providers.models import UnknownModelError, checked_model, one_model
from providers.outbound.json_client import JsonClient, RetryPolicy
from providers.outbound.vendor_dialect import VendorDialect
from schemas.connections import ModelInfo
from schemas.contracts.chat import CONTENT_FILTER, LENGTH, STOP, Message, Thought
from schemas.errors import InvalidInputError, RagError, UnavailableError


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """An answer and the `model` that gave it. The server counts tokens; they are None when it does not say.
    `finish_reason` is STOP, LENGTH or CONTENT_FILTER, and `thoughts` is what the model thought before."""

    content: str
    model: str
    prompt_tokens: int | None = None
    answer_tokens: int | None = None
    finish_reason: str = STOP
    thoughts: str = ""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a streamed answer, with None for what it does not tell; `is_last` says that the answer is whole."""

    text: str | None = None
    is_last: bool = False
    model: str | None = None
    prompt_tokens: int | None = None
    answer_tokens: int | None = None
    finish_reason: str | None = None
    thought: str | None = None

    @property
    def is_begun(self) -> bool:
        """Whether the answer has begun with this piece, or ends with it."""
        return self.is_last or is_visible(self.text)


IsUnwanted = Callable[[], bool]
Said = Generator[str | Thought | ChatAnswer]
"""A streamed answer."""
MAX_ANSWER_CHARACTERS = 1_000_000
"""The most characters of a streamed answer: some 250,000 tokens, more than any model says at once."""
LENGTHS = ("max_tokens", "max_completion_tokens", "num_predict")
"""The names that servers have for the limit of an answer's length."""
THOUGHTS = ("reasoning_content", "reasoning", "thinking")
"""The names that servers have for thoughts beside the text."""
ENDED = {
    *("stop", "eos", "eos_token", "end", "end_turn", "stop_sequence", "complete", "completed", "done"),
    *("tool_calls", "tool_call", "tool_use", "function_call"),
}
"""The words of servers for an answer that is whole. Models are offered no tools, so none has to be called."""
FILTERED = re.compile("filter|safety|recitation|block|prohibited|refus|guardrail|toxic|sensitive|spii")
BROKEN = re.compile("error|abort|cancel")
FAILED = "error"
UNUSABLE_ANSWER = "chat_answer_unusable"
"""The code of the error for an answer without a message."""


class ChatProvider(Provider):
    """The models of one server, usable by several threads; `model` answers when a call names none. A failed request is
    sent once more only: asking again and again does not help a model that has begun to think."""

    kind = "llm"
    retry: ClassVar[RetryPolicy] = RetryPolicy(attempts=2)

    def __init__(
        self, config: Mapping[str, Any], context: ProviderContext | None = None, *, retry: RetryPolicy | None = None
    ) -> None:
        super().__init__(config, context)
        self.model: str = self.config["model"]
        self._service = JsonClient(
            self.config["url"],
            VendorDialect("chat service", self.id),
            network=self.context.network,
            redactor=self.context.redactor,
            api_key=self.config.get("api_key"),
            timeout_seconds=self.config["timeout_seconds"],
            retry=retry or self.retry,
        )
        self._tags_open: set[str] = set()
        """The models that were seen to begin with thoughts without a tag."""

    def close(self) -> None:
        self._service.close()

    def chat(
        self,
        messages: Sequence[Message],
        *,
        model: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> ChatAnswer:
        """Return the model's answer, with its thoughts apart wherever they were.

        `options` belong to the model and are passed on under the names its server has for them; `max_tokens` and
        `num_predict` mean the same everywhere. A temperature or length that they leave out comes from the
        configuration, else from the model.

        Raises InvalidInputError without messages, when the model refuses them, or when the provider has no such model;
        UnavailableError when there is no usable answer now; ConfigurationError when there will be none until an
        operator changes something. `details.error_type` is as in embedding providers.
        """
        asked, said = _as_sent(messages), self._with_configured(options or {})
        if model is None or model == self.model:
            return self._said(self._chat(asked, said), self.model)
        return self._said(self._chat_by(checked_model(model), asked, said), model)

    def stream(
        self,
        messages: Sequence[Message],
        *,
        model: str | None = None,
        options: Mapping[str, Any] | None = None,
        is_unwanted: IsUnwanted | None = None,
    ) -> Said:
        """Yield the model's thoughts and the text of its answer in pieces as they arrive, and at last the answer as a
        whole. Of a model that leaves the tag of its thoughts open, all is held back until they end.

        Closing the iterator ends the request to the server. So does `is_unwanted`, which another thread asks while the
        server is silent. Raises what `chat` raises, and while the pieces are read UnavailableError when the answer
        breaks off.
        """
        asked, said = _as_sent(messages), self._with_configured(options or {})
        if model is None or model == self.model:
            return self._with_clean_errors(self._parted(self._stream(asked, said, is_unwanted), self.model))
        pieces = self._stream_by(checked_model(model), asked, said, is_unwanted)
        return self._with_clean_errors(self._parted(pieces, model))

    def models(self) -> list[ModelInfo]:
        """Return the provider's models for chat, by id. Raise what `chat` raises."""
        return [one_model(self.model, self.kind, None, self.description)]

    def try_out(self) -> dict[str, Any]:
        asked = _as_sent([Message("user", "Say yes.")])
        answer = self._chat(asked, self._with_configured({"max_tokens": 1}))
        if answer.finish_reason != LENGTH and not is_visible(answer.content):
            # One token may be of no text, or a thought, and not every server says that its limit cut the answer.
            answer = self._said(self._chat(asked, self._with_configured({})), self.model)
        return {"model": answer.model}

    @abstractmethod
    def _chat(self, messages: list[dict[str, str]], options: dict[str, Any]) -> ChatAnswer:
        """Ask the connection's own model."""

    def _chat_by(self, model: str, messages: list[dict[str, str]], options: dict[str, Any]) -> ChatAnswer:
        """Ask another model. A provider that has only one leaves this as it is."""
        raise UnknownModelError(self.id, model, self.model)

    def _stream(self, messages: list[dict[str, str]], options: dict[str, Any], is_unwanted: IsUnwanted | None) -> Said:
        """Ask the connection's own model. A provider that does not stream leaves this as it is: one piece is all."""
        return self._in_one_piece(lambda: self._chat(messages, options))

    def _stream_by(
        self, model: str, messages: list[dict[str, str]], options: dict[str, Any], is_unwanted: IsUnwanted | None
    ) -> Said:
        """Ask another model, likewise."""
        return self._in_one_piece(lambda: self._chat_by(model, messages, options))

    def _with_clean_errors(self, pieces: Said) -> Said:
        """Have errors cleaned of secrets as those of every method are, although they come later."""
        try:
            yield from pieces
        except RagError as error:
            self.context.redactor.clean(error)
            raise

    def _parted(self, pieces: Said, model: str) -> Said:
        """Part the thoughts of a model from its text."""
        parting = Parting(holds=model in self._tags_open or leaves_tags_open(model))
        has_begun = False
        with closing(pieces):
            for piece in pieces:
                if isinstance(piece, Thought):
                    parting.holds = False
                    yield piece
                    continue
                thought, text = parting.rest() if isinstance(piece, ChatAnswer) else parting.take(piece)
                if thought:
                    yield Thought(thought)
                whole = self._said(piece, model) if isinstance(piece, ChatAnswer) else None
                if whole is not None and not has_begun:
                    text = whole.content
                if text and (has_begun or is_visible(text)):
                    has_begun = True
                    yield text
                if whole is not None:
                    yield whole

    def _told(self, model: str, pieces: Iterable[Piece]) -> Said:
        """Yield the thoughts and texts of the pieces, the latter from the first that can be seen on, and at last the
        whole. `model` answers unless a piece says which does. Raises UnavailableError when there is no last piece, or
        too much text."""
        texts: list[str] = []
        thoughts: list[str] = []
        length, is_whole, is_begun = 0, False, False
        prompt_tokens = answer_tokens = None
        finish_reason = STOP
        for piece in pieces:
            finish_reason = piece.finish_reason or finish_reason
            is_whole = is_whole or piece.is_last
            model = piece.model or model
            prompt_tokens = prompt_tokens if piece.prompt_tokens is None else piece.prompt_tokens
            answer_tokens = answer_tokens if piece.answer_tokens is None else piece.answer_tokens
            length += len(piece.text or "") + len(piece.thought or "")
            if length > MAX_ANSWER_CHARACTERS:
                raise self._unusable(f"more than {MAX_ANSWER_CHARACTERS} characters")
            if piece.thought:
                thoughts.append(piece.thought)
                yield Thought(piece.thought)
            if piece.text is None:
                continue
            texts.append(piece.text)
            if is_begun and piece.text:
                yield piece.text
            elif not is_begun and is_visible(piece.text):
                is_begun = True
                yield "".join(texts)
        if not is_whole:
            raise self._unusable("only a part of a message")
        said, thought = "".join(texts), "".join(thoughts)
        yield ChatAnswer(said, model, prompt_tokens, answer_tokens, finish_reason, thought)

    def _in_one_piece(self, ask: Callable[[], ChatAnswer]) -> Said:
        yield ask()

    def _said(self, answer: ChatAnswer, model: str) -> ChatAnswer:
        """Return an answer that says something to its end, without the thoughts in it; `model` was asked. Raises
        UnavailableError for another one."""
        if answer.finish_reason == FAILED:
            raise self._unusable("an error instead of the end of a message")
        thought, content, was_unopened = parted(answer.content)
        if was_unopened:
            self._tags_open.add(model)
        if is_visible(content):
            return replace(answer, content=content, thoughts=f"{answer.thoughts}{thought}".strip())
        what = "with thoughts and without a message" if answer.thoughts or thought else "without a message"
        why = "" if answer.finish_reason == STOP else f" (finish_reason {answer.finish_reason})"
        raise self._unusable(f"{what}{why}")

    def _with_configured(self, options: Mapping[str, Any]) -> dict[str, Any]:
        said = dict(options)
        for name, same in (("temperature", ("temperature",)), ("max_tokens", LENGTHS)):
            if self.config.get(name) is not None and said.keys().isdisjoint(same):
                said[name] = self.config[name]
        return said

    def _unusable(self, what: str) -> UnavailableError:
        return UnavailableError(
            f"The chat service '{self.id}' answered {what}",
            code=UNUSABLE_ANSWER,
            provider=self.id,
            error_type="unknown",
        )


def _as_sent(messages: Sequence[Message]) -> list[dict[str, str]]:
    if not messages:
        raise InvalidInputError("messages must not be empty", field="messages")
    return [{"role": message.role, "content": message.content} for message in messages]


def member(value: Any, *path: str | int) -> Any:
    """Return what lies at a path of a decoded answer, None when the path ends early."""
    for step in path:
        if isinstance(step, int):
            value = value[step] if isinstance(value, list) and len(value) > step else None
        else:
            value = value.get(step) if isinstance(value, dict) else None
    return value


def text_said(content: Any) -> str | None:
    """Return the text of a message, which some servers write as a list of parts; None when there is none."""
    if not isinstance(content, list):
        return content if isinstance(content, str) else None
    texts = [text for part in content if isinstance(text := member(part, "text"), str)]
    return "".join(texts) if texts else None


def thought_said(message: Any) -> str | None:
    """Return what a message, or a part of one, says of thoughts beside its text; None when it says nothing."""
    return next((said for name in THOUGHTS if isinstance(said := member(message, name), str)), None)


def model_said(event: Mapping[str, Any]) -> str | None:
    """Return the model that a streamed answer names, None when it names none."""
    model = event.get("model")
    return model if isinstance(model, str) and model else None


def finish_said(value: Any) -> str | None:
    """Return why an answer ends, as in `ChatAnswer`, or that it FAILED, and None where that is not said. A reason that
    is not known is LENGTH: the answer may not be whole."""
    reason = "" if value is None else str(value).casefold()
    if not reason:
        return None
    if reason in ENDED:
        return STOP
    if FILTERED.search(reason):
        return CONTENT_FILTER
    return FAILED if BROKEN.search(reason) else LENGTH


def is_visible(text: str | None) -> bool:
    """Return whether a text has anything to read in it, beside blanks and characters without a shape."""
    return any(c.isprintable() and not c.isspace() for c in text or "")


def token_count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
