"""Tells failures of another rag-wrapper service as errors of this one.

A refusal keeps the service's sentence, code and details. A service that cannot be reached is UnavailableError.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any

import orjson
import requests

from providers.outbound.answers import UNUSABLE
from providers.outbound.http_sessions import is_read_timeout
from providers.outbound.json_client import Answer, Dialect, RetryPolicy
from providers.outbound.redaction import Redactor
from providers.outbound.trust import tls_fault, wrapped
from schemas.access.narrowing import HEADER, view_of_current
from schemas.errors import (
    BusyError,
    CollectionNotFoundError,
    ConfigurationError,
    ConflictError,
    DiskFloorError,
    GoneError,
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
from schemas.observing import spans

Body = dict[str, Any]

LONGEST_WAIT_SECONDS = 30.0
MAX_ANSWER_BYTES = 256 * 1024 * 1024
"""The largest answer: twice what a page of 1,000 large documents with their embeddings takes."""
MAX_SENTENCE_CHARS = 1000
_TIMEOUT = "timeout"
_TOO_LARGE = "answer_too_large"
_NOBODY = "nobody_listens"

_ERRORS: dict[int, type[RagError]] = {
    HTTPStatus.BAD_REQUEST: InvalidInputError,
    HTTPStatus.UNAUTHORIZED: ConfigurationError,
    HTTPStatus.FORBIDDEN: ConfigurationError,
    HTTPStatus.NOT_FOUND: NotFoundError,
    HTTPStatus.CONFLICT: ConflictError,
    HTTPStatus.GONE: GoneError,
    HTTPStatus.PRECONDITION_FAILED: PreconditionFailedError,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: PayloadTooLargeError,
    HTTPStatus.REQUEST_URI_TOO_LONG: InvalidInputError,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: UnsupportedMediaError,
    HTTPStatus.MISDIRECTED_REQUEST: ConfigurationError,
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
# Gateways answer these statuses too, with sentences of their own.
_SPEAK_FOR_THEMSELVES = {
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.TOO_MANY_REQUESTS,
    *(status for status, kind in _ERRORS.items() if kind is UnavailableError),
}
_NO_ROUTE = (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED)
_MISSING_COLLECTION = re.compile(r"Collection '(.*)' not found", re.DOTALL)
"""The pattern of the sentence of contract *storage*, which servers without error codes use too."""


class RouteNotFoundError(NotFoundError):
    """The service does not have this route: it is an older release or another product."""

    code = "route_not_found"


class WrapperDialect(Dialect):
    """The failures of a rag-wrapper service. `place` is what errors call its URL, which may have come out of a
    placeholder, and `service_id` the id of the service that asks, empty where a command asks.

    A request that does not get through, or is answered "busy, come again", is sent up to four times; but once where a
    command has had no answer yet and nothing listens: the URL is wrong, or no service runs.
    """

    retry = RetryPolicy(attempts=4, first_wait_seconds=0.25, jitter=0.0)
    max_answer_bytes = MAX_ANSWER_BYTES
    noun = "document store"
    provider = "chromadb-wrapper"

    def __init__(self, place: str, service_id: str = "") -> None:
        self.service = f"The service at {place}"
        self._place = place
        self._service_id = service_id
        self._has_answered = False

    def headers_of_call(self) -> Mapping[str, str]:
        """Return what tells the asking service itself, should it be asked, how little its caller may see, and where its
        spans belong. Other services learn nothing of traces: they would learn which calls belong together."""
        view = view_of_current(self._service_id)
        headers = {} if view is None else {HEADER: view}
        span = spans.current()
        return headers if span is None else {**headers, "traceparent": span.traceparent}

    def parsed(self, answer: Answer) -> Body:
        self._has_answered = True
        try:
            body = orjson.loads(answer.content)
        except orjson.JSONDecodeError:
            body = None
        if isinstance(body, dict):
            return body
        if answer.status in _SPEAK_FOR_THEMSELVES or _is_redirect(answer.status):
            return {}
        sentence = f"What answers at {self._place} is not this service: {answer.status}, not a JSON object"
        error_type = _ERROR_TYPES.get(answer.status, "unknown")
        if answer.status in _NO_ROUTE:
            raise RouteNotFoundError(sentence, error_type=error_type)
        raise UnavailableError(sentence, code=UNUSABLE, error_type=error_type)

    def lost(self, error: requests.RequestException, timeout_seconds: float) -> RagError:
        if is_read_timeout(error):
            return UnavailableError(f"{self.service} did not answer in time", code=_TIMEOUT, error_type="timeout")
        if (fault := tls_fault(error)) is not None:
            return ConfigurationError(f"{self.service} {fault}", error_type="network")
        error_type = "timeout" if isinstance(error, requests.ConnectTimeout) else "network"
        sentence, code = f"{self.service} cannot be reached", None
        if not self._service_id:
            is_refused = any(isinstance(each, ConnectionRefusedError) for each in wrapped(error))
            code = _NOBODY if is_refused and not self._has_answered else None
            sentence = (
                f"No service answers at {self._place}: start one with 'rag-wrapper serve', or name another by --url"
            )
        return UnavailableError(sentence, code=code, error_type=error_type)

    def oversized(self) -> RagError:
        sentence = f"{self.service} answered more than {self.max_answer_bytes} bytes"
        return UnavailableError(sentence, code=_TOO_LARGE, error_type="unknown")

    def refused(self, answer: Answer, redact: Redactor, *, has_key: bool) -> RagError:
        status, body = answer.status, redact(self.parsed(answer))
        if answer.is_ok:  # an error in a stream
            status = HTTPStatus.SERVICE_UNAVAILABLE
        sentence = body.get("message") or body.get("error")
        message = sentence[:MAX_SENTENCE_CHARS] if isinstance(sentence, str) else f"{self._place} answered {status}"
        details = body["details"] if isinstance(body.get("details"), dict) else {}
        code = body["code"] if isinstance(body.get("code"), str) else None
        missing = _MISSING_COLLECTION.fullmatch(message) if status == HTTPStatus.NOT_FOUND else None
        if code == CollectionNotFoundError.code or (code is None and missing):
            return CollectionNotFoundError(str(details.get("collection", missing[1] if missing else "")))
        if _is_redirect(status):
            return ConfigurationError(
                f"{self._place} redirects ({status}), which is not followed: "
                "configure the URL that the service stands at",
                error_type="invalid_config",
            )
        details = {**details, "error_type": _ERROR_TYPES.get(status, "unknown")}
        if status in _NO_ROUTE and (code is None or status == HTTPStatus.METHOD_NOT_ALLOWED):
            kind: type[RagError] = RouteNotFoundError
        elif code == InvalidFilterError.code:
            kind = InvalidFilterError
        elif status in _ERRORS:
            kind = _ERRORS[status]
        elif status == HTTPStatus.INTERNAL_SERVER_ERROR and code is not None:
            kind = RagError
        else:  # a status or a body that this service never has
            kind, code = UnavailableError, UNUSABLE
        error = kind(message, code=code)
        error.details = details
        if re.fullmatch(r"[0-9]{1,9}", asked := answer.headers.get("Retry-After", "")):
            error.retry_after_seconds = details["retry_after_seconds"] = int(asked)
        return error

    def may_pass(self, error: RagError) -> bool:
        return isinstance(error, UnavailableError) and error.code not in (_TIMEOUT, _TOO_LARGE, _NOBODY, UNUSABLE)

    def asked_wait_seconds(self, error: RagError) -> float | None:
        asked = error.details.get("retry_after_seconds")
        # The service's own details may hold any value under this name.
        return min(max(0.0, float(asked)), LONGEST_WAIT_SECONDS) if isinstance(asked, int | float) else None

    def log_retry(self, error: RagError, attempt: int) -> None:
        """Log nothing: commands ask by this client too, and their output is for people."""


PATIENT = replace(WrapperDialect.retry, longest_wait_seconds=LONGEST_WAIT_SECONDS)
"""The retry policy of commands, which wait in no request of a service's."""
ONCE = replace(WrapperDialect.retry, attempts=1)
"""The retry policy of requests that must not be sent twice, or are sent again later anyway."""


def _is_redirect(status: int) -> bool:
    return HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST
