"""Measure storage while other services are held still: `python -m benchmarks.foreign_services`.

The services are embeddings, chat, and a Chroma server, a Qdrant and another service of this kind as connections. Each
in turn accepts every request and never answers, while more requests wait for it than may at once. Meanwhile four
clients read documents and four write them; their 95th percentiles are compared with those of the quiet rounds before
and after.
"""

from __future__ import annotations

import argparse
import socket
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.clients import Connection, RefusedError, Work, do_together, request
from benchmarks.report import machine
from interfaces.commands.scratch_service import START_SECONDS, scratch_service

SECONDS = 5.0
ROUNDS = 3
READERS = WRITERS = 4
DOCUMENTS = 2_000
DIMENSION = 64
HANGING = 48
TARGET = 1.5
KINDS = ("chromadb", "qdrant", "chromadb-wrapper")


@contextmanager
def held_still() -> Iterator[str]:
    """Yield the URL of a server whose connections the kernel accepts and nobody answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=1_024) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


@contextmanager
def hanging(url: str, asked: list[bytes]) -> Iterator[None]:
    """Hold one client open for each request of `asked`, waiting for an answer that does not come."""
    address = urlsplit(url)
    with ExitStack() as stack:
        for each in asked:
            client = stack.enter_context(socket.create_connection((address.hostname, address.port)))
            client.sendall(each)
        yield


def what_hangs() -> dict[str, list[bytes]]:
    """Return the requests that wait for each service."""

    def ingest(number: int) -> bytes:
        body = {"source": "wiki", "path": f"p{number}", "title": "t", "text": f"some text {number}"}
        return request("POST", "/api/rag/ingest", body)

    found = {
        "embedding": [ingest(number) for number in range(HANGING)],
        "chat": [request("POST", "/api/chat", {"message": f"hello {number}"}) for number in range(HANGING)],
    }
    for kind in KINDS:
        found[kind] = [request("GET", f"/api/connections/held-{kind}/collections")] * HANGING
    return found


def storage_works() -> list[list[Work]]:
    """Return the work of the readers, then that of the writers."""
    reads: list[list[Work]] = [
        [[request("GET", f"/collections/own/documents/d{n}")] for n in range(r, DOCUMENTS, 7)] for r in range(READERS)
    ]
    writes: list[list[Work]] = [
        [[_write(f"w{writer}-{number}", number)] for number in range(DOCUMENTS)] for writer in range(WRITERS)
    ]
    return [*reads, *writes]


def _write(document_id: str, number: int) -> bytes:
    embedding = [1.0 + (number * place) % 97 for place in range(1, DIMENSION + 1)]
    document = {"id": document_id, "text": f"text {number}", "metadata": {"n": number}, "embedding": embedding}
    return request("POST", "/collections/own/documents", {"documents": [document]})


def measure(url: str, works: list[list[Work]]) -> tuple[float, float]:
    """Return the 95th percentiles of reads and of writes, in milliseconds."""
    together = do_together(url, works, SECONDS)
    parts = together.by_client[:READERS], together.by_client[READERS:]
    reads, writes = (
        statistics.quantiles([seconds for client in part for seconds in client], n=20)[-1] * 1e3 for part in parts
    )
    return reads, writes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    rounds = parser.parse_args().rounds
    for name, text in machine().items():
        print(f"{name:>12}: {text}")
    with tempfile.TemporaryDirectory() as directory, held_still() as held:
        settings = {"embedding_provider": "openai", "chat_provider": "openai", "embedding_url": held, "chat_url": held}
        settings |= {"embedding_model": "m", "chat_model": "m", "log_level": "warning"}
        settings["service_seconds"] = str(3 * SECONDS)  # longer than a measurement; the service must still end
        with scratch_service(Path(directory), wait=False, **settings) as service:
            wait_until_ready(service.url)
            prepare(service.url, held)
            works = storage_works()
            measure(service.url, works)  # the first measurement does not count
            print(f"\n{'held still':>18}  {'reads p95':>21}  {'writes p95':>21}  ratios, at most {TARGET}")
            for name, asked in what_hangs().items():
                compare(service.url, name, asked, works, rounds)


def wait_until_ready(url: str) -> None:
    """Wait until the service serves. It is not healthy, because its embeddings are held still."""
    until = time.monotonic() + START_SECONDS
    while True:
        try:
            connection = Connection(url)
            connection.call(request("GET", "/ready"))
            connection.close()
            return
        except (OSError, RefusedError):
            if time.monotonic() > until:
                raise
            time.sleep(0.2)


def prepare(url: str, held: str) -> None:
    connection = Connection(url)
    connection.call(request("POST", "/collections", {"name": "own"}))
    for number in range(DOCUMENTS):
        connection.call(_write(f"d{number}", number))
    for kind in KINDS:
        body = {"id": f"held-{kind}", "type": "rag", "provider": kind, "config": {"url": held}}
        connection.call(request("POST", "/api/connections", body))
    connection.close()


def compare(url: str, name: str, asked: list[bytes], works: list[list[Work]], rounds: int) -> None:
    quiet, loud = [], []
    with hanging(url, asked):
        measure(url, works)  # loads whatever is loaded on first use, which must not count
    for _ in range(rounds):
        quiet.append(measure(url, works))
        with hanging(url, asked):
            loud.append(measure(url, works))
    medians = [[statistics.median(each[part] for each in side) for side in (quiet, loud)] for part in (0, 1)]
    shown = "  ".join(f"{before:8.1f} -> {after:6.1f} ms" for before, after in medians)
    ratios = ", ".join(f"{after / before:.2f}" for before, after in medians)
    print(f"{name:>18}  {shown}  {ratios}", flush=True)


if __name__ == "__main__":
    main()
