"""Files go only into collections of the caller, however the request is made, and the limits are those of the key."""

import base64
import io

import orjson
import pytest

from interfaces.job_parts import caller_of_job
from schemas.access.callers import Limits, Scope
from schemas.access.owners import Ownership
from schemas.contracts.jobs import Job, Wanted
from schemas.errors import UnauthorizedError
from schemas.settings import RetrievalSettings
from tests.interfaces.access.conftest import app_with_keys, headers_of
from tests.support.apps import models_of
from tests.support.live import eventually

ADMIN = {"X-API-Key": "administrator-of-the-tests"}


@pytest.fixture(scope="module")
def app(tmp_path_factory, models):
    folder, settings = tmp_path_factory.mktemp("uploads"), RetrievalSettings()
    with app_with_keys(folder, models_of(models), settings, api_key=ADMIN["X-API-Key"]) as app:
        client = app.test_client()
        for name in ("team-a-docs", "team-b-docs"):
            assert client.post("/collections", json={"name": name}, headers=ADMIN).status_code == 201
        yield app


@pytest.fixture
def key(app):
    """`key(*scopes)`: the headers of a new key for `team-a-*`."""
    return lambda *scopes: headers_of(app, *(scopes or {Scope.WRITE}), collections=("team-a-*",))


def within(app, collections):
    """Return the header that says for whom a service asks itself."""
    told = orjson.dumps({"scopes": list(Scope), "collections": collections, "where": None})
    return {"RAG-Within": f"{app.extensions['rag.service'].id} {base64.urlsafe_b64encode(told).decode()}"}


def test_a_view_that_is_sent_along_does_not_lift_limits(app, key):
    limits = Limits(requests_per_second=0.001, burst=3)
    client, headers = app.test_client(), headers_of(app, Scope.WRITE, collections=("team-a-*",), limits=limits)
    statuses = [
        client.get("/collections", headers={**headers, **more}).status_code
        for more in ({}, within(app, ["team-a-*"]), within(app, []), {}, within(app, None))
    ]
    assert statuses == [200, 200, 200, 429, 429]


def test_nothing_is_written_through_a_view(app, key):
    headers = {**key(Scope.MANAGE, Scope.CONNECT), **within(app, ["team-a-*"])}
    client = app.test_client()
    body = {"documents": [{"id": "x", "text": "x", "embedding": [1.0]}]}
    for method, path, sent in (
        ("POST", "/collections/team-a-docs/documents", body),
        ("POST", "/collections", {"name": "team-a-more"}),
        ("POST", "/api/documents?collection=team-a-docs", {"a": "file"}),
        ("POST", "/api/documents?collection=team-b-docs", {"a": "file"}),
        ("POST", "/api/connections", {"id": "c", "type": "rag", "provider": "local", "config": {}}),
        ("GET", "/api/connections", None),
    ):
        answer = client.open(path, method=method, json=sent, headers=headers)
        assert (answer.status_code, answer.json["code"]) == (403, "scope_missing")
    assert client.get("/collections/team-a-docs", headers=headers).status_code == 200


def test_a_job_of_an_owner_whom_nobody_knows_works_for_nobody(app):
    def caller_of(owner):
        told = "2026-01-01T00:00:00.000Z", None, Wanted("team-b-docs"), ()
        return caller_of_job(app.extensions["rag.access"], Job("j", 0, "queued", *told, Ownership(owner)))

    with pytest.raises(UnauthorizedError):
        caller_of("within")
    assert caller_of("user:ada").collections == ("team-b-docs",)


def test_a_kept_file_is_its_senders_alone_and_goes_into_their_stores_alone(app, key):
    client, mine, theirs = app.test_client(), key(), key()
    form = {"purpose": "assistants", "file": (io.BytesIO(b"PLANTED"), "a.md")}
    file = client.post("/v1/files", data=form, headers=mine).json["id"]
    for method, path in (("GET", ""), ("GET", "/content"), ("DELETE", "")):
        answer = client.open(f"/v1/files/{file}{path}", method=method, headers=theirs)
        assert (answer.status_code, answer.json["error"]["code"]) == (404, "kept_file_not_found")
    assert client.get("/v1/files", headers=theirs).json["data"] == []
    for store, headers, code in (
        ("team-a-docs", theirs, "kept_file_not_found"),
        ("team-b-docs", mine, "collection_not_found"),
    ):
        for path, body in (("files", {"file_id": file}), ("file_batches", {"file_ids": [file]})):
            answer = client.post(f"/v1/vector_stores/{store}/{path}", json=body, headers=headers)
            assert (answer.status_code, answer.json["error"]["code"]) == (404, code)
    attached = client.post("/v1/vector_stores/team-a-docs/files", json={"file_id": file}, headers=mine)
    assert attached.status_code == 200
    place = f"/v1/vector_stores/team-a-docs/files/{file}"
    eventually(
        lambda: client.get(place, headers=mine).json["status"] == "completed",
        complaint=lambda: client.get(place, headers=mine).text,
    )
    assert client.get(place, headers=theirs).json["status"] == "completed"
    assert client.get(f"/v1/files/{file}", headers=ADMIN).status_code == 200
    assert client.delete(f"/v1/files/{file}", headers=mine).status_code == 200


def test_a_store_is_called_as_its_key_may_call_collections(app):
    client = app.test_client()

    def made(*collections):
        headers = headers_of(app, Scope.MANAGE, collections=collections)
        answer = client.post("/v1/vector_stores", json={"name": "FAQ of it"}, headers=headers)
        if answer.status_code != 200:
            return answer.status_code, answer.json["code"]
        assert client.delete(f"/v1/vector_stores/{answer.json['id']}", headers=headers).status_code == 200
        return answer.json["collection"], answer.json["name"]

    assert made("acme-*") == ("acme-FAQ-of-it", "FAQ of it")
    assert made("acme-*", "FAQ*") == ("FAQ-of-it", "FAQ of it")
    assert made("acme-*", "globex-*") == made("acme-docs") == (403, "collection_forbidden")
