"""The async client.

It runs the sync transport in a bounded pool of threads of its own: `requests` is the only HTTP library that the
package needs, proxies and certificates work the same in both clients, and no other program's threads are used up.
Everything else (repeats, pauses, polling, paging) runs in the event loop, so that what waits holds no thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import requests

from rag_wrapper_client.bodies import FromLoop
from rag_wrapper_client.connections import GivingUp
from rag_wrapper_client.errors import ConnectionFailedError
from rag_wrapper_client.exchanges import Answer, Attempts, Exchange, Reply, Request, Wait, attempted
from rag_wrapper_client.iterators import AsyncItems, AsyncPages
from rag_wrapper_client.methods import Methods
from rag_wrapper_client.operations import AsyncAnswers, AsyncFace
from rag_wrapper_client.pages import Listing, Page
from rag_wrapper_client.retries import Retry
from rag_wrapper_client.streams import Opening
from rag_wrapper_client.transport import ApiKey, Transport


class AsyncClient(Methods, AsyncFace):
    """A client of the service at `url`, for one event loop. Its arguments are those of `Client`; at most `connections`
    requests are under way at once, the others wait.

    A method that is cancelled ends at once, and so does its connection. What the service had begun it may finish. In a
    `session` of your own, the thread waits until the answer arrives or the timeout is over.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:5006",
        api_key: ApiKey = None,
        *,
        database: str | None = None,
        timeout_seconds: float = 120.0,
        connect_seconds: float = 10.0,
        retry: Retry | None = None,
        connections: int = 10,
        verify: bool | str | None = None,
        session: requests.Session | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._transport = Transport(
            url,
            api_key,
            database=database,
            timeout_seconds=timeout_seconds,
            connect_seconds=connect_seconds,
            connections=connections,
            verify=verify,
            session=session,
        )
        self._retry = retry or Retry()
        self._sleep = sleep
        self._threads = ThreadPoolExecutor(connections, thread_name_prefix="rag-wrapper-client")

    @property
    def url(self) -> str:
        """The address of the service, without a slash at its end."""
        return self._transport.url

    @property
    def with_answer(self) -> AsyncClientAnswers:
        """The same methods, which give an `Answer`: the result with the status, the ETag and the other headers."""
        return AsyncClientAnswers(self)

    async def aclose(self) -> None:
        """Close the connections. What is still under way is left alone."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"AsyncClient({self.url!r})"

    async def _carry_out(self, exchange: Exchange[Any]) -> Any:
        return (await self._answer_of(exchange))[0]

    async def _answer_of(self, exchange: Exchange[Any]) -> tuple[Any, Reply | None]:
        """Return the result of an exchange and the last reply in it."""
        attempts: Attempts[Any] = attempted(exchange, self._retry)
        last: Reply | None = None
        try:
            step = next(attempts)
            while True:
                if isinstance(step, Wait):
                    await self._sleep(step.seconds)
                    step = attempts.send(None)
                    continue
                outcome = await self._sent(step)
                last = outcome if isinstance(outcome, Reply) else last
                step = attempts.send(outcome)
        except StopIteration as end:
            return end.value, last

    async def _sent(self, request: Request) -> Reply | ConnectionFailedError:
        loop = asyncio.get_running_loop()
        documents: FromLoop | None = None
        if request.body is not None and isinstance(request.body.source, AsyncIterable):
            documents = FromLoop(request.body.source, loop)
            request = replace(request, body=replace(request.body, source=documents))
        giving_up = GivingUp()
        sending = self._threads.submit(self._transport.send, request, giving_up)
        try:
            return await asyncio.wrap_future(sending)
        except asyncio.CancelledError:
            giving_up.ask()
            if documents is not None:
                documents.give_up()
            sending.add_done_callback(_let_go)
            raise

    def _list(self, listing: Listing[Any]) -> AsyncPages[Any]:
        async def page_at(cursor: str | None) -> Page[Any]:
            page: Page[Any] = await self._carry_out(listing.page_at(cursor))
            return page

        return AsyncPages(page_at)

    def _open(self, opening: Opening[Any]) -> AsyncItems[Any]:
        return AsyncItems(opening, _Reading(self, opening))


class AsyncClientAnswers(Methods, AsyncAnswers):
    """The methods of a client, which here give an `Answer`."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def _carry_out(self, exchange: Exchange[Any]) -> Answer[Any]:
        value, reply = await self._client._answer_of(exchange)
        return Answer(value, 0 if reply is None else reply.status, {} if reply is None else reply.headers)


class _Reading:
    """Reads one stream in the threads of a client."""

    def __init__(self, client: AsyncClient, opening: Opening[Any]) -> None:
        self._client = client
        self._opening = opening

    async def opened(self) -> Reply:
        reply: Reply = await self._client._carry_out(self._opening.exchange())
        return reply

    async def read(self, reply: Reply) -> bytes:
        if reply.pieces is None:
            return b""
        return await asyncio.get_running_loop().run_in_executor(self._client._threads, reply.pieces.read)

    async def closed(self, reply: Reply) -> None:
        if reply.pieces is not None:
            reply.pieces.give_up()
            with suppress(RuntimeError):  # the client was closed before
                self._client._threads.submit(reply.pieces.close)


def _let_go(sending: Future[Any]) -> None:
    """Close an answer that nobody waits for any more."""
    if sending.cancelled() or sending.exception() is not None:
        return
    outcome = sending.result()
    if isinstance(outcome, Reply) and outcome.pieces is not None:
        outcome.pieces.close()
