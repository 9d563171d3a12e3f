"""All that can fail is one family of errors, none of which tells the key, and a client of one database has the
collections of that one, and nothing of the default one by mistake. Requests are repeated when that is safe, after the
time that the service asks for, and no longer than agreed."""

import asyncio
import logging
import pickle
import re
import uuid

import numpy as np
import pytest
import rag_wrapper_client
import requests
from rag_wrapper_client import (
    AsyncClient,
    Client,
    ConflictError,
    ConnectionFailedError,
    InvalidRequestError,
    NotFoundError,
    NotModifiedError,
    PreconditionFailedError,
    RagWrapperError,
    RateLimitedError,
    TimedOutError,
    UnauthorizedError,
    UnavailableError,
    UnusableAnswerError,
    encoded,
)

from tests.clients.python.conftest import LOST, Talk, refused, said, scripted
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


COLLECTION = said({"name": "library"})
DOCUMENTS = [{"id": "a", "text": "A", "embedding": [1.0]}]


def keys(server):
    return [re.search(rb"Idempotency-Key: (\S+)", each)[1] for each in server.requests]


def test_a_read_waits_as_long_as_the_service_asks_or_until_the_date_that_it_says(talk):
    with scripted(refused(503, Retry_After=2), refused(429, "rate_limited", Retry_After=1), COLLECTION) as server:
        assert talk(server.url, "collection", "library") == {"name": "library"}
    assert talk.waits == [2.25, 1.25]
    date = "Thu, 28 May 2026 20:26:50 GMT"  # ten seconds later
    with scripted(refused(503, Retry_After=date), COLLECTION) as server:
        talk(server.url, "collection", "library")
    assert talk.waits[2:] == [10.25]


def test_a_lost_connection_is_tried_again_and_again_but_not_for_ever_also_where_nobody_listens(talk):
    with scripted(LOST) as server:
        with pytest.raises(ConnectionFailedError) as failed:
            talk(server.url, "collection", "library")
        assert len(server.requests) == 4
    assert talk.waits == [0.25, 0.5, 1.0]
    assert (failed.value.code, failed.value.status) == ("connection_failed", None)
    with scripted(LOST) as server:
        url = server.url
    with pytest.raises(ConnectionFailedError):
        talk(url, "collection", "library")


def test_an_answer_that_breaks_off_is_a_lost_connection(talk):
    with scripted(said({"name": "library"}, Content_Length=1000), COLLECTION) as server:
        assert talk(server.url, "collection", "library") == {"name": "library"}
    assert talk.waits == [0.25]


def test_a_write_keeps_its_key(talk):
    with scripted(LOST, refused(503, Retry_After=1), said({"status": "created"}, 201)) as server:
        talk(server.url, "create_collection", "library")
        assert len(set(keys(server))) == 1
        assert len(server.requests) == 3
    with scripted(COLLECTION) as another:
        talk(another.url, "delete_collection", "library", idempotency_key="mine")
        assert keys(another) == [b"mine"]


@pytest.mark.parametrize("answer", [LOST, refused(503, Retry_After=1)])
def test_what_would_be_done_twice_is_sent_once(talk, answer):
    with scripted(answer) as server:
        with pytest.raises((ConnectionFailedError, UnavailableError)):
            talk(server.url, "create_key", "nightly", ["read"])
        assert len(server.requests) == 1
    assert talk.waits == []


@pytest.mark.parametrize(
    ("answer", "error", "waits"),
    [
        (refused(503, "too_slow"), UnavailableError, None),
        (refused(429, "rate_limited", Retry_After=3600), RateLimitedError, 3600),
        (refused(400, "invalid_where", Retry_After=1), InvalidRequestError, 1),
    ],
)
def test_some_refusals_are_final_and_say_how_long_to_wait(talk, answer, error, waits):
    with scripted(answer) as server:
        with pytest.raises(error) as refusal:
            talk(server.url, "collection", "library")
        assert len(server.requests) == 1
    assert (refusal.value.details, refusal.value.retry_after_seconds) == ({"n": 1}, waits)


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_nothing_is_repeated_when_one_attempt_is_wanted(kind):
    talk = Talk(kind, attempts=1)
    with scripted(LOST) as server:
        with pytest.raises(ConnectionFailedError):
            talk(server.url, "collection", "library")
        assert len(server.requests) == 1


def test_a_stream_and_a_file_are_sent_again_if_they_can_be_read_again(talk, tmp_path):
    answers = (refused(503, Retry_After=1), said({"count": 1}, 201))
    with scripted(*answers) as server:
        assert talk(server.url, "stream_documents", "library", DOCUMENTS)["count"] == 1
        assert len(server.requests) == 2
    with scripted(*answers) as server:
        with pytest.raises(UnavailableError):
            talk(server.url, "stream_documents", "library", iter(DOCUMENTS))
        assert len(server.requests) == 1
    path = tmp_path / "a.md"
    path.write_text("# A file")
    with scripted(refused(503, Retry_After=1), said({"job": {}}, 202)) as server:
        talk(server.url, "upload", path)
        assert len(server.requests) == 2
