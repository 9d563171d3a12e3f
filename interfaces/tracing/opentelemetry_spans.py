"""Traces by OpenTelemetry: spans are sent in the background, and never keep a request waiting.

This module alone imports OpenTelemetry, and is imported only where traces are wanted (`RAG_OTEL_ENDPOINT`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import structlog
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
from opentelemetry.trace import SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from prometheus_client import Counter

from providers.outbound.http_sessions import answer_within
from providers.outbound.network import Network
from schemas.errors import RagError
from schemas.observing import spans
from schemas.observing.spans import Attribute
from schemas.release import release
from schemas.settings import TracingSettings
from wrapper.web.error_statuses import STATUS

log = structlog.get_logger(__name__)

MOST_WAITING = 4_096
"""The most spans that wait to be sent. Further ones are dropped, and counted."""
PAUSE_SECONDS = 1.0
"""The time in which spans gather for the next message."""
EXPORT_SECONDS = 5.0
"""The most that a message to the collector may take, with what is tried again."""
EXPORTED = Counter("rag_spans_exported_total", "Spans that the collector has taken")
DROPPED = Counter("rag_spans_dropped_total", "Spans lost: too many waited, or the collector did not take them")
_PROPAGATOR = TraceContextTextMapPropagator()


class Tracing:
    """Traces the requests of one process."""

    def __init__(self, settings: TracingSettings, headers: Mapping[str, str], network: Network) -> None:
        sending = _Sending(settings, headers, network)
        self.close = sending.close
        ours = Resource.create({"service.name": "rag-wrapper", "service.version": release()})
        # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say otherwise.
        resource = ours.merge(OTELResourceDetector().detect())
        provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        provider.add_span_processor(sending)
        self._tracer = provider.get_tracer("rag-wrapper", release())

    def begin(self, method: str, route: str, traceparent: str) -> _Span:
        """Return the span of a request, a part of the trace that its caller names."""
        above = _PROPAGATOR.extract({"traceparent": traceparent}) if traceparent else None
        attributes = {"http.request.method": method, "http.route": route}
        begun = self._tracer.start_span(f"{method} {route}", context=above, kind=SpanKind.SERVER, attributes=attributes)
        return _Span(self._tracer, begun)


class _Span:
    def __init__(self, tracer: trace.Tracer, span: trace.Span) -> None:
        self._tracer = tracer
        self._span = span

    @property
    def traceparent(self) -> str:
        carrier: dict[str, str] = {}
        _PROPAGATOR.inject(carrier, context=trace.set_span_in_context(self._span))
        return carrier.get("traceparent", "")

    @contextmanager
    def child(self, name: str, attributes: Mapping[str, Attribute]) -> Iterator[spans.Span]:
        above = trace.set_span_in_context(self._span)
        begun = self._tracer.start_span(name, context=above, attributes=dict(attributes))
        try:
            yield _Span(self._tracer, begun)
        except BaseException as error:
            # Of an error its kind alone: its words may quote what was asked.
            begun.set_attribute("error.type", type(error).__name__)
            begun.set_status(Status(StatusCode.ERROR))
            raise
        finally:
            begun.end()

    def note(self, attributes: Mapping[str, Attribute]) -> None:
        self._span.set_attributes(attributes)

    def end(self, status: int, attributes: Mapping[str, Attribute]) -> None:
        """End the span of a request with the status of its answer."""
        self.note({"http.response.status_code": status, **attributes})
        if status >= STATUS[RagError]:
            self._span.set_status(Status(StatusCode.ERROR))
        self._span.end()


class _Sending(BatchSpanProcessor):
    """Sends spans that have ended, by a thread of its own."""

    def __init__(self, settings: TracingSettings, headers: Mapping[str, str], network: Network) -> None:
        session = network.session(settings.url)
        self._room = threading.Semaphore(MOST_WAITING)
        exporter = _Exporter(settings.url, headers=dict(headers), timeout=EXPORT_SECONDS, session=session)
        exporter.room = self._room
        super().__init__(exporter, MOST_WAITING, PAUSE_SECONDS * 1e3, MOST_WAITING)

    def on_end(self, span: ReadableSpan) -> None:
        is_sampled = span.context is not None and span.context.trace_flags.sampled
        if is_sampled and not self._room.acquire(blocking=False):
            DROPPED.inc()
        else:
            super().on_end(span)

    def close(self) -> None:
        """Send what waits, for a few seconds at most."""
        closing = threading.Thread(target=self.shutdown, daemon=True)
        closing.start()
        closing.join(EXPORT_SECONDS)


class _Exporter(OTLPSpanExporter):
    """Counts what the collector takes and what is lost, and makes room for as much."""

    room: threading.Semaphore

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = SpanExportResult.FAILURE
        try:
            with answer_within(EXPORT_SECONDS):
                result = super().export(spans)
        except Exception as error:
            log.warning("spans are lost", reason=type(error).__name__, spans=len(spans))
        (EXPORTED if result is SpanExportResult.SUCCESS else DROPPED).inc(len(spans))
        self.room.release(len(spans))
        return result
