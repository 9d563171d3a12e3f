"""All that can fail is one family of errors, none of which tells the key, and a client of one database has the collections
of that one, and nothing of the default one by mistake."""

import asyncio
import logging
import pickle
import uuid

import numpy as np
import pytest
import rag_wrapper_client
import requests
from rag_wrapper_client import (
    AsyncClient,
    Client,
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    NotModifiedError,
    PreconditionFailedError,
    RagWrapperError,
    TimedOutError,
    UnauthorizedError,
    UnusableAnswerError,
    encoded,
)

from tests.clients.python.talking import Talk, refused, said, scripted
from tests.support.live import PATIENCE_SECONDS
from tests.support.raw_server import silent


def test_an_error_has_what_the_service_said(client):
    with pytest.raises(NotFoundError) as missing:
        client.collection("there-is-none")
    error = missing.value
    assert (error.code, error.status, error.details) == ("collection_not_found", 404, {"collection": "there-is-none"})
    assert error.request_id
    assert str(error) == "Collection 'there-is-none' not found (collection_not_found)"
    in_another_process = pickle.loads(pickle.dumps(error))
    assert (type(in_another_process), vars(in_another_process)) == (NotFoundError, vars(error))


def test_conditions_are_kept_and_an_answer_tells_whether_it_was_given_before(client, library):
    before = client.with_answer.collection(library)
    with pytest.raises(NotModifiedError):
        client.collection(library, if_none_match=before.etag)
    client.merge_metadata(library, {"a": 1}, if_match=before.etag)
    with pytest.raises(PreconditionFailedError) as late:
        client.merge_metadata(library, {"a": 2}, if_match=before.etag)
    assert late.value.details["revision"] == 2
    assert client.collection(library, if_none_match=before.etag)["metadata"] == {"a": 1}
    document = {"text": "Once.", "embedding": np.array([1.0, 2.0])}
    first, again = (
        client.with_answer.add_documents(library, [document], idempotency_key=f"{library}-once") for _ in range(2)
    )
    assert first.value == again.value
    assert (first.is_replayed, again.is_replayed) == (False, True)
    with pytest.raises(ConflictError) as other:
        client.add_documents(library, [document, document], idempotency_key=f"{library}-once")
    assert other.value.code == "idempotency_key_reused"


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_what_no_path_can_hold_is_not_sent(client, recording, name):
    for call in (lambda: client.delete_collection(name), lambda: client.delete_stored_document(name)):
        with pytest.raises(InvalidRequestError) as wrong:
            call()
        assert wrong.value.code == "not_in_a_path"
    assert recording.operations == set()


@pytest.mark.parametrize("document_id", ["all", "count", "search", ".", ".."])
def test_no_write_to_a_document_becomes_one_to_all(client, library, document_id):
    client.add_documents(library, [{"id": "a", "text": "x", "embedding": [1.0]}])
    for call in (
        lambda: client.delete_document(library, document_id),
        lambda: client.change_document(library, document_id, text="y"),
        lambda: client.put_document(library, document_id, {"text": "y", "embedding": [1.0]}),
    ):
        with pytest.raises(InvalidRequestError) as wrong:
            call()
        assert wrong.value.code == "not_in_a_path"
    assert client.document(library, "a")["text"] == "x"


@pytest.mark.parametrize("document_id", ["a/b", "ä ö", "100%", "a?b#c", "count", "all", "search", ".", "..", "\\"])
def test_any_id_is_found(client, library, document_id):
    client.add_documents(library, [{"id": document_id, "text": "x", "embedding": [1.0]}])
    assert client.document(library, document_id)["id"] == document_id
    assert client.delete_documents(library, ids=[document_id])["count"] == 1
    with pytest.raises(NotFoundError):
        client.document(library, document_id)


@pytest.mark.parametrize("wrong", [[[1.0]], ["a"], [True], 1.0])
def test_what_is_no_embedding_is_not_sent(wrong):
    with pytest.raises(ValueError, match="one row of numbers"):
        encoded(wrong)


def test_the_key_is_sent_and_shown_nowhere(caplog, monkeypatch, tmp_path):
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login other password other\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    caplog.set_level(logging.DEBUG)
    with scripted(refused(401, "key_unknown")) as server:
        with Client(server.url, lambda: "open-sesame") as client, pytest.raises(UnauthorizedError) as refusal:
            client.create_connection("a", type="llm", provider="openai", config={"api_key": "hidden-secret"})
        assert b"Authorization: Bearer open-sesame\r\n" in server.requests[0]
    shown = [repr(client), repr(refusal.value), str(vars(refusal.value)), caplog.text]
    shown += [repr(vars(client._transport)), repr(refusal.traceback[-1].frame.f_locals)]
    assert not [text for text in shown if "sesame" in text or "hidden-secret" in text]


def test_the_key_follows_no_redirect_and_every_error_is_of_the_family():
    with scripted(said({}, 302, Location="http://127.0.0.1:9/")) as server, Client(server.url, "sesame") as client:
        with pytest.raises(UnusableAnswerError):
            client.collections().first()
        assert len(server.requests) == 1
    kinds = [each for each in vars(rag_wrapper_client).values() if isinstance(each, type)]
    assert all(issubclass(each, RagWrapperError) for each in kinds if issubclass(each, Exception))


@pytest.mark.parametrize("answer", [said(b"<html>Welcome</html>", Content_Type="text/html"), said(b"")])
def test_another_kind_of_server_is_named(answer):
    with scripted(answer) as server, Client(server.url) as client, pytest.raises(UnusableAnswerError):
        client.collection("library")


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_a_silent_service_is_given_up(kind):
    with scripted(silent) as server, pytest.raises(TimedOutError):
        Talk(kind, timeout_seconds=0.1, attempts=1)(server.url, "collection", "library")


@pytest.fixture
def database(live):
    tenant = f"t{uuid.uuid4().hex[:10]}"
    for path, name in (("", tenant), (f"/{tenant}/databases", "main")):
        requests.post(
            f"{live.url}/api/v2/tenants{path}", json={"name": name}, timeout=PATIENCE_SECONDS
        ).raise_for_status()
    return f"{tenant}/main"


def test_collections_are_those_of_the_database_and_what_serves_the_default_one_alone_is_refused(
    live, recording, client, database
):
    name = f"docs-{uuid.uuid4().hex[:8]}"
    with Client(live.url, database=database, session=recording) as own:
        own.create_collection(name)
        own.stream_documents(name, [{"id": "a", "text": "red", "embedding": [1.0, 0.0]}])
        assert [each["name"] for each in own.collections()] == [name]
        assert own.query(name, [1.0, 0.0])["results"][0]["text"] == "red"
        assert [each["id"] for each in own.export_documents(name)] == ["a"]
    with pytest.raises(NotFoundError):
        client.collection(name)

    async def counted():
        async with AsyncClient(live.url, database=database, session=recording) as own:
            return (await own.count_documents(name))["count"]

    assert asyncio.run(counted()) == 1
    with Client(live.url, database=database, session=recording) as own:
        for ask in (lambda: own.search("words"), lambda: own.upload([("a.md", b"# A")])):
            with pytest.raises(InvalidRequestError, match="of the routes below /collections"):
                ask()
        assert own.me()["kind"] == "open"
