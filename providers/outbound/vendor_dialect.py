"""The failures of vendors' services: OpenAI, Ollama, Chroma, Qdrant, and servers that speak like them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, ClassVar, TypeVar

import orjson
import requests
import structlog

from providers.outbound import deadlines
from providers.outbound.answers import UNUSABLE
from providers.outbound.http_sessions import ANSWER_PATIENCE, AnswerTimeout, is_read_timeout
from providers.outbound.json_client import Answer, Dialect
from providers.outbound.redaction import Redactor
from providers.outbound.refusals import (
    RefusedCallError,
    RefusedRequestError,
    all_said,
    is_of_request,
    is_too_large,
    reason_in,
    told_status,
    without_parts,
)
from providers.outbound.trust import tls_fault
from schemas.errors import ConfigurationError, RagError, UnavailableError

log = structlog.get_logger(__name__)

ErrorT = TypeVar("ErrorT", bound=RagError)

# 64 texts of 4,096 numbers are about 6 MB as JSON; a body far beyond that answers nothing that is asked here.
MAX_ANSWER_BYTES = 64 * 1024 * 1024
REST_SECONDS, MAX_REST_SECONDS = 2.0, 30.0
"""How long a service that has too many requests is left alone when it says nothing of use, and at most."""
_OF_KEY = (HTTPStatus.UNAUTHORIZED, HTTPStatus.PAYMENT_REQUIRED, HTTPStatus.FORBIDDEN)
_NO_ROUTE = (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.GONE)
_BAD_REQUEST = (400, 413, 414, 415, 422, 431, 451)


class VendorDialect(Dialect):
    """Sentences call the service "the {noun} '{provider}'". `clock` is seconds since the epoch, for Retry-After dates.

    UnavailableError: network, timeout, 429, 5xx; timeouts are not repeated. ConfigurationError: redirects, TLS that is
    not spoken or not trusted, and RefusedCallError: 401 to 405, 410. RefusedRequestError: 400, 413, 422, and 5xx or 429
    whose words are about the request. An error that is answered with 200 is what its own status says.
    `details.status` is the upstream status, `details.reason` its own words, where there are any.
    """

    max_answer_bytes = MAX_ANSWER_BYTES
    headers: ClassVar[Mapping[str, str]] = {"Content-Type": "application/json", "Accept": "application/json"}

    def __init__(self, noun: str, provider: str, *, clock: Callable[[], float] = time.time) -> None:
        self.service = f"The {noun} '{provider}'"
        self.noun = noun
        self.provider = self._provider = provider
        self._clock = clock

    def is_accepted(self, answer: Answer) -> bool:
        return answer.is_ok and told_status(answer.content) is None

    def parsed(self, answer: Answer) -> Any:
        try:
            return orjson.loads(answer.content)
        except orjson.JSONDecodeError as error:
            raise self._error(UnavailableError, "answered something that is not JSON", "unknown") from error

    def lost(self, error: requests.RequestException, timeout_seconds: float) -> RagError:
        if (fault := tls_fault(error)) is not None:
            return self._error(ConfigurationError, fault, "network")
        if not deadlines.seconds_left():
            return self._error(UnavailableError, "did not answer in the time that was left", "timeout")
        if isinstance(error, AnswerTimeout):
            what = f"did not come to the end of its answer in {timeout_seconds * ANSWER_PATIENCE:g} s"
            return self._error(UnavailableError, what, "timeout")
        if is_read_timeout(error):
            return self._error(UnavailableError, f"did not answer in {timeout_seconds:g} s", "timeout")
        if isinstance(error, requests.ConnectTimeout):
            return self._error(_PassingError, "cannot be reached in time", "timeout")
        if isinstance(error, requests.ConnectionError | requests.exceptions.ChunkedEncodingError):
            return self._error(_PassingError, "cannot be reached or broke the connection off", "network")
        return self._error(UnavailableError, "sent an answer that cannot be read", "unknown")

    def oversized(self) -> RagError:
        return self._error(UnavailableError, f"answered more than {self.max_answer_bytes} bytes", "unknown")

    def refused(self, answer: Answer, redact: Redactor, *, has_key: bool) -> RagError:
        status = (told_status(answer.content) or answer.status) if answer.is_ok else answer.status
        how = f"(HTTP {answer.status})"
        if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
            what = f"redirects {how}, which is not followed: configure the URL it stands at"
            return self._error(ConfigurationError, what, "invalid_config", status=status)
        reason, words = reason_in(answer.content, redact), all_said(answer.content, redact)
        if reason and status in _OF_KEY:
            reason = without_parts(reason, redact)
        said = f": {reason}" if reason else ""
        what = f"refuses the request {how}{said}"
        refusal = self._error(RefusedRequestError, what, "unknown", status=status, reason=reason)
        refusal.said = words
        if status in _OF_KEY or status in _NO_ROUTE:
            return self._refused_call(status, how, refusal, has_key=has_key)
        if status == HTTPStatus.TOO_MANY_REQUESTS:
            is_refusal = is_too_large(reason or words)
        elif status == HTTPStatus.OK or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            is_refusal = is_of_request(reason or words)
        else:
            is_refusal = status in _BAD_REQUEST
        if is_refusal:
            return refusal
        if status == HTTPStatus.OK:
            what = f"answered with an error{said}"
            return self._error(UnavailableError, what, "unknown", code=UNUSABLE, status=status, reason=reason)
        what = f"failed {how}{said}"
        if status == HTTPStatus.TOO_MANY_REQUESTS:
            error = self._error(_PassingError, what, "rate_limit", status=status, reason=reason)
        elif status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            error = self._error(_PassingError, what, "unknown", status=status, reason=reason)
        else:
            return self._error(UnavailableError, what, "unknown", status=status, reason=reason)
        header = answer.headers.get("Retry-After")
        if header is not None or status == HTTPStatus.TOO_MANY_REQUESTS:
            error.wait_seconds = _retry_after_seconds(header, self._clock())
            error.retry_after_seconds = math.ceil(self.rest_seconds(error))
        return error

    def _refused_call(self, status: int, how: str, refusal: RefusedRequestError, *, has_key: bool) -> RefusedCallError:
        reason = refusal.details.get("reason")
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            reason = None
        if status == HTTPStatus.UNAUTHORIZED:
            error_type, what = "authentication", "refuses the API key" if has_key else "demands an API key"
        elif status == HTTPStatus.FORBIDDEN:
            error_type, what = "authorization", "does not allow this to the API key"
        elif status == HTTPStatus.PAYMENT_REQUIRED:
            error_type, what = "authorization", "demands to be paid"
        else:
            error_type, what = "not_found", "does not know the route or the model"
        said = f": {reason}" if reason else ""
        error = self._error(RefusedCallError, f"{what} {how}{said}", error_type, status=status, reason=reason)
        error.alone = refusal
        return error

    def broken_off(self, error: RagError) -> RagError:
        reason = error.details.get("reason")
        what = f"broke its answer off{f': {reason}' if reason else ''}"
        broken = UnavailableError(f"{self.service} {what}", **error.details)
        broken.retry_after_seconds = error.retry_after_seconds
        return broken

    def may_pass(self, error: RagError) -> bool:
        return isinstance(error, _PassingError)

    def asked_wait_seconds(self, error: RagError) -> float | None:
        return error.wait_seconds if isinstance(error, _PassingError) else None

    def rest_seconds(self, error: RagError) -> float:
        return min(self.asked_wait_seconds(error) or 0.0, MAX_REST_SECONDS)

    def log_retry(self, error: RagError, attempt: int) -> None:
        log.warning("request is repeated", provider=self._provider, attempt=attempt, reason=str(error))

    def _error(self, kind: type[ErrorT], what: str, error_type: str, **details: Any) -> ErrorT:
        return kind(f"{self.service} {what}", provider=self._provider, error_type=error_type, **details)


class _PassingError(UnavailableError):
    """A failure that another attempt may cure, after `wait_seconds` where the service is to be left alone."""

    wait_seconds: float | None = None


def _retry_after_seconds(header: str | None, now: float) -> float:
    """Return the seconds to wait by a Retry-After header, which is a number or a date (RFC 9110, 10.2.3), or as usual
    where it cannot be read or is over."""
    try:
        seconds = float(header or "")
    except ValueError:
        try:
            seconds = parsedate_to_datetime(header or "").timestamp() - now
        except (ValueError, OverflowError):
            return REST_SECONDS
    return seconds if math.isfinite(seconds) and seconds > 0 else REST_SECONDS
