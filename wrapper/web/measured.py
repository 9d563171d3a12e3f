"""Measures each request and logs it when it is over: a streamed answer at its real end."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import cast

import structlog
from flask import Response, current_app, g, request

from schemas.access.credentials_in_text import Cleaner, cleaned_beginning, thorough
from schemas.errors import ClientGoneError, RagError
from schemas.observing import spans
from schemas.observing.spans import RequestSpan, Tracer
from schemas.storage import read_limits
from wrapper.observing import metrics
from wrapper.observing.recent import RecentRequests
from wrapper.web import request_parts
from wrapper.web.audited import NO_ROUTE, route_of
from wrapper.web.error_statuses import STATUS
from wrapper.web.lanes import Lane

log = structlog.get_logger("wrapper.requests")

QUIET = frozenset(
    {"service.health", "service.live", "service.ready", "service.show_metrics", "service.docs_asset", "guide.file"}
)
MAX_LOGGED_CHARACTERS = 2_048
"""The longest that a path is logged; a refused request costs nothing, and must not fill the disk."""
RECENT, TRACER = "rag.recent", "rag.tracer"
KINDS = {
    Lane.STATE: "state",
    Lane.READ: "read",
    Lane.WRITE: "write",
    Lane.UPLOAD: "upload",
    Lane.COMPUTING: "computing",
    Lane.SERVICE: "service",
    Lane.EMBEDDING: "embedding",
}
OTHER = "other"
BODILESS = (204, 304)
"""The statuses whose answers have no body."""


def recent() -> RecentRequests:
    return cast(RecentRequests, current_app.extensions[RECENT])


def begin() -> None:
    """Have this request traced, where traces are wanted."""
    tracer: Tracer | None = current_app.extensions.get(TRACER)
    if tracer is None or request.endpoint in QUIET:
        return
    method = metrics.known_method(request.method)
    g.span = tracer.begin(method, _route(), request.headers.get("traceparent", ""))
    g.traced = spans.within(g.span)
    g.traced.__enter__()


def leave() -> None:
    """Go on without the span of this request, whose answer may not have ended."""
    if "traced" in g:
        g.pop("traced").__exit__(None, None, None)


def end(response: Response) -> None:
    """Measure a request whose answer is complete, and have one that is streamed measured when it ends."""
    route = request_parts.declared()
    asked = _Asked(
        method=request.method,
        route=_route(),
        path="" if request.endpoint in QUIET else for_logs(request.path),
        status=STATUS[ClientGoneError] if _has_left() else response.status_code,
        request_id=g.request_id,
        plan=g.get("plan"),
        kind=OTHER if route is None else KINDS.get(route.lane, OTHER),
        began=g.began,
        recent=recent(),
        span=g.get("span"),
    )
    has_body = request.method != "HEAD" and response.status_code not in BODILESS
    if not (response.is_streamed and has_body):
        asked.tell(response.calculate_content_length() or 0 if has_body else 0)
        return
    if response.direct_passthrough:  # Flask closes nothing then but what it passes through
        response.response = _Stream(asked, cast(Iterable[bytes], response.response))
        return
    stream = _Stream(asked, response.iter_encoded())
    response.response = iter(stream)
    response.call_on_close(stream.close)  # because its first part may never be asked for


def _has_left() -> bool:
    """Return whether the client left within its body or while it was read for: what is answered then, nobody wanted."""
    limit = read_limits.current()
    return "body_is_cut" in g or (limit is not None and limit.has_left)


def _route() -> str:
    return route_of(request.url_rule.rule) if request.url_rule else NO_ROUTE


def cleaner() -> Cleaner:
    """Return what cleans a text of which nobody takes names."""
    return thorough(current_app.extensions["rag.clean"])


def for_logs(path: str) -> str:
    return cleaned_beginning(path, MAX_LOGGED_CHARACTERS, cleaner())


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is known of a request when its answer begins; the answer may end when the request is forgotten."""

    method: str
    route: str
    path: str
    status: int
    request_id: str
    plan: str | None
    kind: str
    began: float
    recent: RecentRequests
    span: RequestSpan | None

    def tell(
        self, sent_bytes: int, *, first_byte_seconds: float | None = None, cut: bool = False, has_left: bool = False
    ) -> None:
        """Count and log the request; one whose client `has_left` before the end counts as that alone."""
        seconds = time.perf_counter() - self.began
        status = STATUS[ClientGoneError] if has_left else self.status
        method = metrics.known_method(self.method)
        metrics.REQUESTS.labels(method, self.route, status).inc()
        metrics.REQUEST_SECONDS.labels(method, self.route).observe(seconds)
        metrics.RESPONSE_BYTES.labels(self.route).inc(sent_bytes)
        if first_byte_seconds is not None or cut:
            metrics.STREAMS_CUT.labels(self.route).inc(cut)
        if first_byte_seconds is not None:
            metrics.FIRST_BYTE_SECONDS.labels(self.route).observe(first_byte_seconds)
        if self.plan is not None:
            metrics.QUERY_PLANS.labels(self.plan).inc()
        failed = (cut and not has_left) or status >= STATUS[RagError]
        self.recent.count(self.kind, seconds, failed=failed)
        if self.span is not None:
            self.span.end(status, {"rag.request_id": self.request_id, "rag.bytes": sent_bytes, "rag.cut": cut})
        if not self.path:
            return
        known: dict[str, object] = {} if self.plan is None else {"plan": self.plan}
        if first_byte_seconds is not None:
            known["first_byte_ms"] = round(first_byte_seconds * 1e3, 2)
        if cut:
            known["cut"] = True
        if status == STATUS[ClientGoneError]:
            known["code"] = ClientGoneError.code
        log.info(
            "request",
            method=self.method,
            path=self.path,
            status=status,
            latency_ms=round(seconds * 1e3, 2),
            bytes=sent_bytes,
            request_id=self.request_id,
            **known,
        )


class _Stream:
    """An answer that is told of once: when all of it was taken, or when it broke off."""

    def __init__(self, asked: _Asked, content: Iterable[bytes]) -> None:
        self._asked = asked
        self._content = content
        self._sent_bytes = 0
        self._first_byte_seconds: float | None = None
        self._is_whole = False
        self._has_left = True
        self._is_told = False

    def __iter__(self) -> Iterator[bytes]:
        try:
            content = self._content if self._asked.span is None else _in_span(self._asked.span, self._content)
            for part in content:
                if self._first_byte_seconds is None and part:
                    self._first_byte_seconds = time.perf_counter() - self._asked.began
                yield part
                self._sent_bytes += len(part)
            self._is_whole = True
        except BaseException as error:
            self._has_left = isinstance(error, GeneratorExit | BrokenPipeError)
            raise
        finally:
            self._tell()

    def close(self) -> None:
        close = getattr(self._content, "close", None)
        if close is not None:
            close()
        self._tell()

    def _tell(self) -> None:
        if not self._is_told:
            self._is_told = True
            cut, first = not self._is_whole, self._first_byte_seconds
            self._asked.tell(self._sent_bytes, first_byte_seconds=first, cut=cut, has_left=cut and self._has_left)


def _in_span(span: RequestSpan, content: Iterable[bytes]) -> Iterator[bytes]:
    parts = iter(content)
    while True:
        with spans.within(span):  # between two parts this thread may work for others
            part = next(parts, None)
        if part is None:
            return
        yield part
