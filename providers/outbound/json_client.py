"""JSON over HTTP to one other service: retries, deadlines and limits, the same for every service that is asked."""

from __future__ import annotations

import copy
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from itertools import chain, islice
from random import SystemRandom
from typing import Any, ClassVar, NamedTuple, TypeVar

import orjson
import requests

from providers.outbound import deadlines
from providers.outbound.addresses import split_url
from providers.outbound.answer_streams import BYTE_ORDER_MARK, json_object, lines
from providers.outbound.answers import reading
from providers.outbound.api_keys import checked_key
from providers.outbound.calls import REFUSED, Ended, told_of
from providers.outbound.http_sessions import ANSWER_PATIENCE, AnswerLimit, answer_within, arriving, waits
from providers.outbound.network import Network
from providers.outbound.redaction import Redactor
from schemas.errors import RagError

T = TypeVar("T")

READ_BYTES = 1 << 18
MAX_BEFORE = 100
"""The most objects of a stream that are read before its request counts as answered: a model may think for long."""
STREAMS = "text/event-stream, application/x-ndjson, application/json"
"""The media types of answers that arrive in pieces, and that of a refusal."""

AtLast = Callable[[RagError], dict[str, Any] | None]
"""Returns by a failure which other body to send at the last attempt, None for the same."""


def no_other(error: RagError) -> None:
    return None


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The rule of how often a request is sent, and of the wait in between where the service does not say."""

    attempts: int = 3
    first_wait_seconds: float = 0.5  # doubles with each attempt
    jitter: float = 0.5  # up to this share of a wait is added at random
    longest_wait_seconds: float = 2.0  # a longer wait that the service asks for is left to the caller

    def wait_seconds(self, attempt: int) -> float:
        """Return the seconds to wait after an attempt, counted from 1."""
        wait_seconds = self.first_wait_seconds * 2 ** (attempt - 1)
        return min(wait_seconds * SystemRandom().uniform(1.0, 1.0 + self.jitter), self.longest_wait_seconds)


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def is_ok(self) -> bool:
        return HTTPStatus.OK <= self.status < HTTPStatus.MULTIPLE_CHOICES


class Dialect(ABC):
    """The peculiarities of one kind of service: its limits, and the errors of `schemas.errors` that tell its failures.

    `service` is what sentences call it. Metrics call it by its `noun`, which says what it is for, and by the id of the
    `provider`, never by its place.
    """

    service: str
    noun: str = "service"
    provider: str = ""
    retry: ClassVar[RetryPolicy] = RetryPolicy()
    max_answer_bytes: ClassVar[int]
    headers: ClassVar[Mapping[str, str]] = {"Content-Type": "application/json"}

    def headers_of_call(self) -> Mapping[str, str]:
        """Return the headers of a single request, beside those of all."""
        return {}

    def is_accepted(self, answer: Answer) -> bool:
        """Return whether an answer is no refusal and no failure."""
        return answer.is_ok

    @abstractmethod
    def parsed(self, answer: Answer) -> Any:
        """Return the JSON of an answer. Raises RagError when it holds none."""

    @abstractmethod
    def lost(self, error: requests.RequestException, timeout_seconds: float) -> RagError:
        """Return the error to raise when no whole answer arrived."""

    @abstractmethod
    def oversized(self) -> RagError:
        """Return the error to raise when an answer is larger than `max_answer_bytes`."""

    @abstractmethod
    def refused(self, answer: Answer, redact: Redactor, *, has_key: bool) -> RagError:
        """Return the error to raise for an answer that is not accepted, without anything that `redact` knows."""

    def broken_off(self, error: RagError) -> RagError:
        """Return the error to raise when a refusal comes after the first words of an answer."""
        return error

    @abstractmethod
    def may_pass(self, error: RagError) -> bool:
        """Return whether another attempt may cure a failure."""

    @abstractmethod
    def asked_wait_seconds(self, error: RagError) -> float | None:
        """Return how long the service is to be left alone before another attempt, None when it does not matter."""

    def rest_seconds(self, error: RagError) -> float:
        """Return how long the service is to be left alone by everybody after a failure."""
        return 0.0

    @abstractmethod
    def log_retry(self, error: RagError, attempt: int) -> None:
        """Log that a request is about to be sent again."""


class JsonClient:
    """Asks for JSON below one base URL; usable by several threads.

    Failures are told by the service's `dialect`. `timeout_seconds` limits each silence of the service, which is not
    asked again after one; a whole answer may take `ANSWER_PATIENCE` times as long, except a stream, which may take any
    time. A request that fails in passing is sent again by the retry policy, so send only what may be repeated. While
    the dialect has the service rest, all attempts fail as the last one did, and nothing is sent.
    `sleep` and `monotonic` (seconds) serve that.

    The key travels in one header, by default `Authorization: Bearer`. Neither the key nor what `redactor` knows appears
    in an error or a log line. Redirects are not followed: they could carry texts and key to a host nobody configured.
    """

    def __init__(
        self,
        url: str,
        dialect: Dialect,
        *,
        network: Network,
        redactor: Redactor | None = None,
        api_key: str | None = None,
        key_header: str = "Authorization",
        timeout_seconds: float = 120.0,
        retry: RetryPolicy | None = None,
        sleep: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        split_url(url)
        self._url = url.rstrip("/")
        self._dialect = dialect
        self._network = network
        key = checked_key(api_key)
        self._has_key = key is not None
        self._redact = Redactor({*(redactor.values if redactor else ()), key or ""})
        self._timeout_seconds = timeout_seconds
        self._retry = retry or dialect.retry
        self._sleep = sleep
        self._monotonic = monotonic
        self._resting: tuple[float, RagError] | None = None
        self._session = network.session(self._url)
        self._session.headers.update(dialect.headers)
        if key is not None:
            self._session.headers[key_header] = f"Bearer {key}" if key_header == "Authorization" else key

    def close(self) -> None:
        self._session.close()

    def get(self, path: str) -> Any:
        return self.call("GET", path)

    def post(self, path: str, body: dict[str, Any], at_last: AtLast = no_other) -> Any:
        return self.call("POST", path, body, at_last=at_last)

    def call(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        *,
        params: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        at_last: AtLast = no_other,
    ) -> Any:
        """Send `body` to a path below the URL and return the JSON of the answer. Raise what the dialect makes of
        failures. `at_last` may have the last attempt of several send another body."""
        send = partial(self._accepted, method, path, params=params, headers=headers)

        def last(error: RagError) -> Callable[[], Answer] | None:
            other = at_last(error)
            return None if other is None else partial(send, orjson.dumps(other))

        payload = None if body is None else orjson.dumps(body)
        return self._dialect.parsed(self._attempted(partial(send, payload), last))

    def call_with_content(
        self,
        method: str,
        path: str,
        content: bytes,
        media_type: str,
        *,
        params: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Any:
        """Do the same with a body of another media type."""
        headers = {**(headers or {}), "Content-Type": media_type}
        return self._dialect.parsed(self._repeated(method, path, content, params=params, headers=headers))

    def send(self, method: str, path: str, payload: bytes | None) -> bytes:
        """Send a JSON text and return the bytes of the answer. Raise what `call` raises."""
        return self._repeated(method, path, payload).content

    def report(self, path: str) -> Any:
        """Return what a health route says, asked once, even when its status is an error."""
        answer = self._ask("GET", path, None)
        report = self._dialect.parsed(answer)
        if answer.is_ok or "status" in report:
            return report
        raise self._refusal(answer)

    @contextmanager
    def stream(self, path: str) -> Iterator[tuple[Mapping[str, str], Iterator[bytes]]]:
        """Give (headers, pieces of the body as they arrive) of a GET, asked once.

        The pieces raise UnavailableError when the connection breaks.
        """
        with self._telling_losses(), self._counted() as ended:
            response = self._open("GET", path, None)
            if not Answer(response.status_code, response.headers, b"").is_ok:
                ended.outcome = REFUSED
        with closing(response):
            head = Answer(response.status_code, response.headers, b"")
            if not head.is_ok:
                with self._telling_losses():
                    answer = self._read(response)
                raise self._refusal(answer)
            yield response.headers, self._pieces(response)

    @contextmanager
    def events(
        self,
        path: str,
        body: dict[str, Any],
        parted: Callable[[Iterable[bytes]], Iterator[bytes]],
        *,
        is_begun: Callable[[dict[str, Any]], bool] = bool,
        is_unwanted: Callable[[], bool] | None = None,
    ) -> Iterator[Iterator[dict[str, Any]]]:
        """Give the JSON objects of an answer to a POST as they arrive; `parted` makes their texts of its lines.

        The request is sent again as any other, but not after the answer has begun: with the first object of which
        `is_begun` is true, or after `MAX_BEFORE` others. The size and the time of the whole
        answer are limited as those of any other, and `timeout_seconds` limits the time between two objects, whatever
        else arrives meanwhile. The connection ends with the block, and once it `is_unwanted`, which another thread
        asks. Raises what `call` raises, also for an object with an `error`, or what the dialect makes of that once the
        answer has begun.
        """
        limit = AnswerLimit(
            self._timeout_seconds * ANSWER_PATIENCE, silence_seconds=self._timeout_seconds, is_unwanted=is_unwanted
        )
        payload = orjson.dumps(body)
        with self._telling_losses(), limit, ExitStack() as opened:
            yield self._attempted(partial(self._begun, path, payload, parted, is_begun, limit, opened))

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Raise UnavailableError when the block, which takes an answer apart, finds something missing or of another
        type."""
        with reading(self._dialect.service):
            yield

    def _repeated(self, method: str, path: str, payload: bytes | None, **options: Any) -> Answer:
        return self._attempted(partial(self._accepted, method, path, payload, **options))

    def _attempted(
        self, ask: Callable[[], T], last: Callable[[RagError], Callable[[], T] | None] = lambda error: None
    ) -> T:
        """Return what `ask` returns, asked again by the retry policy, at last as `last` says by the failure before.
        Raises the failure that has the service rest, also when another thread met it."""
        attempts = 1 if deadlines.is_single() else self._retry.attempts
        attempt = 0
        while True:
            attempt += 1
            resting = self._resting
            if resting is not None and self._monotonic() < resting[0]:
                raise copy.copy(resting[1])
            try:
                return ask()
            except RagError as error:
                wait_seconds = self._wait_seconds(error, attempt)
                rest_seconds = self._dialect.rest_seconds(error)
                if rest_seconds:
                    self._resting = self._monotonic() + rest_seconds, copy.copy(error)
                seconds_left = min(self._network.seconds_left(), deadlines.seconds_left())
                if attempt >= attempts or wait_seconds is None or wait_seconds >= seconds_left:
                    raise
                self._dialect.log_retry(error, attempt)
                if attempt + 1 == attempts:
                    ask = last(error) or ask
            self._sleep(wait_seconds)

    def _wait_seconds(self, error: RagError, attempt: int) -> float | None:
        """Return the seconds to wait after an attempt, None when there is to be no other."""
        if not self._dialect.may_pass(error):
            return None
        asked_seconds = self._dialect.asked_wait_seconds(error)
        if asked_seconds is None:
            return self._retry.wait_seconds(attempt)
        return asked_seconds if asked_seconds <= self._retry.longest_wait_seconds else None

    def _accepted(self, method: str, path: str, payload: bytes | None, **options: Any) -> Answer:
        answer = self._ask(method, path, payload, **options)
        if not self._dialect.is_accepted(answer):
            raise self._refusal(answer)
        return answer

    def _ask(self, method: str, path: str, payload: bytes | None, **options: Any) -> Answer:
        with (
            self._telling_losses(),
            self._counted() as ended,
            answer_within(self._timeout_seconds * ANSWER_PATIENCE),
            closing(self._open(method, path, payload, **options)) as response,
        ):
            answer = self._read(response)
            if not answer.is_ok:
                ended.outcome = REFUSED
            return answer

    def _begun(
        self,
        path: str,
        payload: bytes,
        parted: Callable[[Iterable[bytes]], Iterator[bytes]],
        is_begun: Callable[[dict[str, Any]], bool],
        limit: AnswerLimit,
        opened: ExitStack,
    ) -> Iterator[dict[str, Any]]:
        """Return the objects of an answer that has begun; what is `opened` is to be closed after them."""
        limit.heard()  # the wait before another attempt is no silence
        opened.close()
        refused: Answer | None = None
        with self._telling_losses(), self._counted() as ended, limit.kept(), limit.of_request():
            response = opened.enter_context(closing(self._open("POST", path, payload, headers={"Accept": STREAMS})))
            if not Answer(response.status_code, response.headers, b"").is_ok:
                ended.outcome = REFUSED
                refused = self._read(response)
        if refused is not None:
            raise self._refusal(refused)
        objects = self._objects(response, parted(lines(self._pieces_within(response, limit))), is_begun, limit)
        before: list[dict[str, Any]] = []
        for each in islice(objects, MAX_BEFORE):
            before.append(each)
            if is_begun(each):
                break
        return chain(before, objects)

    def _objects(
        self,
        response: requests.Response,
        contents: Iterator[bytes],
        is_begun: Callable[[dict[str, Any]], bool],
        limit: AnswerLimit,
    ) -> Iterator[dict[str, Any]]:
        has_begun = False
        for content in contents:
            with self.reading():
                found = json_object(content)
            if found.get("error") or found.get("object") == "error":
                error = self._refusal(Answer(response.status_code, response.headers, content))
                raise self._dialect.broken_off(error) if has_begun else error
            limit.heard()
            has_begun = has_begun or is_begun(found)
            yield found

    def _pieces_within(self, response: requests.Response, limit: AnswerLimit) -> Iterator[bytes]:
        received = 0
        with self._telling_losses(), limit.kept():
            for piece in arriving(response):
                received += len(piece)
                if received > self._dialect.max_answer_bytes:
                    raise self._dialect.oversized()
                yield piece

    def _open(self, method: str, path: str, payload: bytes | None, **options: Any) -> requests.Response:
        """Return an answer whose body is still to be read."""
        options["headers"] = {**self._dialect.headers_of_call(), **(options.get("headers") or {})}
        return self._session.request(
            method,
            self._url + path,
            data=payload,
            timeout=waits(self._timeout_seconds),
            allow_redirects=False,
            stream=True,
            **options,
        )

    def _read(self, response: requests.Response) -> Answer:
        content = bytearray()
        for piece in response.iter_content(READ_BYTES):
            content += piece
            if len(content) > self._dialect.max_answer_bytes:
                raise self._dialect.oversized()
        return Answer(response.status_code, response.headers, bytes(content).removeprefix(BYTE_ORDER_MARK))

    def _pieces(self, response: requests.Response) -> Iterator[bytes]:
        with self._telling_losses():
            yield from response.iter_content(READ_BYTES)

    def _counted(self) -> AbstractContextManager[Ended]:
        return told_of(self._network.told, self._dialect.noun, self._dialect.provider)

    @contextmanager
    def _telling_losses(self) -> Iterator[None]:
        try:
            yield
        except requests.RequestException as error:
            raise self._dialect.lost(error, self._timeout_seconds) from error

    def _refusal(self, answer: Answer) -> RagError:
        return self._dialect.refused(answer, self._redact, has_key=self._has_key)
