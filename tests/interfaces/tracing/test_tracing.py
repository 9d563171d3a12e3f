"""Requests are traced from the request to the plan, the engine and the embedding, and no request waits for that."""

import threading
from types import SimpleNamespace

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client import REGISTRY

from interfaces.start_checks import look_before_start
from interfaces.tracing.opentelemetry_spans import MOST_WAITING, Tracing
from providers.outbound.network import Network
from registry.placeholders.resolving import OWN_VARIABLES
from schemas.errors import ConfigurationError
from schemas.observing import spans
from schemas.settings import TracingSettings, read_tracing_headers, read_tracing_settings
from tests.registry.hostile import response
from tests.support.live import PATIENCE_SECONDS, eventually, live_service
from tests.support.raw_server import raw_server

QUESTION, TEXT, TOKEN = "where do the herons winter", "The herons winter in the delta.", "collector-token-4711"
TRACE, ABOVE = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.fixture
def collector():
    collector = Collector()
    with raw_server(collector.speak) as server:
        collector.url = server.url
        yield collector
        collector.go_on.set()


@pytest.fixture
def tracing(collector):
    opened = Tracing(TracingSettings(collector.url), {}, Network())
    yield opened
    collector.go_on.set()
    opened.close()


def dropped():
    return REGISTRY.get_sample_value("rag_spans_dropped_total")


def test_a_service_traces_a_search_and_a_write(tmp_path, monkeypatch, collector, processes):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"authorization=Bearer%20{TOKEN}")
    with (
        live_service(
            tmp_path, workers=1, otel_endpoint=collector.url, exact_ms=0, recall=0, memory_vectors_mb=0
        ) as service,
        service.session() as session,
    ):
        body = {"source": "birds", "path": "herons.md", "title": "Herons", "text": TEXT}
        session.post(f"{service.url}/api/rag/ingest", json=body).raise_for_status()
        traced = {"traceparent": f"00-{TRACE}-{ABOVE}-01"}
        found = session.post(f"{service.url}/api/search", json={"query": QUESTION}, headers=traced)
        assert found.json()["results"]
        base = f"{service.url}/collections/many"
        session.post(f"{service.url}/collections", json={"name": "many"}).raise_for_status()
        documents = [{"id": str(each), "text": "x", "embedding": [each / 7, *[1.0] * 63]} for each in range(500)]
        session.post(f"{base}/documents?wait=index", json={"documents": documents}).raise_for_status()

        def is_asked():
            return session.post(f"{base}/query", json={"query_embedding": [1.0] * 64}).json()["plan"] == "index"

        eventually(is_asked, complaint=service.tail)
        eventually(lambda: collector.tree("POST /collections/{name}/query") == {"plan": {"engine query": {}}})
        names = ("POST /api/rag/ingest", "POST /api/search")
        eventually(lambda: all(map(collector.tree, names)), complaint=service.tail)
    write, search = map(collector.tree, names)
    assert {"embed", "catalogue commit", "wait for index"} <= write.keys()
    oracles = [each for each in collector.spans if each.name == "oracle" and each.trace == TRACE]
    assert {each.attributes["oracle"] for each in oracles} == {"semantic", "lexical", "persona"}
    assert search["oracle"] is not None
    (root,) = (each for each in collector.spans if each.name == "POST /api/search")
    assert (root.trace, root.parent) == (TRACE, ABOVE)
    assert root.attributes["http.response.status_code"] == 200
    assert root.attributes["rag.request_id"] == found.headers["X-Request-ID"]
    (embedded,) = (each for each in collector.spans if each.name == "embed" and each.trace == TRACE)
    assert embedded.attributes == {"provider": "minilm", "texts": 1}
    plans = [each for each in collector.spans if each.name == "plan" and each.trace == TRACE]
    assert {each.attributes["plan"] for each in plans} <= {"exact", "memory", "index", "scan"}
    assert plans
    assert {each.parent for each in plans} <= {each.id for each in oracles}
    assert all(each["service.name"] == "rag-wrapper" for each in collector.resources)
    assert all(each["authorization"] == f"Bearer {TOKEN}" for each in collector.headers)
    sent = b"".join(collector.content)
    assert not any(word in sent for word in (b"heron", b"delta", b"birds"))
    assert TOKEN not in service.log.read_text()


def test_an_error_is_told_by_its_kind_alone(tracing, collector):
    root = tracing.begin("GET", "/x", "")

    @spans.spanned("work")
    def fail():
        spans.note(more="yes")
        raise ConfigurationError("the secret of this")

    with spans.within(root), pytest.raises(ConfigurationError):
        fail()
    root.end(500, {})
    eventually(lambda: collector.tree("GET /x"))
    work, request = sorted(collector.spans, key=lambda span: span.name, reverse=True)
    assert (work.is_failed, request.is_failed) == (True, True)
    assert work.attributes == {"more": "yes", "error.type": "ConfigurationError"}
    assert b"secret" not in b"".join(collector.content)
    assert tracing.begin("GET", "/x", "not a traceparent").traceparent.startswith("00-")


@pytest.mark.slow
def test_a_collector_that_hangs_keeps_nobody_waiting_and_what_is_dropped_is_counted(tracing, collector):
    collector.hangs = True
    tracing.begin("GET", "/first", "").end(200, {})
    eventually(lambda: collector.content)
    before = dropped()
    for _ in range(MOST_WAITING + 10):
        tracing.begin("GET", "/more", "").end(200, {})
    assert dropped() - before >= 10


def test_what_a_collector_refuses_is_counted_as_dropped(tracing, collector):
    collector.status = 400
    before = dropped()
    tracing.begin("GET", "/x", "").end(200, {})
    eventually(lambda: dropped() == before + 1)


@pytest.mark.parametrize("url", ["collector:4318", "http://", "ftp://x", "http://u:p@x", "http://x/?a=1", "http://x:0"])
def test_what_is_no_address_is_said_before_the_start(monkeypatch, url):
    monkeypatch.setenv("RAG_OTEL_ENDPOINT", url)
    with pytest.raises(ConfigurationError, match="RAG_OTEL_ENDPOINT: Must be a URL"):
        read_tracing_settings()
    assert TracingSettings("http://c:4318").url == "http://c:4318/v1/traces"
    assert TracingSettings("https://c/otlp/v1/traces/").url == "https://c/otlp/v1/traces"


def test_the_headers_are_secret(monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "a=1%202, b = x ,")
    assert read_tracing_headers() == {"a": "1 2", "b": "x"}
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "planted")
    with pytest.raises(ConfigurationError) as raised:
        read_tracing_headers()
    assert "planted" not in raised.value.message
    assert "OTEL_EXPORTER_OTLP_HEADERS" in OWN_VARIABLES


def test_a_start_says_what_traces_lack(monkeypatch, tmp_path):
    monkeypatch.setenv("RAG_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("RAG_OTEL_ENDPOINT", "http://no-such-name.invalid:4318")
    found = look_before_start()
    assert [each for each in found.warnings if "RAG_OTEL_ENDPOINT" in each]
    monkeypatch.setenv("RAG_OTEL_ENDPOINT", "http://127.0.0.1:4318")
    monkeypatch.setenv("RAG_CONNECT_POLICY", "public")
    assert "RAG_OTEL_ENDPOINT: RAG_CONNECT_POLICY lets" in " ".join(look_before_start().problems)
    monkeypatch.delenv("RAG_CONNECT_POLICY")
    monkeypatch.setattr("interfaces.tracing.wanted.PACKAGES", ("opentelemetry_that_is_not.here",))
    assert "rag-wrapper[tracing]" in " ".join(look_before_start().problems)


class Collector:
    """Keeps what is sent. While `hangs`, requests get no answer until `go_on` is set. The `parent` of a span is empty
    for the first of a trace that nobody else began."""

    def __init__(self):
        self.spans, self.headers, self.resources, self.content = [], [], [], []
        self.status, self.hangs, self.go_on = 200, False, threading.Event()

    def tree(self, root):
        """Return the names of the spans below the newest whole trace whose root has this name."""
        found = [each for each in self.spans if each.name == root]
        return None if not found else self._below(found[-1])

    def _below(self, span):
        children = [each for each in self.spans if (each.trace, each.parent) == (span.trace, span.id)]
        return {each.name: self._below(each) for each in children}

    def speak(self, server, connection):
        head, _, content = server.requests[-1].partition(b"\r\n\r\n")
        self.headers.append(dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:]))
        self.content.append(content)
        if self.hangs:
            self.go_on.wait(PATIENCE_SECONDS)
        if self.status == 200:
            self._keep(content)
        connection.sendall(response(b"", f"{self.status} As the test says"))

    def _keep(self, content):
        for resource in ExportTraceServiceRequest.FromString(content).resource_spans:
            self.resources.append(values(resource.resource.attributes))
            self.spans += [
                SimpleNamespace(
                    name=span.name,
                    trace=span.trace_id.hex(),
                    id=span.span_id.hex(),
                    parent=span.parent_span_id.hex(),
                    attributes=values(span.attributes),
                    is_failed=span.status.code == 2,
                )
                for scope in resource.scope_spans
                for span in scope.spans
            ]


def values(attributes):
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}
