"""JSON over HTTP to one service: retries, and the service's refusals as `schemas.errors`."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from http import HTTPStatus
from typing import Any, NamedTuple

import orjson
import requests
from tenacity import RetryCallState, Retrying, retry_if_exception, wait_exponential

from providers import deadlines
from providers.addresses import split_url
from providers.api_keys import checked_key
from providers.network import Network
from providers.redaction import Redactor
from providers.sessions import ANSWER_PATIENCE, answer_within, is_read_timeout, waits
from schemas.errors import (
    BusyError,
    CollectionNotFoundError,
    ConfigurationError,
    ConflictError,
    DiskFloorError,
    InvalidFilterError,
    InvalidInputError,
    NotFoundError,
    PayloadTooLargeError,
    PreconditionFailedError,
    RagError,
    UnavailableError,
    UnsupportedError,
    UnsupportedMediaError,
)

Body = dict[str, Any]

_MAX_WAIT_SECONDS = 30.0
_BACKOFF = wait_exponential(multiplier=0.25, max=_MAX_WAIT_SECONDS)
_STREAM_BYTES = 1 << 18
MAX_ANSWER_BYTES = 256 * 1024 * 1024
"""Twice what a page of 1,000 large documents with their embeddings takes: what is beyond is not an answer."""
MAX_SENTENCE_CHARS = 1000
_TIMEOUT = "timeout"
_TOO_LARGE = "answer_too_large"

_ERRORS: dict[int, type[RagError]] = {
    HTTPStatus.BAD_REQUEST: InvalidInputError,
    HTTPStatus.UNAUTHORIZED: ConfigurationError,
    HTTPStatus.FORBIDDEN: ConfigurationError,
    HTTPStatus.NOT_FOUND: NotFoundError,
    HTTPStatus.CONFLICT: ConflictError,
    HTTPStatus.PRECONDITION_FAILED: PreconditionFailedError,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: PayloadTooLargeError,
    HTTPStatus.REQUEST_URI_TOO_LONG: InvalidInputError,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: UnsupportedMediaError,
    HTTPStatus.UNPROCESSABLE_ENTITY: UnsupportedError,
    HTTPStatus.TOO_MANY_REQUESTS: BusyError,
    HTTPStatus.BAD_GATEWAY: UnavailableError,
    HTTPStatus.SERVICE_UNAVAILABLE: UnavailableError,
    HTTPStatus.GATEWAY_TIMEOUT: UnavailableError,
    HTTPStatus.INSUFFICIENT_STORAGE: DiskFloorError,
}

_ERROR_TYPES: dict[int, str] = {
    HTTPStatus.UNAUTHORIZED: "authentication",
    HTTPStatus.FORBIDDEN: "authorization",
    HTTPStatus.NOT_FOUND: "not_found",
    HTTPStatus.METHOD_NOT_ALLOWED: "not_found",
    HTTPStatus.TOO_MANY_REQUESTS: "rate_limit",
    HTTPStatus.GATEWAY_TIMEOUT: "timeout",
}
# Answered by gateways too, in words of their own.
_SPEAK_FOR_THEMSELVES = {
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.TOO_MANY_REQUESTS,
    *(status for status, kind in _ERRORS.items() if kind is UnavailableError),
}
_NO_ROUTE = (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED)
_MISSING_COLLECTION = re.compile(r"Collection '(.*)' not found", re.DOTALL)
"""Seed 003's sentence, which servers without error codes say too."""


class RouteNotFoundError(NotFoundError):
    """The service does not have this route: it is an older one, or another."""

    code = "route_not_found"


class _Answer(NamedTuple):
    status: int
    place: str
    headers: Mapping[str, str]
    content: bytes

    @property
    def is_ok(self) -> bool:
        return _is_ok(self.status)


class RestConnection:
    """A connection to the service at `base_url`; usable by several threads.

    A request that does not get through, or is answered "busy, come again", is sent up to `attempts` times: send only
    what may be repeated. `timeout_seconds` is for each silence of the service, which is not asked twice then; a whole
    answer may take `ANSWER_PATIENCE` times as long, but for a stream, which may take any time. `place` is what errors
    call the URL, which may have come out of a placeholder; by default it is the URL.
    """

    def __init__(
        self,
        base_url: str,
        *,
        network: Network | None = None,
        redactor: Redactor | None = None,
        api_key: str | None = None,
        timeout_seconds: float = 120.0,
        attempts: int = 4,
        place: str | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        split_url(base_url)
        self._base_url = base_url.rstrip("/")
        self._place = place or self._base_url
        self._timeout_seconds = timeout_seconds
        self._answer_seconds = timeout_seconds * ANSWER_PATIENCE
        self._attempts = attempts
        self._network = network or Network()
        self._session = self._network.session(base_url)
        self._headers = {"Content-Type": "application/json"}
        key = checked_key(api_key)
        if key is not None:
            self._headers["Authorization"] = f"Bearer {key}"
        self._redact = Redactor({*(redactor.values if redactor else ()), key or ""})
        self._retrying = Retrying(
            retry=retry_if_exception(_may_succeed_later),
            stop=self._is_the_end,
            wait=_wait_seconds,
            sleep=sleep,
            reraise=True,
        )

    def close(self) -> None:
        self._session.close()

    def report(self, path: str) -> Body:
        """What a health route says, asked once, also when its status is an error."""
        answer = self._ask("GET", path)
        report = _json(answer)
        if answer.is_ok or "status" in report:
            return report
        raise self._error(answer, report)

    def call(
        self,
        method: str,
        path: str,
        body: Body | None = None,
        *,
        params: Body | None = None,
        headers: dict[str, str] | None = None,
    ) -> Body:
        """The answer's JSON object; what the service refused keeps its sentence, code and details."""
        payload = None if body is None else orjson.dumps(body)
        return self._call(method, path, payload, params=params, headers=headers)

    def call_with_lines(self, method: str, path: str, lines: Iterable[bytes]) -> Body:
        """The same with NDJSON, given as lines that end in a line break."""
        return self._call(method, path, b"".join(lines), headers={"Content-Type": "application/x-ndjson"})

    def _call(
        self,
        method: str,
        path: str,
        payload: bytes | None,
        *,
        params: Body | None = None,
        headers: dict[str, str] | None = None,
    ) -> Body:
        def attempt() -> Body:
            answer = self._ask(method, path, payload, params=params, headers=headers)
            found = _json(answer)
            if answer.is_ok:
                return found
            raise self._error(answer, found)

        return self._retrying.copy()(attempt)

    @contextmanager
    def stream(self, path: str) -> Iterator[tuple[Mapping[str, str], Iterator[bytes]]]:
        """(headers, pieces of the body as they come) of a GET; the pieces raise UnavailableError when it is cut."""
        with _translate_failures(self._place):
            response = self._send("GET", path)
        with closing(response):
            if not _is_ok(response.status_code):
                with _translate_failures(self._place):
                    answer = self._read(response)
                raise self._error(answer, _json(answer))
            yield response.headers, self._pieces(response)

    def _pieces(self, response: requests.Response) -> Iterator[bytes]:
        with _translate_failures(self._place):
            yield from response.iter_content(_STREAM_BYTES)

    def _ask(self, method: str, path: str, payload: bytes | None = None, **options: Any) -> _Answer:
        with (
            _translate_failures(self._place),
            answer_within(self._answer_seconds),
            closing(self._send(method, path, payload, **options)) as response,
        ):
            return self._read(response)

    def _read(self, response: requests.Response) -> _Answer:
        content = bytearray()
        for piece in response.iter_content(_STREAM_BYTES):
            content += piece
            if len(content) > MAX_ANSWER_BYTES:
                sentence = f"The service at {self._place} answered more than {MAX_ANSWER_BYTES} bytes"
                raise UnavailableError(sentence, code=_TOO_LARGE, error_type="unknown")
        return _Answer(response.status_code, self._place, response.headers, bytes(content))

    def _send(
        self,
        method: str,
        path: str,
        payload: bytes | None = None,
        *,
        params: Body | None = None,
        headers: dict[str, str] | None = None,
    ) -> requests.Response:
        """The answer's head; its body is still to be read."""
        return self._session.request(
            method,
            self._base_url + path,
            data=payload,
            params=params,
            headers={**self._headers, **(headers or {})},
            timeout=waits(self._timeout_seconds),
            allow_redirects=False,
            stream=True,
        )

    def _error(self, answer: _Answer, body: Body) -> RagError:
        """What the service refused, without the key should it quote it."""
        return _error(answer, self._redact(body))

    def _is_the_end(self, state: RetryCallState) -> bool:
        seconds_left = min(self._network.seconds_left(), deadlines.seconds_left())
        return state.attempt_number >= self._attempts or state.upcoming_sleep >= seconds_left


@contextmanager
def _translate_failures(place: str) -> Iterator[None]:
    try:
        yield
    except requests.RequestException as error:
        if is_read_timeout(error):
            sentence = f"The service at {place} did not answer in time"
            raise UnavailableError(sentence, code=_TIMEOUT, error_type="timeout") from error
        error_type = "timeout" if isinstance(error, requests.ConnectTimeout) else "network"
        raise UnavailableError(f"The service at {place} cannot be reached", error_type=error_type) from error


def _is_ok(status: int) -> bool:
    return HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES


def _json(answer: _Answer) -> Body:
    try:
        body = orjson.loads(answer.content)
    except orjson.JSONDecodeError:
        body = None
    if isinstance(body, dict):
        return body
    if answer.status in _SPEAK_FOR_THEMSELVES or HTTPStatus.MULTIPLE_CHOICES <= answer.status < HTTPStatus.BAD_REQUEST:
        return {}
    kind = RouteNotFoundError if answer.status in _NO_ROUTE else RagError
    raise kind(
        f"What answers at {answer.place} is not this service: {answer.status}, not a JSON object",
        error_type=_ERROR_TYPES.get(answer.status, "unknown"),
    )


def _error(answer: _Answer, body: Body) -> RagError:
    status = answer.status
    sentence = body.get("message") or body.get("error")
    message = sentence[:MAX_SENTENCE_CHARS] if isinstance(sentence, str) else f"{answer.place} answered {status}"
    details = body["details"] if isinstance(body.get("details"), dict) else {}
    code = body["code"] if isinstance(body.get("code"), str) else None
    missing = _MISSING_COLLECTION.fullmatch(message) if status == HTTPStatus.NOT_FOUND else None
    if code == CollectionNotFoundError.code or (code is None and missing):
        return CollectionNotFoundError(str(details.get("collection", missing[1] if missing else "")))
    if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        return ConfigurationError(
            f"{answer.place} redirects ({status}), which is not followed: configure the URL that the service stands at",
            error_type="invalid_config",
        )
    details = {**details, "error_type": _ERROR_TYPES.get(status, "unknown")}
    if re.fullmatch(r"[0-9]{1,9}", answer.headers.get("Retry-After", "")):
        details["retry_after_seconds"] = int(answer.headers["Retry-After"])
    if status in _NO_ROUTE and (code is None or status == HTTPStatus.METHOD_NOT_ALLOWED):
        kind: type[RagError] = RouteNotFoundError
    else:
        kind = InvalidFilterError if code == InvalidFilterError.code else _ERRORS.get(status, RagError)
    error = kind(message, code=code)
    error.details = details
    return error


def _may_succeed_later(error: BaseException) -> bool:
    return isinstance(error, UnavailableError) and error.code not in (_TIMEOUT, _TOO_LARGE)


def _wait_seconds(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    asked = error.details.get("retry_after_seconds") if isinstance(error, RagError) else None
    return _BACKOFF(state) if asked is None else min(float(asked), _MAX_WAIT_SECONDS)
