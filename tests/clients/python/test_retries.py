"""Requests are repeated when that is safe, after the time that the service asks for, and no longer than agreed."""

import re

import pytest
from rag_wrapper_client import (
    AsyncClient,
    Client,
    ConnectionFailedError,
    InvalidRequestError,
    RateLimitedError,
    UnavailableError,
)

from tests.clients.python.talking import LOST, Talk, refused, said, scripted

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
