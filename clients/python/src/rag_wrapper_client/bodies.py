"""Bodies of requests: JSON, lines of documents, and files, each sent in bounded memory."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import numpy as np

PIECE_BYTES = 1 << 16
PIECE_SECONDS = 0.1
"""How long lines are collected before they are sent: a slow source must not look like a dead client."""

Line = bytes
Source = Iterable[Any] | AsyncIterable[Any]


@dataclass(slots=True)
class Body:
    """The body of a request.

    What is a `source` of documents is read while it is sent. Only a source that can be read from its beginning again (a
    list, not a generator) may be sent twice. `fault` is what the source itself failed with.
    """

    content_type: str
    content: bytes | None = field(default=None, repr=False)  # it may hold a secret
    pieces_of: Callable[[], Iterator[bytes]] | None = None
    source: Source | None = field(default=None, repr=False)
    line_of: Callable[[Any], Line] | None = None
    fault: Exception | None = field(default=None, repr=False)

    @classmethod
    def of_json(cls, value: Any) -> Body:
        return cls("application/json", json_bytes(value))

    @classmethod
    def of_lines(cls, source: Source, line_of: Callable[[Any], Line]) -> Body:
        return cls("application/x-ndjson", source=source, line_of=line_of)

    @property
    def is_repeatable(self) -> bool:
        return self.source is None or (isinstance(self.source, Iterable) and not isinstance(self.source, Iterator))

    def pieces(self) -> Iterator[bytes]:
        """Yield the body from its beginning."""
        self.fault = None
        try:
            if self.content is not None:
                yield self.content
            elif self.pieces_of is not None:
                yield from self.pieces_of()
            elif isinstance(self.source, Iterable) and self.line_of is not None:
                yield from _collected(map(self.line_of, self.source))
            else:
                raise TypeError("an asynchronous source of documents needs the AsyncClient")
        except Exception as error:
            self.fault = error  # the HTTP library would take an OSError for one of the connection
            raise


def _collected(lines: Iterable[Line]) -> Iterator[bytes]:
    piece, begun = bytearray(), time.monotonic()
    for line in lines:
        piece += line
        if len(piece) >= PIECE_BYTES or time.monotonic() - begun > PIECE_SECONDS:
            yield bytes(piece)
            piece.clear()
            begun = time.monotonic()
    if piece:
        yield bytes(piece)


def json_bytes(value: Any) -> bytes:
    """Return a value as JSON. NumPy's numbers and arrays, which metadata may hold, are numbers and lists there."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, default=_plain).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be sent as JSON")


class FromLoop:
    """Reads an asynchronous source of documents from a thread, while its event loop runs."""

    def __init__(self, source: AsyncIterable[Any], loop: asyncio.AbstractEventLoop) -> None:
        self._items: AsyncIterator[Any] = aiter(source)
        self._loop = loop
        self._lock = threading.Lock()
        self._next: Future[list[Any]] | None = None
        self._is_given_up = False

    def __iter__(self) -> Iterator[Any]:
        while items := self._some():
            yield from items

    def give_up(self) -> None:
        """End the reading, from any thread."""
        with self._lock:
            self._is_given_up = True
            if self._next is not None:
                self._next.cancel()

    def _some(self) -> list[Any]:
        with self._lock:
            if self._is_given_up:
                return []
            self._next = asyncio.run_coroutine_threadsafe(self._taken(), self._loop)
        return self._next.result()

    async def _taken(self) -> list[Any]:
        """Return what arrives within a moment, at least one item unless the source has ended."""
        items: list[Any] = []
        begun = time.monotonic()
        async for item in self._items:
            items.append(item)
            if time.monotonic() - begun > PIECE_SECONDS or len(items) >= 256:
                break
        return items
