"""The async client waits in its event loop, and what is cancelled ends."""

import asyncio
import threading

import pytest
from rag_wrapper_client import AsyncClient, ConnectionFailedError, TimedOutError

from tests.clients.python.conftest import refused, said, scripted
from tests.support.live import PATIENCE_SECONDS

COLLECTION = said({"name": "library"})
EVENT = b'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {"delta": "So"}\n\n'


async def cancel_a_request(client, server):
    waiting = asyncio.create_task(client.collection("library"))
    await heard_by(server)
    await cancelled(waiting)


async def leave_a_stream(client, server):
    async with client.stream_chat("Hello?") as events:
        async for event in events:
            assert event == {"delta": "So"}
            break


async def cancel_the_reader_of_a_stream(client, server):
    begun = asyncio.Event()

    async def read():
        async for _ in client.stream_chat("Hello?"):
            begun.set()

    reading = asyncio.create_task(read())
    await asyncio.wait_for(begun.wait(), PATIENCE_SECONDS)
    await cancelled(reading)


async def cancel_a_source_that_never_goes_on(client, server):
    sent = asyncio.Event()

    async def documents():
        yield {"text": "x", "embedding": [1.0]}
        sent.set()
        await asyncio.Event().wait()

    storing = asyncio.create_task(client.stream_documents("library", documents()))
    await asyncio.wait_for(sent.wait(), PATIENCE_SECONDS)
    await heard_by(server)
    await cancelled(storing)


async def heard_by(server):
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not server.requests:
            await asyncio.sleep(0.01)


async def cancelled(task):
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(
    ("leave", "said_before"),
    [
        (cancel_a_request, b""),
        (leave_a_stream, EVENT),
        (cancel_the_reader_of_a_stream, EVENT),
        (cancel_a_source_that_never_goes_on, b""),
    ],
)
def test_what_is_left_gives_its_thread_and_connection_back(leave, said_before):
    """The client has one of either, and the server says nothing more until the client hangs up."""
    heard = threading.Event()

    def speak(server, connection):
        connection.sendall(said_before)
        connection.settimeout(PATIENCE_SECONDS)
        while connection.recv(1000):
            pass
        heard.set()

    async def asked(server):
        async with AsyncClient(server.url, connections=1) as client:
            await leave(client, server)
            return await asyncio.wait_for(client.collection("library"), PATIENCE_SECONDS)

    with scripted(speak, COLLECTION) as server:
        assert asyncio.run(asked(server)) == {"name": "library"}
        assert heard.wait(PATIENCE_SECONDS)


def test_what_waits_holds_no_thread():
    """One request waits to be repeated, another looks after a job, and the only thread is free for a third."""
    job = {"id": "j", "status": "running", "files": []}

    async def asked(url):
        everybody = asyncio.Event()

        async def sleep(_):
            nonlocal sleeping
            sleeping += 1
            if sleeping == 2:
                everybody.set()
            await done.wait()

        sleeping, done = 0, asyncio.Event()
        async with AsyncClient(url, connections=1, sleep=sleep) as client:
            repeated = asyncio.create_task(client.collection("library"))
            await heard_by(server)
            watched = asyncio.create_task(client.wait_for_job("j", timeout_seconds=0.1))
            await asyncio.wait_for(everybody.wait(), PATIENCE_SECONDS)
            assert await client.live() == {"status": "alive"}
            done.set()
            assert await repeated == {"name": "library"}
            with pytest.raises(TimedOutError) as late:
                await watched
            assert late.value.code == "job_not_ended"

    by_path = {b"/api/jobs/j": said(job), b"/live": said({"status": "alive"})}
    asked_before = []

    def speak(server, connection):
        path = server.requests[-1].split(b" ")[1]
        asked_before.append(path)
        again = asked_before.count(b"/collections/library") > 1
        connection.sendall(by_path.get(path, COLLECTION if again else refused(503, Retry_After=5)))

    with scripted(speak) as server:
        asyncio.run(asked(server.url))


def test_no_more_requests_are_under_way_than_there_are_connections():
    async def asked(url):
        async with AsyncClient(url, connections=3) as client:
            answers = [asyncio.create_task(client.collection("library")) for _ in range(10)]
            await asyncio.wait_for(asyncio.to_thread(crowded.wait), PATIENCE_SECONDS)
            await asyncio.gather(*answers)

    lock, crowded = threading.Lock(), threading.Barrier(4)
    under_way = most = 0

    def speak(server, connection):
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
            first = len(server.requests) <= 3
        if first:
            crowded.wait(PATIENCE_SECONDS)
        with lock:
            under_way -= 1
        connection.sendall(COLLECTION)

    with scripted(speak) as server:
        asyncio.run(asked(server.url))
        assert len(server.requests) == 10
    assert most <= 3


def test_a_closed_client_says_so():
    async def asked():
        client = AsyncClient("http://127.0.0.1:9")
        await client.aclose()
        with pytest.raises((RuntimeError, ConnectionFailedError)):
            await client.live()

    asyncio.run(asked())
