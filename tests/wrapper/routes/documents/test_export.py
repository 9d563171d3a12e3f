"""A collection is exported as a stream of lines that is whole, exact and of one revision."""

import base64
import threading

import numpy as np
import orjson
import pytest
import requests

from tests.support.live import PATIENCE_SECONDS
from wrapper.catalog.reads import DOCUMENTS_AT_ONCE


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


def _lines(answer):
    return [orjson.loads(line) for line in answer.get_data().splitlines()]


@pytest.mark.parametrize("count", [0, 1, DOCUMENTS_AT_ONCE, DOCUMENTS_AT_ONCE * 2 + 1])
def test_every_document_is_a_line_in_order_and_exact_to_the_last_bit(client, filled, count):
    given = _documents(count)
    name = filled(given)
    answer = client.get(f"/collections/{name}/export")
    assert (answer.status_code, answer.mimetype) == (200, "application/x-ndjson")
    assert answer.headers["X-Document-Count"] == str(count)
    assert answer.headers["ETag"] == client.get(f"/collections/{name}").headers["ETag"]
    lines = _lines(answer)
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


def test_a_reader_that_goes_away_harms_nobody(live, session, collection):
    url = f"{live.url}/collections/{collection}"
    assert session.post(f"{live.url}/collections", json={"name": collection}).status_code == 201
    documents = f"{url}/documents"
    given = [{**document, "text": "x" * 20_000} for document in _documents(400)]
    for start in range(0, len(given), 20):
        assert session.post(documents, json={"documents": given[start : start + 20]}).status_code == 201
    for _ in range(40):
        with requests.get(f"{url}/export", stream=True, timeout=PATIENCE_SECONDS) as answer:
            assert answer.raw.read(100)
    for _ in range(40):
        assert session.get(documents, params={"limit": 1}).json()["total"] == len(given)
    assert session.delete(url).status_code == 200
