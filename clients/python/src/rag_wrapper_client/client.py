"""The sync client."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import requests

from rag_wrapper_client.exchanges import Answer, Attempts, Exchange, Reply, Wait, attempted
from rag_wrapper_client.iterators import Items, Pages
from rag_wrapper_client.methods import Methods
from rag_wrapper_client.operations import SyncAnswers, SyncFace
from rag_wrapper_client.pages import Listing
from rag_wrapper_client.retries import Retry
from rag_wrapper_client.streams import Opening
from rag_wrapper_client.transport import ApiKey, Transport


class Client(Methods, SyncFace):
    """A client of the service at `url`; usable by several threads.

    `api_key` may be a function that returns the key of the moment. `database` (`tenant/database`, or one of the default
    tenant alone) is sent with every request: collections are those of that database, and what serves the default one
    alone is refused. `timeout_seconds` is how long the service may be
    silent, `connect_seconds` how long connecting may take. `connections` are kept open. `verify` is the file of a
    certificate authority, or False. A `session` of your own is used as it is, and not closed. `sleep` waits between
    attempts.
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
        sleep: Callable[[float], None] = time.sleep,
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

    @property
    def url(self) -> str:
        """The address of the service, without a slash at its end."""
        return self._transport.url

    @property
    def with_answer(self) -> ClientAnswers:
        """The same methods, which give an `Answer`: the result with the status, the ETag and the other headers."""
        return ClientAnswers(self)

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    def _carry_out(self, exchange: Exchange[Any]) -> Any:
        return self._answer_of(exchange)[0]

    def _answer_of(self, exchange: Exchange[Any]) -> tuple[Any, Reply | None]:
        """Return the result of an exchange and the last reply in it."""
        attempts: Attempts[Any] = attempted(exchange, self._retry)
        last: Reply | None = None
        try:
            step = next(attempts)
            while True:
                if isinstance(step, Wait):
                    self._sleep(step.seconds)
                    step = attempts.send(None)
                    continue
                outcome = self._transport.send(step)
                last = outcome if isinstance(outcome, Reply) else last
                step = attempts.send(outcome)
        except StopIteration as end:
            return end.value, last

    def _list(self, listing: Listing[Any]) -> Pages[Any]:
        return Pages(lambda cursor: self._carry_out(listing.page_at(cursor)))

    def _open(self, opening: Opening[Any]) -> Items[Any]:
        def opened() -> Reply:
            reply: Reply = self._carry_out(opening.exchange())
            return reply

        return Items(opening, opened)


class ClientAnswers(Methods, SyncAnswers):
    """The methods of a client, which here give an `Answer`."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def _carry_out(self, exchange: Exchange[Any]) -> Answer[Any]:
        value, reply = self._client._answer_of(exchange)
        return Answer(value, 0 if reply is None else reply.status, {} if reply is None else reply.headers)
