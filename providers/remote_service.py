"""One service of a vendor: JSON over HTTP, retried where a retry can help, failures in our words."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, TypeVar

import orjson
import requests
import structlog
from tenacity import RetryCallState, Retrying, retry_if_exception

from providers import deadlines
from providers.addresses import split_url
from providers.answers import reading
from providers.api_keys import checked_key
from providers.network import Network
from providers.redaction import Redactor
from providers.sessions import ANSWER_PATIENCE, AnswerTimeout, answer_within, is_read_timeout, waits
from schemas.errors import ConfigurationError, InvalidInputError, RagError, UnavailableError

log = structlog.get_logger(__name__)

ErrorT = TypeVar("ErrorT", bound=RagError)

# 64 texts of 4,096 numbers are about 6 MB as JSON; what is far beyond that is not an answer to anything asked here.
MAX_ANSWER_BYTES = 64 * 1024 * 1024
MAX_REASON_CHARS = 200


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When a service says 429 or 5xx, or the connection breaks. Spec 001 asks for three attempts."""

    attempts: int = 3
    first_wait_seconds: float = 0.5  # doubles with each attempt, plus up to half of it at random
    longest_wait_seconds: float = 30.0  # a longer Retry-After is passed on to the caller instead of waited for


class RemoteService:
    """Asks for JSON below one base URL. Errors call it "the {noun} '{provider}'".

    `timeout_seconds` is for each silence of the server; a whole answer may take `ANSWER_PATIENCE` times as long. The
    key travels in one header only, by default `Authorization: Bearer`, and appears in no error and no log line, nor
    does what `redactor` knows. Redirects are not followed: they could carry texts and key to a host nobody configured.
    """

    def __init__(
        self,
        noun: str,
        provider: str,
        url: str,
        *,
        network: Network,
        redactor: Redactor | None = None,
        api_key: str | None = None,
        key_header: str = "Authorization",
        timeout_seconds: float = 60.0,
        retry: RetryPolicy | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._noun = noun
        self._provider = provider
        split_url(url)
        self._url = url.rstrip("/")
        self._api_key = checked_key(api_key)
        self._redact = Redactor({*(redactor.values if redactor else ()), self._api_key or ""})
        self._timeout_seconds = timeout_seconds
        self._answer_seconds = timeout_seconds * ANSWER_PATIENCE
        self._retry = retry or RetryPolicy()
        self._sleep = sleep
        self._clock = clock
        self._network = network
        self._session = network.session(self._url)
        if self._api_key is not None:
            bearer = "Bearer " if key_header == "Authorization" else ""
            self._session.headers[key_header] = bearer + self._api_key

    def get(self, route: str) -> Any:
        """Like `post`, without a body."""
        return self.call("GET", route)

    def post(self, route: str, body: dict[str, Any]) -> Any:
        return self.call("POST", route, body)

    def call(self, method: str, route: str, body: dict[str, Any] | None = None) -> Any:
        """Send `body` to `url + route` and return the parsed answer. Raises what `send` raises, and UnavailableError
        for an answer that is not JSON."""
        content = self.send(method, route, None if body is None else orjson.dumps(body))
        try:
            return orjson.loads(content)
        except orjson.JSONDecodeError as exc:
            raise self._error(UnavailableError, "answered something that is not JSON", "unknown") from exc

    @contextmanager
    def reading(self) -> Iterator[None]:
        """For a block that takes an answer apart: what is not there or of another type is an UnavailableError."""
        with reading(f"The {self._noun} '{self._provider}'"):
            yield

    def send(self, method: str, route: str, payload: bytes | None) -> bytes:
        """The answer to a JSON text.

        UnavailableError: network, timeout, 429, 5xx (after the attempts of the policy; timeouts are not repeated).
        ConfigurationError: 401, 403, 404, redirects, broken TLS. InvalidInputError: 400, 413, 422. `details.status` is
        the upstream status, `details.reason` its own words, where there are any.
        """
        retrying = Retrying(
            stop=self._is_the_end,
            wait=self._wait_seconds,
            retry=retry_if_exception(self._is_worth_another_attempt),
            sleep=self._sleep,
            before_sleep=self._log_retry,
            reraise=True,
        )
        return retrying(self._attempt, method, route, payload)

    def close(self) -> None:
        self._session.close()

    def _attempt(self, method: str, route: str, payload: bytes | None) -> bytes:
        try:
            with (
                answer_within(self._answer_seconds),
                self._session.request(
                    method,
                    self._url + route,
                    data=payload,
                    headers={"Content-Type": "application/json", "Accept": "application/json"},
                    timeout=waits(self._timeout_seconds),
                    allow_redirects=False,
                    stream=True,
                ) as response,
            ):
                content = self._read(response)
        except requests.RequestException as exc:
            raise self._broken_connection(exc) from exc
        if not HTTPStatus.OK <= response.status_code < HTTPStatus.MULTIPLE_CHOICES:
            raise self._refusal(response, content)
        return content

    def _read(self, response: requests.Response) -> bytes:
        content = bytearray()
        for piece in response.iter_content(64 * 1024):
            content += piece
            if len(content) > MAX_ANSWER_BYTES:
                raise self._error(UnavailableError, f"answered more than {MAX_ANSWER_BYTES} bytes", "unknown")
        return bytes(content)

    def _broken_connection(self, exc: requests.RequestException) -> RagError:
        if isinstance(exc, requests.exceptions.SSLError):
            return self._error(ConfigurationError, "has a TLS certificate that is not trusted", "network")
        if not deadlines.seconds_left():
            return self._error(UnavailableError, "did not answer in the time that there was", "timeout")
        if isinstance(exc, AnswerTimeout):
            what = f"did not come to the end of its answer in {self._answer_seconds:g} s"
            return self._error(UnavailableError, what, "timeout")
        if is_read_timeout(exc):
            return self._error(UnavailableError, f"did not answer in {self._timeout_seconds:g} s", "timeout")
        if isinstance(exc, requests.ConnectTimeout):
            return self._error(_TransientError, "cannot be reached in time", "timeout")
        if isinstance(exc, requests.ConnectionError | requests.exceptions.ChunkedEncodingError):
            return self._error(_TransientError, "cannot be reached or broke the connection off", "network")
        return self._error(UnavailableError, "sent an answer that cannot be read", "unknown")

    def _refusal(self, response: requests.Response, content: bytes) -> RagError:
        status = response.status_code
        if status < HTTPStatus.BAD_REQUEST:
            what = f"redirects (HTTP {status}), which is not followed: configure the URL it stands at"
            return self._error(ConfigurationError, what, "invalid_config", status=status)
        if status == HTTPStatus.UNAUTHORIZED:
            what = "refuses the API key" if self._api_key else "demands an API key"
            return self._error(ConfigurationError, f"{what} (HTTP 401)", "authentication", status=status)
        if status == HTTPStatus.FORBIDDEN:
            what = "does not allow this to the API key (HTTP 403)"
            return self._error(ConfigurationError, what, "authorization", status=status)
        reason = self._reason(content)
        said = f": {reason}" if reason else ""
        if status in (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED):
            what = f"does not know the route or the model (HTTP {status}){said}"
            return self._error(ConfigurationError, what, "not_found", status=status, reason=reason)
        if status in (
            HTTPStatus.BAD_REQUEST,
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            HTTPStatus.UNPROCESSABLE_ENTITY,
        ):
            what = f"refuses the request (HTTP {status}){said}"
            return self._error(InvalidInputError, what, "unknown", status=status, reason=reason)
        what = f"failed (HTTP {status}){said}"
        if status == HTTPStatus.TOO_MANY_REQUESTS:
            error = self._error(_TransientError, what, "rate_limit", status=status, reason=reason)
        elif status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            error = self._error(_TransientError, what, "unknown", status=status, reason=reason)
        else:
            return self._error(UnavailableError, what, "unknown", status=status, reason=reason)
        error.wait_seconds = _retry_after_seconds(response.headers.get("Retry-After"), self._clock())
        if error.wait_seconds is not None:
            error.retry_after_seconds = max(1, math.ceil(error.wait_seconds))
        return error

    def _error(self, kind: type[ErrorT], what: str, error_type: str, **details: Any) -> ErrorT:
        sentence = f"The {self._noun} '{self._provider}' {what}"
        return kind(sentence, provider=self._provider, error_type=error_type, **details)

    def _reason(self, content: bytes) -> str | None:
        """The service's own sentence, from the shapes OpenAI, Ollama, FastAPI, Chroma and Qdrant use; None when there
        is none."""
        try:
            answer = orjson.loads(content)
        except orjson.JSONDecodeError:
            return None
        while isinstance(answer, dict):
            answer = next((answer[key] for key in ("message", "error", "detail", "status") if key in answer), None)
        if not isinstance(answer, str):
            return None
        # First what cannot be seen goes, which could hide a key from the search for it.
        seen = "".join(c for c in answer if c.isprintable())
        return str(self._redact(seen))[:MAX_REASON_CHARS] or None

    def _is_worth_another_attempt(self, error: BaseException) -> bool:
        if not isinstance(error, _TransientError):
            return False
        return error.wait_seconds is None or error.wait_seconds <= self._retry.longest_wait_seconds

    def _is_the_end(self, state: RetryCallState) -> bool:
        no_time_left = state.upcoming_sleep >= min(self._network.seconds_left(), deadlines.seconds_left())
        return state.attempt_number >= self._retry.attempts or no_time_left

    def _wait_seconds(self, state: RetryCallState) -> float:
        error = _failure_of(state)
        if isinstance(error, _TransientError) and error.wait_seconds is not None:
            return error.wait_seconds
        wait_seconds = self._retry.first_wait_seconds * 2 ** (state.attempt_number - 1)
        return min(wait_seconds * random.uniform(1.0, 1.5), self._retry.longest_wait_seconds)

    def _log_retry(self, state: RetryCallState) -> None:
        log.warning(
            "request is repeated", provider=self._provider, attempt=state.attempt_number, reason=str(_failure_of(state))
        )


class _TransientError(UnavailableError):
    """A failure that another attempt may cure. `wait_seconds` is what the service asked for, None when it did not."""

    wait_seconds: float | None = None


def _failure_of(state: RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome else None


def _retry_after_seconds(header: str | None, now: float) -> float | None:
    """Seconds to wait by a Retry-After header, which is a number or a date (RFC 9110, 10.2.3); None when unreadable."""
    if header is None:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(header).timestamp() - now
        except (ValueError, OverflowError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None
