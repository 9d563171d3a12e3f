"""A collection is exported as a stream of lines that is whole, exact and of one revision; an import restores it completely,
or says how far it came."""

import base64
import gzip
import hashlib
import json
import socket
import threading

import numpy as np
import orjson
import pytest

from tests.support.live import PATIENCE_SECONDS, eventually
from wrapper.catalog.reads import DOCUMENTS_AT_ONCE
from wrapper.web import line_streams


def _document(number, **fields):
    return {
        **{"id": f"d{number}", "text": f"text {number}", "metadata": {"n": number}, "embedding": [1.0, number]},
        **fields,
    }


def _lines(*documents):
    return b"".join(json.dumps(each).encode() + b"\n" for each in documents)


def _digest(body):
    return f"sha-256=:{base64.b64encode(hashlib.sha256(body).digest()).decode()}:"


@pytest.fixture
def send(client):
    def send(name, body, **headers):
        named = {key.replace("_", "-"): text for key, text in headers.items()}
        return client.post(f"/collections/{name}/import", data=body, headers=named, content_type="application/x-ndjson")

    return send


def test_a_repeated_import_writes_the_missing_documents(client, filled, send):
    name = filled([_document(0), _document(1, text="another"), _document(99)])
    answer = send(name, _lines(*(_document(each) for each in range(4)))).json
    assert (answer["created"], answer["updated"], answer["unchanged"]) == (2, 1, 1)
    answer = send(name, _lines(*(_document(each) for each in range(4)))).json
    assert (answer["unchanged"], answer["revision"], answer["verified"]) == (4, 3, False)
    assert client.get(f"/collections/{name}").json["count"] == 5, "documents that the stream lacks stay"


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (b"{", "invalid_json"),
        (_lines({"id": "x", "text": "x"}), "embedding_required"),
        (_lines({"text": "x", "embedding": [1, 2]}), "invalid_id"),
        (_lines({"id": "x", "text": "x", "embedding": [1]}), "dimension_mismatch"),
    ],
)
def test_the_first_bad_line_ends_an_import_and_a_repeat_continues_it(client, filled, send, monkeypatch, bad, code):
    monkeypatch.setattr(line_streams, "LINES_PER_TRANSACTION", 50)
    name = filled([_document(0)])
    good = [_document(number) for number in range(120)]
    answer = send(name, _lines(*good[:110]) + bad.rstrip() + b"\n" + _lines(*good[110:]))
    assert (answer.status_code, answer.json["code"]) == (400, code)
    assert answer.json["details"]["line"] == 111
    stored = client.get(f"/collections/{name}").json["count"]
    assert answer.json["details"]["count"] == stored == 100
    assert "100 documents are stored" in answer.json["message"]
    assert send(name, _lines(*good)).json["unchanged"] == 100
    assert client.get(f"/collections/{name}").json["count"] == 120


BODY = _lines(_document(0), _document(1))


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"X_Document_Count": "3"}, "count_mismatch"),
        ({"Content_Digest": _digest(b"")}, "digest_mismatch"),
        ({"X_Document_Count": "2", "Content_Digest": f"md5=:x:, {_digest(BODY[:-1])}"}, "digest_mismatch"),
    ],
)
def test_a_stream_that_differs_from_its_announcement_is_an_error_that_says_what_is_stored(
    client, filled, send, headers, code
):
    name = filled()
    answer = send(name, BODY, **headers)
    assert (answer.status_code, answer.json["code"]) == (400, code)
    assert answer.json["details"]["count"] == client.get(f"/collections/{name}").json["count"] == 2


def test_an_unreadable_announcement_is_refused(filled, send, unchanged):
    name = filled()
    counts = ("", "-1", "two", "1.0", "٣", "1" * 30)
    digests = ("", "::", "x", ":x:", f":{'A' * 42}:", _digest(b"")[9:-1])
    with unchanged(name):
        for header, text in (
            *(("X_Document_Count", each) for each in counts),
            *(("Content_Digest", f"sha-256={each}") for each in digests),
        ):
            answer = send(name, BODY, **{header: text})
            assert (answer.status_code, answer.json["details"]["field"]) == (400, header.replace("_", "-")), text


def test_the_stream_may_be_gzip_and_the_digest_is_that_of_the_bytes_sent(filled, send):
    packed = gzip.compress(BODY)
    name = filled()
    answer = send(name, packed, Content_Encoding="gzip", Content_Digest=_digest(packed))
    assert (answer.status_code, answer.json["count"], answer.json["verified"]) == (200, 2, True)
    assert send(name, BODY, Content_Digest="sha-512=:AAAA:").json["verified"] is False, "of another algorithm"


@pytest.mark.parametrize("chunked", [False, True])
def test_a_stream_that_breaks_off_is_resumed(live, collection, chunked):
    body = _lines(*(_document(number, text="x" * 1_000) for number in range(1_500)))
    with live.one_connection() as connection:
        assert connection.ask("POST", "/collections", {"name": collection}).status == 201
        head = f"POST /collections/{collection}/import HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
        half = body[: len(body) // 2]
        with socket.create_connection(("127.0.0.1", live.port)) as gone:
            if chunked:
                gone.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n{len(body):x}\r\n".encode() + half)
            else:
                gone.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + half)
            gone.shutdown(socket.SHUT_WR)
            gone.settimeout(PATIENCE_SECONDS)
            answer = b"".join(iter(lambda: gone.recv(1 << 16), b""))
        assert b'"code":"body_cut_short"' in answer
        assert b" 500 documents are stored" in answer
        eventually(lambda: connection.ask("GET", f"/collections/{collection}").json["count"] == 500)
        answer = connection.ask("POST", f"/collections/{collection}/import", body, Content_Type="application/x-ndjson")
        assert (answer.json["unchanged"], answer.json["created"]) == (500, 1_000)


def _documents(count, dimension=3):
    vectors = np.random.default_rng(count).normal(size=(count, dimension)).astype("<f4")
    return [
        {
            "id": f"d{number}",
            "text": f"line one\nline two\u2028 {number}",
            "metadata": {"number": number, "tags": ["a", None], "inner": {"big": 2**63 - 1}},
            "embedding": vectors[number].tolist(),
        }
        for number in range(count)
    ]


def _lines_of(answer):
    return [orjson.loads(line) for line in answer.get_data().splitlines()]


@pytest.mark.parametrize("count", [0, 1, DOCUMENTS_AT_ONCE, DOCUMENTS_AT_ONCE * 2 + 1])
def test_every_document_is_a_line_in_order_and_exact_to_the_last_bit(client, filled, count):
    given = _documents(count)
    name = filled(given)
    answer = client.get(f"/collections/{name}/export")
    assert (answer.status_code, answer.mimetype) == (200, "application/x-ndjson")
    assert answer.headers["X-Document-Count"] == str(count)
    assert answer.headers["ETag"] == client.get(f"/collections/{name}").headers["ETag"]
    lines = _lines_of(answer)
    for line, document in zip(lines, given, strict=True):
        vector = np.frombuffer(base64.b64decode(line.pop("embedding")), dtype="<f4")
        assert vector.tobytes() == np.array(document["embedding"], dtype="<f4").tobytes()
        assert line == {key: document[key] for key in ("id", "text", "metadata")}


def test_an_export_that_the_caller_already_has_is_not_sent_again(client, filled):
    name = filled(_documents(1))
    etag = client.head(f"/collections/{name}/export").headers["ETag"]
    assert client.get(f"/collections/{name}/export", headers={"If-None-Match": etag}).status_code == 304
    assert client.get(f"/collections/{name}").json["count"] == 1


def test_writes_during_an_export_are_not_in_it(client, app, filled):
    given = _documents(DOCUMENTS_AT_ONCE * 2)
    name = filled(given)

    def change():
        with app.test_client() as other:
            path = f"/collections/{name}/documents"
            assert other.delete(path, json={"ids": [given[-1]["id"]]}).status_code == 200
            assert other.patch(f"{path}/d{DOCUMENTS_AT_ONCE}", json={"text": "changed"}).status_code == 200

    with app.extensions["rag.service"].store.export(name) as (collection, blocks):
        exported = next(blocks)
        writer = threading.Thread(target=change)
        writer.start()
        writer.join()
        exported += [document for block in blocks for document in block]
    assert collection.count == len(given)
    assert [(each.id, each.text) for each in exported] == [(each["id"], each["text"]) for each in given]
    assert client.get(f"/collections/{name}").json["count"] == len(given) - 1
