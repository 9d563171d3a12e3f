"""Documents, events and files travel piece by piece, in bounded memory, and an answer that breaks off is noticed."""

import asyncio
import json
import threading

import numpy as np
import pytest
from rag_wrapper_client import (
    AsyncClient,
    Client,
    ConflictError,
    NotFoundError,
    UnavailableError,
    UnusableAnswerError,
    decoded,
    encoded,
    matrix,
)
from rag_wrapper_client.streams import EventDecoder, LineDecoder

from tests.clients.python.conftest import refused, said, scripted
from tests.support.live import PATIENCE_SECONDS, eventually

LINE = json.dumps({"id": "a", "text": "A", "metadata": {}, "embedding": encoded([0.5, 1.0])}).encode() + b"\n"


def test_what_is_exported_can_be_imported(client, library):
    rows = np.random.default_rng(1).normal(size=(1200, 16)).astype(np.float32)
    documents = (
        {"id": f"d{n}", "text": f"Text {n}", "metadata": {"n": n}, "embedding": row} for n, row in enumerate(rows)
    )
    assert client.stream_documents(library, documents)["created"] == 1200
    exported = list(client.export_documents(library))
    assert np.array_equal(matrix(exported), rows)
    assert client.import_documents(library, iter(exported), count=1200)["unchanged"] == 1200
    found = client.documents(library, {"n": {"$lt": 3}}, include=["id", "embedding"])
    assert np.array_equal(matrix(found), rows[:3])


def test_pages_go_on_from_a_cursor(client, library):
    documents = [{"id": f"d{n}", "text": "x", "embedding": [1.0]} for n in range(5)]
    client.add_documents(library, documents)
    pages = client.documents(library, page_size=2)
    first = pages.first()
    assert first.answer["total"] == 5
    rest = [each["id"] for page in pages.pages(first.cursor) for each in page.items]
    assert rest == ["d2", "d3", "d4"]


def test_a_copy_is_kept_by_what_changes(client, library):
    client.add_documents(library, [{"id": each, "text": each, "embedding": [1.0, 2.0]} for each in "abc"])
    copy, place = {}, None
    client.delete_documents(library, ids=["b"])
    for _ in range(3):
        for change in client.changes(library, place, limit=1, wait_seconds=0):
            if "next" in change:
                place = change
            elif change["op"] == "delete":
                del copy[change["id"]]
            else:
                copy[change["id"]] = change["text"]
        client.put_document(library, "c", {"text": "changed", "embedding": [1.0, 2.0]})
        client.delete_documents(library, ids=["a"])
    assert copy == {"c": "changed"}
    with pytest.raises(ConflictError):
        list(client.changes(library, place, embedding_model="another"))


def test_an_asynchronous_source_is_read_while_it_is_sent(live, library):
    async def documents():
        for n in range(1000):
            if n % 100 == 0:
                await asyncio.sleep(0)
            yield {"id": f"d{n}", "text": "x", "embedding": [float(n), 1.0]}

    async def stored():
        async with AsyncClient(live.url) as client:
            added = await client.stream_documents(library, documents())
            found = [each["id"] async for each in client.documents(library, page_size=300)]
        return added["created"], len(found)

    assert asyncio.run(stored()) == (1000, 1000)


def test_the_sync_client_says_that_it_takes_no_asynchronous_source(client, library):
    async def documents():
        yield {"text": "x", "embedding": [1.0]}

    with pytest.raises(TypeError, match="AsyncClient"):
        client.stream_documents(library, documents())


@pytest.mark.parametrize("error", [OSError("the disk is broken"), KeyError("text")])
def test_what_fails_in_a_source_is_raised_as_it_is(live, client, library, error):
    def documents():
        yield {"text": "x", "embedding": [1.0]}
        raise error

    async def later():
        for document in documents():
            yield document

    async def stored():
        async with AsyncClient(live.url) as client:
            await client.stream_documents(library, later())

    with pytest.raises(type(error)):
        client.stream_documents(library, documents())
    with pytest.raises(type(error)):
        asyncio.run(stored())


def test_a_source_is_read_no_faster_than_the_service_takes_it():
    taken = 0

    def documents():
        nonlocal taken
        while taken < 100_000:
            taken += 1
            yield {"text": "x" * 1000, "embedding": [1.0]}

    stalled = threading.Event()

    def stall(server, connection):
        stalled.set()
        server.over.wait(PATIENCE_SECONDS)

    with scripted(stall) as server:
        client = Client(server.url)
        sending = threading.Thread(target=_ignoring, args=(client.stream_documents, "library", documents()))
        sending.start()
        assert stalled.wait(PATIENCE_SECONDS)
        seen = -1

        def stands_still():
            nonlocal seen
            before, seen = seen, taken
            return before == seen > 0

        eventually(stands_still)
    sending.join(PATIENCE_SECONDS)
    assert taken < 50_000


def _ignoring(method, *arguments):
    try:
        method(*arguments)
    except Exception:
        return


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        ("export_documents", said(LINE * 2, Content_Type="application/x-ndjson", X_Document_Count=3)),
        ("changes", said(b'{"revision":2,"op":"delete","id":"a"}\n', Content_Type="application/x-ndjson")),
    ],
)
def test_an_export_that_breaks_off_is_noticed_by_its_count_and_changes_by_their_last_line(talk, method, answer):
    with scripted(answer) as server, pytest.raises(UnusableAnswerError) as short:
        talk(server.url, method, "library")
    assert short.value.code == "stream_cut_short"


def test_a_stream_begins_again_while_the_service_is_busy_and_else_fails_with_its_error(talk):
    answer = said(LINE, Content_Type="application/x-ndjson", X_Document_Count=1)
    with scripted(refused(503, Retry_After=1), answer) as server:
        (document,) = talk(server.url, "export_documents", "library")
    assert document["embedding"].tolist() == [0.5, 1.0]
    assert talk.waits == [1.25]
    with scripted(refused(404, "collection_not_found")) as server, pytest.raises(NotFoundError):
        talk(server.url, "export_documents", "library")


def test_events_arrive_one_by_one(talk):
    """The service says nothing more until the client has shown that it has the first one."""
    heads = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
    arrived = threading.Event()

    def speak(server, connection):
        connection.sendall(heads + b'data: {"delta": "So"}\n\n')
        assert arrived.wait(PATIENCE_SECONDS)
        connection.sendall(b'data: {"done": true}\n\n')

    async def heard(url):
        async with AsyncClient(url) as client:
            events = []
            async for event in client.stream_chat("Hello?"):
                events.append(event)
                arrived.set()
            return events

    with scripted(speak) as server:
        assert asyncio.run(heard(server.url)) == [{"delta": "So"}, {"done": True}]
    arrived.clear()
    with scripted(speak) as server, Client(server.url) as client:
        events = []
        for event in client.stream_chat("Hello?"):
            events.append(event)
            arrived.set()
        assert events == [{"delta": "So"}, {"done": True}]


@pytest.mark.parametrize(
    ("events", "error", "code"),
    [
        (b'data: {"delta": "So"}\n\ndata: {"error": "x", "message": "x", "code": "chat_unavailable"}\n\n', UnavailableError, "chat_unavailable"),
        (b'data: {"delta": "So"}\n\n', UnusableAnswerError, "stream_cut_short"),
        (b"data: nonsense\n\n", UnusableAnswerError, "answer_unusable"),
    ],
)  # fmt: skip
def test_a_chat_that_breaks_off_is_an_error(talk, events, error, code):
    with scripted(said(events, Content_Type="text/event-stream")) as server, pytest.raises(error) as broken:
        talk(server.url, "stream_chat", "Hello?")
    assert broken.value.code == code


def test_pieces_may_be_cut_anywhere_and_embeddings_survive_their_spelling():
    lines = b'{"a": "\xc3\xa4"}\n{"a": 2}\n\n{"a": 3}'
    events = b': a comment\r\n\r\ndata: {"a":\r\ndata: "\xc3\xa4"}\r\n\r\ndata: {"done": true}\r\n\r\n'
    for cut in range(len(lines) + 1):
        decoder = LineDecoder(dict, 3)
        read = [*decoder.take(lines[:cut]), *decoder.take(lines[cut:]), *decoder.end()]
        assert read == [{"a": "ä"}, {"a": 2}, {"a": 3}]
    for cut in range(len(events) + 1):
        reader = EventDecoder(dict)
        assert [*reader.take(events[:cut]), *reader.take(events[cut:]), *reader.end()] == [{"a": "ä"}, {"done": True}]
    row = np.array([0.1, -2.5, 3e38], dtype=np.float32)
    assert decoded(encoded(row)).tobytes() == row.tobytes()
    assert encoded([0.1, 0.2, 0.1]) == "zczMPc3MTD7NzMw9"
    assert matrix([]).shape == (0, 0)
    with pytest.raises(ValueError, match="base64"):
        decoded("no base64!")
