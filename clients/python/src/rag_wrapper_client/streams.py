"""Answers that are read while they arrive: lines of documents, events of a chat, bytes of a file."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

from rag_wrapper_client.errors import UnusableAnswerError, event_error
from rag_wrapper_client.exchanges import Exchange, Reply, Request

T = TypeVar("T")


class Decoder(Protocol[T]):
    """Makes items of the pieces of an answer."""

    def take(self, piece: bytes) -> list[T]:
        """Return the items that are complete with this piece."""

    def end(self) -> list[T]:
        """Return what is left at the end. Raises UnusableAnswerError when the answer was cut off."""


@dataclass(frozen=True, slots=True)
class Opening(Generic[T]):
    """A request whose answer is read item by item, and what reads it, given the headers of the answer."""

    request: Request
    decoder: Callable[[Mapping[str, str]], Decoder[T]]

    def exchange(self) -> Exchange[Reply]:
        """Return the reply once its head is there."""
        reply = yield replace(self.request, is_streamed=True)
        if reply is None:
            raise RuntimeError("a request was not sent")
        return reply


class ByteDecoder:
    """Gives the pieces as they are."""

    def take(self, piece: bytes) -> list[bytes]:
        return [piece]

    def end(self) -> list[bytes]:
        return []


class LineDecoder(Generic[T]):
    """Reads one JSON value a line. `count` is how many there must be, None when nobody has said."""

    def __init__(self, item_of: Callable[[Any], T], count: int | None) -> None:
        self._item_of = item_of
        self._count = count
        self._begun = bytearray()
        self._given = 0

    def take(self, piece: bytes) -> list[T]:
        self._begun += piece
        whole, newline, rest = bytes(self._begun).rpartition(b"\n")
        if not newline:
            return []
        self._begun = bytearray(rest)
        return self._items(whole)

    def end(self) -> list[T]:
        items = self._items(bytes(self._begun))
        if self._count is not None and self._given != self._count:
            message = f"The stream ended after {self._given} of {self._count} lines"
            raise UnusableAnswerError(message, code="stream_cut_short")
        return items

    def _items(self, lines: bytes) -> list[T]:
        try:
            items = [self._item(json.loads(line)) for line in lines.split(b"\n") if line.strip()]
        except ValueError as error:
            raise UnusableAnswerError("A line of the stream is not JSON", code="answer_unusable") from error
        self._given += len(items)
        return items

    def _item(self, line: Any) -> T:
        return self._item_of(line)


class ChangeDecoder(LineDecoder[T]):
    """Reads lines up to the last one, which has `next`: without it the answer was cut off."""

    def __init__(self, item_of: Callable[[Any], T]) -> None:
        super().__init__(item_of, None)
        self._has_ended = False

    def end(self) -> list[T]:
        items = super().end()
        if not self._has_ended:
            raise UnusableAnswerError("The changes ended before their last line", code="stream_cut_short")
        return items

    def _item(self, line: Any) -> T:
        self._has_ended = "next" in line
        return super()._item(line)


class EventDecoder(Generic[T]):
    """Reads server-sent events whose data is a JSON object, up to the one that says `done`. One that tells of an error
    is raised."""

    def __init__(self, event_of: Callable[[Any], T]) -> None:
        self._event_of = event_of
        self._begun = bytearray()
        self._is_done = False

    def take(self, piece: bytes) -> list[T]:
        self._begun += piece
        *events, rest = bytes(self._begun).replace(b"\r\n", b"\n").split(b"\n\n")
        self._begun = bytearray(rest)
        return [self._event(data) for data in map(_data_of, events) if data]

    def end(self) -> list[T]:
        if not self._is_done:
            raise UnusableAnswerError("The stream ended before it was done", code="stream_cut_short")
        return []

    def _event(self, data: bytes) -> T:
        try:
            event = json.loads(data)
        except ValueError as error:
            raise UnusableAnswerError("An event of the stream is not JSON", code="answer_unusable") from error
        if "error" in event and not event.get("done"):
            raise event_error(event)
        self._is_done = self._is_done or bool(event.get("done"))
        return self._event_of(event)


def _data_of(event: bytes) -> bytes:
    lines = (line.removeprefix(b"data:").strip() for line in event.split(b"\n") if line.startswith(b"data:"))
    return b"\n".join(lines)
