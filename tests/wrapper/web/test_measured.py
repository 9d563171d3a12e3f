"""What is logged and counted of an answer that is streamed: at its real end."""

import socket
import threading
from collections import Counter

import pytest
from flask import Flask, Response, g

from schemas.storage import read_limits
from tests.support.live import PATIENCE_SECONDS
from tests.support.logs import logs_of
from wrapper.observing import metrics
from wrapper.observing.recent import RecentRequests
from wrapper.web import measured
from wrapper.web.route_table import RouteTable
from wrapper.web.slow_clients import Patience, PatientSocket

ROUTE = "/streams/{id}"
TOOL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "rag_collections", "arguments": {}}}
CUT = {"method": "POST", "environ_overrides": {"CONTENT_LENGTH": "1000"}}
CALLS = {
    "read": {"path": "/collections"},
    "chroma": {"path": "/api/v2/tenants/default_tenant/databases/default_database/collections"},
    "openai": {"path": "/v1/vector_stores"},
    "mcp": {"path": "/mcp", "method": "POST", "json": TOOL},
    "body": {"path": "/collections", "content_type": "application/json", **CUT},
    "upload": {"path": "/api/documents", "content_type": "multipart/form-data; boundary=b", **CUT},
}


@pytest.fixture
def entries(monkeypatch):
    return logs_of(monkeypatch, "wrapper.web.measured")


@pytest.fixture
def go_on():
    return threading.Event()


@pytest.fixture
def client(go_on):
    app = Flask("streams")
    app.extensions |= {
        "rag.clean": lambda text: text,
        "rag.routes": RouteTable(),
        measured.RECENT: RecentRequests(None, 1),
    }

    def parts():
        yield b"first"
        assert go_on.wait(PATIENCE_SECONDS)
        yield b"second"

    def broken():
        yield b"first"
        raise ValueError("the source is gone")

    @app.before_request
    def begin():
        g.began, g.request_id = measured.time.perf_counter(), "r1"

    app.after_request(lambda response: measured.end(response) or response)
    app.add_url_rule("/streams/<document_id>", view_func=lambda document_id: Response(parts()), endpoint="whole")
    app.add_url_rule("/broken", view_func=lambda: Response(broken()), endpoint="broken")
    app.add_url_rule("/file", view_func=lambda: Response(iter([b"a", b"bc"]), direct_passthrough=True), endpoint="file")
    return app.test_client()


def counted(metric, *labels):
    return metric.labels(*labels)._value.get()


def test_a_stream_is_told_of_when_its_last_byte_was_taken(client, entries, go_on):
    before = counted(metrics.REQUESTS, "GET", ROUTE, 200)
    answer = client.get("/streams/7", buffered=False)
    parts = iter(answer.response)
    assert next(parts) == b"first"
    assert (entries, counted(metrics.REQUESTS, "GET", ROUTE, 200)) == ([], before)
    go_on.set()
    assert list(parts) == [b"second"]
    (entry,) = entries
    assert (entry["path"], entry["bytes"], entry["request_id"]) == ("/streams/7", 11, "r1")
    assert entry["first_byte_ms"] <= entry["latency_ms"]
    assert "cut" not in entry
    assert counted(metrics.REQUESTS, "GET", ROUTE, 200) == before + 1
    answer.close()
    assert len(entries) == 1


@pytest.mark.parametrize("taken", [0, 1])
def test_a_stream_whose_reader_has_gone_is_told_of_as_cut(client, entries, taken):
    before = counted(metrics.STREAMS_CUT, ROUTE)
    answer = client.get("/streams/7", buffered=False)
    parts = iter(answer.response)
    for _ in range(taken):
        next(parts)
    answer.close()
    (entry,) = entries
    assert (entry["cut"], entry["status"], entry["code"]) == (True, 499, "client_closed_request")
    assert counted(metrics.STREAMS_CUT, ROUTE) == before + 1
    assert client.application.extensions[measured.RECENT].minutes()[-1].total.errors == 0


def test_a_stream_that_fails_is_told_of_as_cut_and_failed(client, entries):
    with pytest.raises(ValueError, match="the source is gone"):
        client.get("/broken", buffered=True)
    (entry,) = entries
    assert (entry["cut"], entry["bytes"], entry["status"]) == (True, 5, 200)
    assert client.application.extensions[measured.RECENT].minutes()[-1].total.errors == 1


def test_a_file_that_is_passed_through_is_measured_to_its_end(client, entries):
    assert client.get("/file").data == b"abc"
    (entry,) = entries
    assert (entry["bytes"], "cut" in entry) == (3, False)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_request_whose_client_has_left_counts_as_that_alone(app, monkeypatch, call):
    def statuses():
        counted = [each for each in next(iter(metrics.REQUESTS.collect())).samples if each.name.endswith("_total")]
        return Counter(each.labels["status"] for each in counted for _ in range(int(each.value)))

    monkeypatch.setattr(read_limits, "LOOK_SECONDS", -1.0)
    ours, theirs = socket.socketpair()
    theirs.close()
    with PatientSocket(ours.detach(), Patience(1.0, 1)) as connection:
        before = statuses()
        app.test_client().open(**call, environ_base={"gunicorn.socket": connection})
    assert statuses() - before == {"499": 1}


def test_methods_and_paths_that_clients_invent_make_no_series(client, entries):
    client.open("/no/such/path/7", method="BREW", buffered=True)
    labels = {each.labels["method"] + each.labels["route"] for each in next(iter(metrics.REQUESTS.collect())).samples}
    assert "otherunknown" in labels
    assert not any("BREW" in each or "/no/" in each for each in labels)
