"""A collector of traces on loopback: it takes spans by OTLP over HTTP and keeps them."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.live import PATIENCE_SECONDS


@dataclass
class TakenSpan:
    """A span as it was sent. `parent` is empty for the first of a trace that nobody else began."""

    name: str
    trace: str
    id: str
    parent: str
    attributes: dict[str, Any]
    is_failed: bool


@dataclass
class Collector:
    """Keeps what is sent. While `hangs`, requests get no answer until `go_on` is set."""

    url: str = ""
    spans: list[TakenSpan] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    resources: list[dict[str, Any]] = field(default_factory=list)
    content: list[bytes] = field(default_factory=list)
    status: int = 200
    hangs: bool = False
    go_on: threading.Event = field(default_factory=threading.Event)

    def tree(self, root: str) -> dict[str, Any] | None:
        """Return the names of the spans below the newest whole trace whose root has this name."""
        found = [each for each in self.spans if each.name == root]
        return None if not found else self._below(found[-1])

    def _below(self, span: TakenSpan) -> dict[str, Any]:
        children = [each for each in self.spans if (each.trace, each.parent) == (span.trace, span.id)]
        return {each.name: self._below(each) for each in children}


@contextmanager
def running_collector() -> Iterator[Collector]:
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            content = self.rfile.read(int(self.headers["Content-Length"]))
            collector.headers.append(dict(self.headers))
            collector.content.append(content)
            if collector.hangs:
                collector.go_on.wait(PATIENCE_SECONDS)
            if collector.status == 200:
                _keep(collector, content)
            self.send_response(collector.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    collector.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield collector
    finally:
        collector.go_on.set()
        server.shutdown()
        thread.join()
        server.server_close()


def _keep(collector: Collector, content: bytes) -> None:
    for resource in ExportTraceServiceRequest.FromString(content).resource_spans:
        collector.resources.append(_values(resource.resource.attributes))
        for scope in resource.scope_spans:
            collector.spans += [
                TakenSpan(
                    span.name,
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    _values(span.attributes),
                    span.status.code == 2,
                )
                for span in scope.spans
            ]


def _values(attributes: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}
