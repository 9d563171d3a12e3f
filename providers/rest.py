"""JSON over HTTP to one service: retries, and the service's refusals as `schemas.errors`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from http import HTTPStatus
from typing import Any

import orjson
import requests
from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt, wait_exponential

from providers.addresses import split_url
from providers.network import CONNECT_SECONDS, Network
from schemas.errors import (
    BusyError,
    CollectionNotFoundError,
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
_TIMEOUT = "timeout"

_ERRORS: dict[int, type[RagError]] = {
    HTTPStatus.BAD_REQUEST: InvalidInputError,
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


class RestConnection:
    """A connection to the service at `base_url`; usable by several threads.

    A request that does not get through, or is answered "busy, come again", is sent up to `attempts` times: send only
    what may be repeated. `timeout_seconds` bounds the wait for an answer, which is not asked for twice.
    """

    def __init__(
        self,
        base_url: str,
        *,
        network: Network | None = None,
        api_key: str | None = None,
        timeout_seconds: float = 120.0,
        attempts: int = 4,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        split_url(base_url)
        self._base_url = base_url.rstrip("/")
        self._timeout_seconds = timeout_seconds
        self._session = (network or Network()).session(base_url)
        self._headers = {"Content-Type": "application/json"}
        if api_key is not None:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._retrying = Retrying(
            retry=retry_if_exception(_may_succeed_later),
            stop=stop_after_attempt(attempts),
            wait=_wait_seconds,
            sleep=sleep,
            reraise=True,
        )

    def close(self) -> None:
        self._session.close()

    def report(self, path: str) -> Body:
        """What a health route says, asked once, also when its status is an error."""
        response = self._send("GET", path)
        report = _json(response)
        if response.ok or "status" in report:
            return report
        raise _error(response, report)

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

        def attempt() -> Body:
            response = self._send(method, path, payload, params=params, headers=headers)
            answer = _json(response)
            if response.ok:
                return answer
            raise _error(response, answer)

        return self._retrying.copy()(attempt)

    @contextmanager
    def stream(self, path: str) -> Iterator[tuple[Mapping[str, str], Iterator[bytes]]]:
        """(headers, pieces of the body as they come) of a GET; the pieces raise UnavailableError when it is cut."""
        response = self._send("GET", path, stream=True)
        with closing(response):
            if not response.ok:
                raise _error(response, _json(response))
            yield response.headers, self._pieces(response)

    def _pieces(self, response: requests.Response) -> Iterator[bytes]:
        with _translate_failures(self._base_url):
            yield from response.iter_content(_STREAM_BYTES)

    def _send(
        self,
        method: str,
        path: str,
        payload: bytes | None = None,
        *,
        params: Body | None = None,
        headers: dict[str, str] | None = None,
        stream: bool = False,
    ) -> requests.Response:
        with _translate_failures(self._base_url):
            return self._session.request(
                method,
                self._base_url + path,
                data=payload,
                params=params,
                headers={**self._headers, **(headers or {})},
                timeout=(min(CONNECT_SECONDS, self._timeout_seconds), self._timeout_seconds),
                allow_redirects=False,
                stream=stream,
            )


@contextmanager
def _translate_failures(base_url: str) -> Iterator[None]:
    try:
        yield
    except requests.ReadTimeout as error:
        sentence = f"The service at {base_url} did not answer in time"
        raise UnavailableError(sentence, code=_TIMEOUT, error_type="timeout") from error
    except requests.RequestException as error:
        raise UnavailableError(f"The service at {base_url} cannot be reached", error_type="network") from error


def _json(response: requests.Response) -> Body:
    try:
        body = orjson.loads(response.content)
    except orjson.JSONDecodeError:
        body = None
    if isinstance(body, dict):
        return body
    if response.status_code in _ERRORS and _ERRORS[response.status_code] is UnavailableError:
        return {}
    raise RagError(f"What answers at {response.url} is not this service: {response.status_code}, not a JSON object")


def _error(response: requests.Response, body: Body) -> RagError:
    message = body.get("message") or f"{response.url} answered {response.status_code}"
    details = body.get("details") or {}
    code = body.get("code")
    if code == CollectionNotFoundError.code:
        return CollectionNotFoundError(str(details.get("collection", "")))
    if response.headers.get("Retry-After", "").isdecimal():
        details = details | {"retry_after_seconds": int(response.headers["Retry-After"])}
    kind = InvalidFilterError if code == InvalidFilterError.code else _ERRORS.get(response.status_code, RagError)
    error = kind(message, code=code)
    error.details = details
    return error


def _may_succeed_later(error: BaseException) -> bool:
    return isinstance(error, UnavailableError) and error.code != _TIMEOUT


def _wait_seconds(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    asked = error.details.get("retry_after_seconds") if isinstance(error, RagError) else None
    return _BACKOFF(state) if asked is None else min(float(asked), _MAX_WAIT_SECONDS)
