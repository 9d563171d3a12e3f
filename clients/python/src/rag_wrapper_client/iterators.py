"""What pages and streams are read with, one kind for each client."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator, Iterator
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from rag_wrapper_client.exchanges import Pieces, Reply
from rag_wrapper_client.pages import Page
from rag_wrapper_client.streams import Decoder, Opening

T = TypeVar("T")


class Pages(Generic[T]):
    """The items of a listing, read page by page as they are consumed. `pages()` gives the pages themselves."""

    def __init__(self, page_at: Callable[[str | None], Page[T]]) -> None:
        self._page_at = page_at

    def __iter__(self) -> Iterator[T]:
        for page in self.pages():
            yield from page.items

    def pages(self, cursor: str | None = None) -> Iterator[Page[T]]:
        """Yield the pages, from a cursor that was kept, or from the first one."""
        while True:
            page = self._page_at(cursor)
            yield page
            if page.cursor is None:
                return
            cursor = page.cursor

    def first(self) -> Page[T]:
        """Return the first page."""
        return self._page_at(None)


class AsyncPages(Generic[T]):
    """The items of a listing, read page by page as they are consumed. `pages()` gives the pages themselves."""

    def __init__(self, page_at: Callable[[str | None], Coroutine[Any, Any, Page[T]]]) -> None:
        self._page_at = page_at

    async def __aiter__(self) -> AsyncIterator[T]:
        async for page in self.pages():
            for item in page.items:
                yield item

    async def pages(self, cursor: str | None = None) -> AsyncIterator[Page[T]]:
        """Yield the pages, from a cursor that was kept, or from the first one."""
        while True:
            page = await self._page_at(cursor)
            yield page
            if page.cursor is None:
                return
            cursor = page.cursor

    async def first(self) -> Page[T]:
        """Return the first page."""
        return await self._page_at(None)


class Items(Generic[T]):
    """The items of an answer while it arrives. The request is sent when the first one is asked for; leave the rest
    with `close()`, or use it in a `with` block."""

    def __init__(self, opening: Opening[T], opened: Callable[[], Reply]) -> None:
        self._opening = opening
        self._opened = opened
        self._items = self._read()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        return next(self._items)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the answer; nothing more is read of it."""
        self._items.close()

    def _read(self) -> Generator[T, None, None]:
        pieces, decoder = _parts(self._opened(), self._opening)
        try:
            while piece := pieces.read():
                yield from decoder.take(piece)
            yield from decoder.end()
        finally:
            pieces.close()


class AsyncReading(Protocol):
    """What an asynchronous client does for a stream."""

    async def opened(self) -> Reply: ...

    async def read(self, reply: Reply) -> bytes: ...

    async def closed(self, reply: Reply) -> None: ...


class AsyncItems(Generic[T]):
    """The items of an answer while it arrives. The request is sent when the first one is asked for; leave the rest
    with `aclose()`, or use it in an `async with` block."""

    def __init__(self, opening: Opening[T], reading: AsyncReading) -> None:
        self._opening = opening
        self._reading = reading
        self._items = self._read()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        return await anext(self._items)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End the answer; nothing more is read of it."""
        await self._items.aclose()

    async def _read(self) -> AsyncGenerator[T, None]:
        reply = await self._reading.opened()
        decoder = _parts(reply, self._opening)[1]
        try:
            while piece := await self._reading.read(reply):
                for item in decoder.take(piece):
                    yield item
            for item in decoder.end():
                yield item
        finally:
            await self._reading.closed(reply)


def _parts(reply: Reply, opening: Opening[T]) -> tuple[Pieces, Decoder[T]]:
    if reply.pieces is None:
        raise RuntimeError("the answer was not opened as a stream")
    return reply.pieces, opening.decoder(reply.headers)
