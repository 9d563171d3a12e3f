"""A write with an `Idempotency-Key` is done once; the repeat gets the first answer."""

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor

import orjson
import pytest

from tests.wrapper.routes.conftest import TWO_DOCUMENTS, WRITES_TO_TWO
from wrapper.web import line_streams


@pytest.fixture
def key():
    return str(uuid.uuid4())


@pytest.mark.parametrize(("method", "route", "body"), WRITES_TO_TWO.values(), ids=WRITES_TO_TWO)
def test_the_repeat_gets_the_first_answer_also_after_other_writes(client, filled, key, method, route, body):
    url = f"/collections/{filled(TWO_DOCUMENTS)}{route}"
    first = client.open(url, method=method, json=body, headers={"Idempotency-Key": key})
    if route != "/documents/a":  # whose repeat is answered with the document as it is now
        client.post(f"{url.removesuffix(route)}/documents", json={"documents": [{**TWO_DOCUMENTS[1], "id": "later"}]})
    shown = client.get(url.removesuffix(route)).json
    again = client.open(url, method=method, json=body, headers={"Idempotency-Key": key})
    assert first.status_code in (200, 201)
    assert ("Idempotent-Replayed" in first.headers, again.headers["Idempotent-Replayed"]) == (False, "true")
    assert (again.status_code, again.data) == (first.status_code, first.data)
    assert again.headers.get("ETag") == first.headers.get("ETag")
    assert client.get(url.removesuffix(route)).json == shown


LINE = b'{"id": "a", "text": "streamed", "embedding": [1, 0], "colour": 1}\n'
WITHOUT_IDS = [b'{"text": "streamed", "embedding": [1, %d], "colour": 1}\n' % number for number in range(25)]
STREAMS = {
    "stream": ("/documents", LINE, 2),
    "stream with a bad line": ("/documents", LINE + b"{}\n", 2),
    "stream without ids": ("/documents", b"".join(WITHOUT_IDS[:2]), 4),
    "stream without ids in several transactions": ("/documents", b"".join(WITHOUT_IDS), 27),
    "import": ("/import", LINE, 2),
}


@pytest.mark.parametrize(("route", "lines", "count"), STREAMS.values(), ids=STREAMS)
def test_the_repeat_of_a_stream_stores_nothing_and_gets_the_first_answer(
    client, filled, key, monkeypatch, route, lines, count
):
    monkeypatch.setattr(line_streams, "LINES_PER_TRANSACTION", 10)
    name = filled(TWO_DOCUMENTS)
    url = f"/collections/{name}{route}"
    sent = {"data": lines, "content_type": "application/x-ndjson", "headers": {"Idempotency-Key": key}}
    first, again = (client.post(url, **sent) for _ in range(2))
    assert (first.status_code in (200, 201), "warnings" in first.json) == (True, True)
    assert client.get(f"/collections/{name}").json["count"] == count
    assert (again.status_code, again.data) == (first.status_code, first.data)
    assert again.headers["Idempotent-Replayed"] == "true"


def _keep_as_the_former_release_did(app, key, answer, etag):
    def write(transaction):
        kept = orjson.dumps([answer, etag])
        transaction.run("UPDATE idempotency_keys SET outcome = ? WHERE key = ?", (kept, key))

    app.extensions["rag.service"].catalog.commit(write)


@pytest.mark.parametrize(("method", "route", "body"), WRITES_TO_TWO.values(), ids=WRITES_TO_TWO)
def test_the_repeat_of_a_write_to_an_earlier_release_gets_that_releases_answer(
    app, client, filled, key, method, route, body
):
    url = f"/collections/{filled(TWO_DOCUMENTS)}{route}"
    first = client.open(url, method=method, json=body, headers={"Idempotency-Key": key})
    etag = first.headers.get("ETag", '""').strip('"') or None
    kept = {"id": "a"} if "patch" in str(body) else {name: first.json[name] for name in first.json if name != "indexed"}
    _keep_as_the_former_release_did(app, key, kept, etag)
    again = client.open(url, method=method, json=body, headers={"Idempotency-Key": key})
    assert (again.status_code, again.data) == (first.status_code, first.data)
    assert again.headers.get("ETag") == first.headers.get("ETag")
    assert again.headers["Idempotent-Replayed"] == "true"


def test_creating_a_collection_again_with_the_key_is_not_a_conflict(client, collection, key):
    body, headers = {"name": collection}, {"Idempotency-Key": key}
    first, again = (client.post("/collections", json=body, headers=headers) for _ in range(2))
    assert (first.status_code, again.status_code, again.json) == (201, 201, first.json)
    taken = client.post("/collections", json=body)
    assert (taken.status_code, taken.json["code"], taken.json["details"]["field"]) == (409, "collection_exists", "name")


def test_a_repeated_patch_changes_nothing_and_is_answered_with_the_document_as_it_is_now(
    client, filled, key, unchanged
):
    name = filled(TWO_DOCUMENTS)
    url, body, headers = f"/collections/{name}/documents/a", {"text": "patched"}, {"Idempotency-Key": key}
    client.patch(url, json=body, headers=headers)
    client.patch(url, json={"metadata": {"page": 7}})
    with unchanged(name):
        again = client.patch(url, json=body, headers=headers)
    assert (again.status_code, again.json) == (200, client.get(url).json)
    assert again.headers["ETag"] == client.get(url).headers["ETag"]
    client.delete(f"/collections/{name}/documents", json={"ids": ["a"]})
    gone = client.patch(url, json=body, headers=headers)
    assert (gone.status_code, gone.json["code"]) == (404, "document_not_found")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/metadata", {"metadata": {}}),
        ("PATCH", "/documents/a", {"metadata": {"language": "en"}}),
        ("PUT", "/metadata?merge=true", {"metadata": {"language": "en"}}),
        ("PATCH", "/metadata", {"metadata": {"language": "en"}}),
    ],
    ids=["body", "path", "query string", "method"],
)
def test_the_key_with_another_request_is_a_conflict(client, filled, key, unchanged, method, path, body):
    name = filled(TWO_DOCUMENTS)
    url, headers = f"/collections/{name}", {"Idempotency-Key": key}
    first = client.put(f"{url}/metadata", json={"metadata": {"language": "en"}}, headers=headers)
    assert first.status_code == 200
    with unchanged(name):
        answer = client.open(f"{url}{path}", method=method, json=body, headers=headers)
    assert (answer.status_code, answer.json["code"]) == (409, "idempotency_key_reused")
    assert answer.json["details"] == {"field": "Idempotency-Key"}


def test_a_refused_write_leaves_its_key_free_and_an_empty_or_too_long_key_is_refused(client, filled, key, unchanged):
    name = filled()
    url, headers = f"/collections/{name}/documents", {"Idempotency-Key": key}
    with unchanged(name):
        assert client.post(url, json={"documents": [{"text": "x"}]}, headers=headers).status_code == 400
        for wrong in ("", "k" * 256):
            answer = client.post(url, json={"documents": TWO_DOCUMENTS}, headers={"Idempotency-Key": wrong})
            assert (answer.status_code, answer.json["details"]["field"]) == (400, "Idempotency-Key")
    assert client.post(url, json={"documents": TWO_DOCUMENTS}, headers=headers).status_code == 201


def test_concurrent_repeats_are_one_write(app, filled, key):
    name = filled()
    together = threading.Barrier(8)

    def add(_):
        client = app.test_client()
        together.wait()
        return client.post(
            f"/collections/{name}/documents",
            json={"documents": [{"text": "made id", "embedding": [1.0, 0.0]}]},
            headers={"Idempotency-Key": key},
        )

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(add, range(8)))
    assert {answer.status_code for answer in answers} == {201}
    assert all(answer.json == answers[0].json for answer in answers)
    assert app.test_client().get(f"/collections/{name}").json["count"] == 1


def test_a_repeated_stream_leaves_later_writes_alone(client, filled, key, unchanged):
    name = filled(TWO_DOCUMENTS)
    url, headers = f"/collections/{name}/documents", {"Idempotency-Key": key}
    line = '{"id": "a", "text": "streamed", "embedding": [1, 0]}'
    first = client.post(url, data=line, content_type="application/x-ndjson", headers=headers)
    client.patch(f"{url}/a", json={"text": "somebody else's"})
    with unchanged(name):
        again = client.post(url, data=line, content_type="application/x-ndjson", headers=headers)
        other = client.post(url, data=f"{line}\n{line}", content_type="application/x-ndjson", headers=headers)
    assert again.json == first.json
    assert (other.status_code, other.json["code"]) == (409, "idempotency_key_reused")
