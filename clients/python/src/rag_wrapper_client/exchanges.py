"""What a method asks and awaits, apart from how it is sent.

A method of the client returns an `Exchange`: a generator that yields requests and waits, gets the answer to each, and
returns the result. The sync and the async client carry out the same exchanges, so a method is written once.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar
from urllib.parse import quote

from rag_wrapper_client.bodies import Body
from rag_wrapper_client.errors import (
    ConnectionFailedError,
    InvalidRequestError,
    RagWrapperError,
    UnusableAnswerError,
    error_of,
)
from rag_wrapper_client.retries import Retry

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

WaitFor = Literal["index", "commit"]
"""What the answer to a write waits for: that the vector index has it, or no longer than until it is safely stored."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request. `path` is percent-encoded; `is_repeatable` says whether doing it twice changes nothing more."""

    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Body | None = None
    is_repeatable: bool = True
    is_streamed: bool = False
    timeout_seconds: float | None = None


class Pieces(Protocol):
    """An answer that is read piece by piece."""

    def read(self) -> bytes:
        """Return the next piece, empty at the end."""

    def give_up(self) -> None:
        """End a `read` that another thread waits in."""

    def close(self) -> None:
        """Let go of the connection, which is of no more use unless everything was read."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What the service answered: `content` in one piece, or as `pieces` where the request was streamed."""

    status: int
    headers: Mapping[str, str]
    content: bytes = b""
    pieces: Pieces | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """A pause between requests."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Answer(Generic[R_co]):
    """A result with what came beside it."""

    value: R_co
    status: int
    headers: Mapping[str, str]

    @property
    def etag(self) -> str | None:
        """What stands for the revision that was read, for `if_match` and `if_none_match`."""
        return self.headers.get("ETag")

    @property
    def request_id(self) -> str | None:
        """Under this the request is in the service's log."""
        return self.headers.get("X-Request-ID")

    @property
    def is_replayed(self) -> bool:
        """Whether a write was carried out before, under the same idempotency key."""
        return self.headers.get("Idempotent-Replayed") == "true"


Step: TypeAlias = Request | Wait
Exchange: TypeAlias = Generator[Step, Reply | None, R]
Attempts: TypeAlias = Generator[Step, "Reply | ConnectionFailedError | None", R]


def attempted(exchange: Exchange[R], retry: Retry) -> Attempts[R]:
    """Carry out an exchange with each request repeated as `retry` has it. Whoever drives this sends back the reply to a
    request, or the error when there was none."""
    try:
        step = next(exchange)
        while True:
            if isinstance(step, Wait):
                yield step
                step = exchange.send(None)
                continue
            try:
                reply = yield from _attempts(step, retry)
            except RagWrapperError as error:
                step = exchange.throw(error)
            else:
                step = exchange.send(reply)
    except StopIteration as end:
        result: R = end.value
        return result


def _attempts(request: Request, retry: Retry) -> Attempts[Reply]:
    attempt = 1
    while True:
        outcome = yield request
        may_repeat = request.is_repeatable and (request.body is None or request.body.is_repeatable)
        if isinstance(outcome, Reply):
            if outcome.status < 300 or outcome.status == 308:
                return outcome
            seconds = retry.after_refusal_seconds(attempt, outcome.status, outcome.headers) if may_repeat else None
            if seconds is None:
                wanted = retry.wanted_seconds(outcome.headers)
                raise error_of(outcome.status, outcome.headers, outcome.content, wait_seconds=wanted)
        else:
            seconds = retry.after_loss_seconds(attempt) if may_repeat else None
            if seconds is None:
                raise outcome if outcome is not None else RuntimeError("a request was not sent")
        yield Wait(seconds)
        attempt += 1


def ask(request: Request) -> Exchange[Any]:
    """Return the JSON of the answer."""
    reply = yield request
    return json_of(reply)


def ask_text(request: Request) -> Exchange[str]:
    """Return the text of the answer."""
    reply = yield request
    return "" if reply is None else reply.content.decode(errors="replace")


def ask_bytes(request: Request) -> Exchange[bytes]:
    """Return the bytes of the answer."""
    reply = yield request
    return b"" if reply is None else reply.content


def json_of(reply: Reply | None) -> Any:
    """Return the JSON of an answer. Raises UnusableAnswerError when it is not what the service writes."""
    try:
        return json.loads(b"" if reply is None else reply.content)
    except ValueError as error:
        raise UnusableAnswerError(
            "What answered is not a rag-wrapper: its answer is not JSON",
            code="answer_unusable",
            status=None if reply is None else reply.status,
        ) from error


def at(template: str, *parts: str) -> str:
    """Return a path with each `{}` filled in. Raises InvalidRequestError for the few parts that no path can hold: the
    request would go somewhere else."""
    for part in parts:
        if part in ("", ".", ".."):
            raise InvalidRequestError(f"{part!r} is no name that a path can hold", code="not_in_a_path")
    return template.format(*(quote(part, safe="") for part in parts))


def get(path: str, /, *, if_none_match: str | None = None, **params: Any) -> Request:
    """Return a read. Parameters that are None are left out."""
    return Request("GET", path, spelt(params), given({"If-None-Match": if_none_match}))


def read(path: str, body: Any, /, **params: Any) -> Request:
    """Return a read whose question is in its body."""
    return Request("POST", path, spelt(params), body=Body.of_json(body))


def write(
    method: str,
    path: str,
    body: Any = None,
    /,
    *,
    if_match: str | None = None,
    idempotency_key: str | None = None,
    **params: Any,
) -> Request:
    """Return a write that is done once however often it is sent: without a key of the caller's it gets one."""
    headers = {"Idempotency-Key": idempotency_key or str(uuid.uuid4()), **given({"If-Match": if_match})}
    return Request(method, path, spelt(params), headers, None if body is None else Body.of_json(body))


def change(method: str, path: str, body: Any = None, /, **params: Any) -> Request:
    """Return a write to a route that knows no idempotency keys, which is therefore sent once."""
    encoded = None if body is None else Body.of_json(body)
    return Request(method, path, spelt(params), body=encoded, is_repeatable=False)


def repeatable(request: Request) -> Request:
    """Return a write that may be sent again, since a second time changes nothing more."""
    return replace(request, is_repeatable=True)


def given(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def spelt(params: Mapping[str, Any]) -> dict[str, str]:
    """Return parameters as a query string has them: lists with commas, objects as JSON."""
    return {name: _spelt(value) for name, value in given(params).items()}


def _spelt(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return json.dumps(value)
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value)
