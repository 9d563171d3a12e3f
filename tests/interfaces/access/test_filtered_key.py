"""A key with a filter gets nothing of documents that it sees in part, nothing of caches of others, and writes
nothing."""

import io
from dataclasses import replace

import pytest

from schemas.access.api_keys import Grant
from schemas.access.callers import Scope
from schemas.settings import AccessSettings, RetrievalSettings
from tests.interfaces.access.conftest import headers_of
from tests.support.apps import running_app
from tests.support.live import eventually

ADMIN = {"X-API-Key": "administrator-of-the-tests"}
PLACE = "/collections/rag-documents/documents"
MANY_WORDS = " ".join(f"word{number}" for number in range(900))


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    access = AccessSettings(access="keys", api_key=ADMIN["X-API-Key"])
    data_dir = tmp_path_factory.mktemp("filtered")
    with running_app(data_dir, access=access, retrieval=RetrievalSettings(keep_originals=True)) as app:
        yield app


@pytest.fixture(scope="module")
def reader(app):
    """`reader(where)`: the headers of a new key with this filter."""
    return lambda where: headers_of(app, Scope.READ, where=where)


@pytest.fixture(scope="module")
def document(app):
    """The id of a document with an original and several chunks, and the ids of these."""
    client = app.test_client()
    content = f"# First\n\n{MANY_WORDS}\n\n# Second\n\nThe secret.".encode()
    sent = client.post("/api/documents", data={"file": (io.BytesIO(content), "a.md")}, headers=ADMIN)
    place = f"/api/jobs/{sent.json['job']['id']}"
    eventually(lambda: client.get(place, headers=ADMIN).json["status"] == "done")
    [found] = client.get("/api/documents", headers=ADMIN).json["documents"]
    chunks = client.get(PLACE, headers=ADMIN).json["documents"]
    assert found["has_original"]
    assert len(chunks) > 1
    return found["id"], sorted((each["metadata"]["chunk_index"], each["id"]) for each in chunks)


def test_an_original_is_for_those_who_see_all_of_the_document(client, reader, document):
    document_id, _ = document
    place = f"/api/documents/{document_id}"
    for where, sees_all in (
        ({"document_id": document_id}, True),
        ({"chunk_index": 0}, False),
        ({"chunk_index": {"$gt": 0}}, False),
    ):
        headers = reader(where)
        assert client.get(place, headers=headers).json["has_original"] is sees_all
        listed = client.get("/api/documents", headers=headers).json["documents"]
        assert all(each["has_original"] is sees_all for each in listed)
        original = client.get(f"{place}/original", headers=headers, buffered=True)
        assert original.status_code == (200 if sees_all else 404)
        assert (b"The secret." in original.data) is sees_all
    assert client.get(f"{place}/original", headers=reader({"nothing": 1}), buffered=True).status_code == 404


def test_a_filter_by_texts_holds_whatever_is_asked(client, reader):
    texts = ["a public note", "a SECRET note", "the public rest", "the SECRET rest"]
    documents = [
        {"id": f"d{number}", "text": text, "embedding": [1.0, number], "metadata": {"section": "s"}}
        for number, text in enumerate(texts)
    ]
    place = "/collections/told-apart"
    assert client.post("/collections", json={"name": "told-apart"}, headers=ADMIN).status_code == 201
    assert client.post(f"{place}/documents", json={"documents": documents}, headers=ADMIN).status_code in (201, 202)
    headers = reader({"$text": {"$not_contains": "SECRET"}})
    read = [client.get(f"{place}/documents/d{number}", headers=headers).status_code for number in range(4)]
    assert read == [200, 404, 200, 404]
    exported = client.get(f"{place}/export", headers=headers)
    assert "SECRET" not in exported.text
    assert exported.text.count("public") == 2
    nearest = {"query_embedding": [1.0, 3.0], "top_k": 10}
    for question in (nearest, nearest | {"gather": {"by": "section"}}, {"ids": ["d0"], "top_k": 10}):
        answer = client.post(f"{place}/query", json=question, headers=headers)
        assert answer.status_code == 200, answer.json
        assert "SECRET" not in answer.text
        assert "the public rest" in answer.text
    hidden = client.post(f"{place}/query", json={"ids": ["d1"], "top_k": 10}, headers=headers)
    assert hidden.status_code == 404
    for path in ("documents", "documents?q=note", "documents/count", "facets?fields=section", "changes"):
        answer = client.get(f"{place}/{path}", headers=headers)
        assert answer.status_code in (200, 403), answer.json
        assert "SECRET" not in answer.text
    assert client.get(f"{place}/documents", headers=headers).json["total"] == 2


def test_readers_who_see_different_documents_have_different_etags_and_a_changed_filter_is_no_304(
    client, reader, document, app
):
    wheres = ({"chunk_index": 0}, {"chunk_index": {"$gt": 0}}, {"a": 1}, {"a": True})
    answers = [client.get(PLACE, headers=headers) for headers in (ADMIN, *map(reader, wheres))]
    tags = [answer.headers["ETag"] for answer in answers]
    assert len(set(tags)) == len(tags)
    for path in (
        PLACE,
        "/collections/rag-documents",
        f"{PLACE}/count",
        "/collections/rag-documents/facets?fields=a",
        "/collections/rag-documents/projection",
    ):
        own = client.get(path, headers=reader(wheres[0]))
        assert own.headers["ETag"] == tags[1]
        again = {"If-None-Match": own.headers["ETag"]}
        assert client.get(path, headers=reader(wheres[0]) | again).status_code == 304
        assert client.get(path, headers=reader(wheres[1]) | again).status_code == 200
        assert client.get(path, headers=ADMIN | again).status_code == 200
    stored = app.extensions["rag.access"].stored
    made, key = stored.create("r", Grant(frozenset({Scope.READ}), where={"chunk_index": 0}))
    headers = {"Authorization": f"Bearer {key}"}
    before = client.get(PLACE, headers=headers)
    assert before.json["total"] == 1
    stored.change(made.id, lambda key: replace(key, grant=replace(key.grant, where={"chunk_index": 1})))
    again = headers | {"If-None-Match": before.headers["ETag"]}
    eventually(lambda: client.get(PLACE, headers=again).status_code == 200)
    after = client.get(PLACE, headers=headers)
    assert after.json["total"] == 1
    assert after.json["documents"] != before.json["documents"]


def test_a_search_does_not_tell_how_many_documents_were_compared(app, client, reader, document, monkeypatch):
    planner = app.extensions["rag.service"].store.query.__self__
    answered = planner._answered
    monkeypatch.setattr(planner, "_answered", lambda question: replace(answered(question), recall=0.5))
    asked = {"query": "secret", "explain": True, "oracles": ["semantic"]}
    for headers, names in ((reader({"chunk_index": 0}), {"plan"}), (ADMIN, {"plan", "compared", "recall_at_10"})):
        plans = client.post("/api/search", json=asked, headers=headers).json["receipt"]["oracles"]["semantic"]["plans"]
        assert plans["rag-documents"].keys() == names
