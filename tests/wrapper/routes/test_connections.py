"""On a real server, connections survive every error, and large bodies and long lines are answered, not reset."""

import gzip
import json
import socket

import pytest

from tests.support.live import PATIENCE_SECONDS
from wrapper.web.bodies import READ_BYTES

DOCUMENT = {"id": "a", "text": "one", "embedding": [1.0, 0.0]}
LIMIT_BYTES = 8 << 20


def _announced(kind="application/json"):
    return f"Content-Type: {kind}\r\nContent-Length: {LIMIT_BYTES + 1}"


def _chunk(content, kind="application/json", encoding="identity"):
    head = f"Content-Type: {kind}\r\nContent-Encoding: {encoding}\r\nTransfer-Encoding: chunked"
    return head, f"{len(content):x}\r\n".encode() + content + b"\r\n"


CHROMA = "/api/v2/tenants/default_tenant/databases/default_database/collections"
DOCUMENTS = "/collections/{}/documents"
TOO_LARGE = {
    **{path: (path, _announced(), b"") for path in (DOCUMENTS, "/v1/embeddings", "/mcp", CHROMA, "/nowhere")},
    **{path: (path, _announced("multipart/form-data; boundary=b"), b"") for path in ("/api/documents", "/v1/files")},
    "unread": (DOCUMENTS, "Content-Type: text/plain\r\nContent-Length: 200000", b"x" * 100_000),
    "chunks": (DOCUMENTS, *_chunk(b" " * (LIMIT_BYTES + READ_BYTES))),
    "gzip": (DOCUMENTS, *_chunk(gzip.compress(b" " * (8 * LIMIT_BYTES), 1), encoding="gzip")),
    "line": (DOCUMENTS, *_chunk(b"x" * (LIMIT_BYTES + READ_BYTES), "application/x-ndjson")),
}


@pytest.fixture
def connection(live):
    with live.one_connection() as connection:
        yield connection


@pytest.fixture
def name(connection, collection):
    connection.ask("POST", "/collections", {"name": collection})
    connection.ask("POST", f"/collections/{collection}/documents", {"documents": [DOCUMENT]})
    return collection


def test_one_connection_survives_every_error(connection, name):
    url = f"/collections/{name}"
    shown = connection.ask("GET", url)
    json_headers = {"Content_Type": "application/json"}
    zipped = {**json_headers, "Content_Encoding": "gzip"}
    for status, method, path, body, headers in [
        (400, "POST", "/collections", b"{" * 100_000, json_headers),
        (400, "POST", "/collections", {"name": ""}, {}),
        (400, "POST", f"{url}/documents", {"documents": [{"text": "x"}] * 10_000}, {}),
        (400, "POST", f"{url}/documents", b"no gzip" * 10_000, zipped),
        (400, "POST", f"{url}/documents", b"{\n" * 1_000, {"Content_Type": "application/x-ndjson"}),
        (400, "POST", f"{url}/query", {"query_embedding": []}, {}),
        (404, "GET", "/no-such-route", b"x" * 300_000, {}),
        (404, "POST", "/collections/nowhere/documents", b"x" * 300_000, {"Content_Type": "application/x-ndjson"}),
        (404, "POST", "/collections/nowhere/query", {"query_embedding": [1.0] * 10_000}, {}),
        (405, "PATCH", "/health", b"x" * 300_000, {}),
        (409, "POST", "/collections", {"name": name, "metadata": {"x": "y" * 60_000}}, {}),
        (412, "PUT", f"{url}/metadata", {"metadata": {}}, {"If_Match": '"other"'}),
        (414, "GET", f"{url}/documents?where={'x' * 40_000}", None, {}),
        (414, "POST", f"{url}/query?x={'x' * 200_000}", {"query_embedding": [1, 0]}, {}),
        (415, "POST", "/collections", b"x" * 300_000, {"Content_Type": "text/plain"}),
    ]:
        answer = connection.ask(method, path, body, **headers)
        assert answer.status == status, (method, path, answer)
        assert answer.headers.get("Connection", "keep-alive").lower() == "keep-alive"
        assert answer.json["message"]
    assert connection.ask("GET", url).json == shown.json


def test_chunked_bodies_are_read_and_refused_alike(connection, name):
    url = f"/collections/{name}/documents"
    body = json.dumps({"documents": [{**DOCUMENT, "id": "chunked"}]}).encode()
    chunks = iter([body[:10], body[10:]])
    assert connection.ask("POST", url, chunks, Content_Type="application/json").status == 201
    assert connection.ask("GET", f"/collections/{name}").json["count"] == 2
    answer = connection.ask("POST", url, (b" " * (1 << 20) for _ in range(60)), Content_Type="application/json")
    assert (answer.status, answer.headers["Connection"]) == (413, "close")
    assert answer.json["details"]["limit_bytes"] == LIMIT_BYTES


@pytest.mark.parametrize(("path", "head", "sent"), TOO_LARGE.values(), ids=TOO_LARGE)
def test_a_body_that_is_refused_unread_is_refused_before_the_rest_has_come(live, name, path, head, sent):
    """The client sends no more, and waits less long than the service would."""
    with socket.create_connection(("127.0.0.1", live.port), timeout=20) as client:
        client.sendall(f"POST {path.format(name)} HTTP/1.1\r\nHost: localhost\r\n{head}\r\n\r\n".encode() + sent)
        answer = b"".join(iter(lambda: client.recv(1 << 16), b""))
    status = b"404" if path == "/nowhere" else b"415" if "text/plain" in head else b"413"
    assert answer.split()[1] == status
    assert b"Connection: close" in answer


def test_requests_that_come_before_the_answers_are_answered_in_order(live, name):
    body = b'{"ids": ["a"]}'
    head = (
        f"POST /collections/{name}/documents/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    )
    sent = b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n"
    sent += f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    sent += f"GET /collections/{name} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
    received = bytearray()
    with socket.create_connection(("127.0.0.1", live.port), timeout=PATIENCE_SECONDS) as client:
        client.sendall(sent[:-30])
        while b'"documents"' not in received:
            content = client.recv(1 << 16)
            assert content, received
            received += content
        client.sendall(sent[-30:])
        while content := client.recv(1 << 16):
            received += content
    assert received.count(b"HTTP/1.1 200 ") == 3
    assert received.index(b'"alive"') < received.index(b'"documents"') < received.index(b'"metric"')


def test_a_body_of_exactly_the_limit_is_read(connection, name):
    body = json.dumps({"documents": [{**DOCUMENT, "id": "large"}]}).encode()
    answer = connection.ask(
        "POST", f"/collections/{name}/documents", body.ljust(LIMIT_BYTES), Content_Type="application/json"
    )
    assert answer.status == 201


def test_a_client_that_disconnects_within_its_body_stores_nothing(live, connection, name):
    shown = connection.ask("GET", f"/collections/{name}").json
    with socket.create_connection(("127.0.0.1", live.port)) as gone:
        head = f"POST /collections/{name}/documents HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        gone.sendall(f"{head}Content-Length: 1000\r\n\r\n".encode() + b'{"documents": [{"id": "half"')
    assert connection.ask("GET", f"/collections/{name}").json == shown
