"""The async client waits in its event loop, and what is cancelled ends."""

import asyncio
import threading

import pytest
from rag_wrapper_client import AsyncClient, ConnectionFailedError, TimedOutError

from tests.clients.python.talking import refused, said, scripted

SECONDS = 60
COLLECTION = said({"name": "library"})


def hung_up(heard, first=b""):
    """Return a speaker that says something, and nothing more until its client hangs up."""

    def speak(server, connection):
        connection.sendall(first)
        connection.settimeout(SECONDS)
        if not connection.recv(1):
            heard.set()

    return speak


def test_a_cancelled_request_gives_its_thread_and_connection_back():
    heard = threading.Event()

    async def asked(url):
        async with AsyncClient(url, connections=1) as client:
            waiting = asyncio.create_task(client.collection("library"))
            while not server.requests:
                await asyncio.sleep(0.01)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            return await asyncio.wait_for(client.collection("library"), SECONDS)

    with scripted(hung_up(heard), COLLECTION) as server:
        assert asyncio.run(asked(server.url)) == {"name": "library"}
        assert heard.wait(SECONDS)


def test_a_stream_that_is_left_gives_its_thread_and_connection_back():
    heard = threading.Event()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"

    async def asked(url):
        async with AsyncClient(url, connections=1) as client:
            async with client.stream_chat("Hello?") as events:
                async for event in events:
                    assert event == {"delta": "So"}
                    break
            return await asyncio.wait_for(client.collection("library"), SECONDS)

    with scripted(hung_up(heard, head + b'data: {"delta": "So"}\n\n'), COLLECTION) as server:
        assert asyncio.run(asked(server.url)) == {"name": "library"}
        assert heard.wait(SECONDS)


def test_a_cancelled_reader_of_a_stream_ends():
    heard = threading.Event()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"

    async def asked(url):
        async with AsyncClient(url, connections=1) as client:
            begun = asyncio.Event()

            async def read():
                async for _ in client.stream_chat("Hello?"):
                    begun.set()

            reading = asyncio.create_task(read())
            await asyncio.wait_for(begun.wait(), SECONDS)
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            return await asyncio.wait_for(client.collection("library"), SECONDS)

    with scripted(hung_up(heard, head + b'data: {"delta": "So"}\n\n'), COLLECTION) as server:
        assert asyncio.run(asked(server.url)) == {"name": "library"}
        assert heard.wait(SECONDS)


def test_a_source_that_never_goes_on_can_be_cancelled():
    async def asked(url):
        sent = asyncio.Event()

        async def documents():
            yield {"text": "x", "embedding": [1.0]}
            sent.set()
            await asyncio.Event().wait()

        async with AsyncClient(url, connections=1) as client:
            storing = asyncio.create_task(client.stream_documents("library", documents()))
            await asyncio.wait_for(sent.wait(), SECONDS)
            storing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await storing
            return await asyncio.wait_for(client.collection("library"), SECONDS)

    with scripted(hung_up(threading.Event()), COLLECTION) as server:
        assert asyncio.run(asked(server.url)) == {"name": "library"}


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
            while not server.requests:
                await asyncio.sleep(0.01)
            watched = asyncio.create_task(client.wait_for_job("j", timeout_seconds=0.1))
            await asyncio.wait_for(everybody.wait(), SECONDS)
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
            await asyncio.wait_for(asyncio.to_thread(crowded.wait), SECONDS)
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
            crowded.wait(SECONDS)
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
