"""Measure storage while other services are held still or faulty: `python -m benchmarks.foreign_services`.

The services are embeddings, chat, and a Chroma server, a Qdrant and another service of this kind as connections. Each
in turn accepts every request and never answers, while more requests wait for it than may at once. Meanwhile four
clients read documents and four write them; their 95th percentiles are compared with those of the quiet rounds before
and after. The same is measured while embeddings with the habits of `faulty_models` are asked for as much as they take,
and their calls are counted.
"""

from __future__ import annotations

import argparse
import socket
import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

import requests

from benchmarks.clients import Connection, RefusedError, Work, do_together, request
from benchmarks.faulty_models import faulty_models
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
FAULTY = {
    "well": ("openai", "/well/v1"),
    "bad": ("ollama", "/bad"),
    "strict": ("openai", "/strict/v1"),
    "ten": ("openai", "/ten/v1"),
    "plain": ("openai", "/plain"),
    "busy": ("openai", "/busy/v1"),
}
"""The provider and base URL of each of the faulty models; that of `plain` is written without its `/v1`."""
TIMEOUT_SECONDS = 60.0
HEAD = f"\n{{:>18}}  {'reads p95':>21}  {'writes p95':>21}  ratios, at most {TARGET}"


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
    measure_hanging(rounds)
    measure_faulty(rounds)


def measure_hanging(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as directory, held_still() as held:
        settings = {"embedding_provider": "openai", "chat_provider": "openai", "embedding_url": held, "chat_url": held}
        settings |= {"embedding_model": "m", "chat_model": "m", "log_level": "warning"}
        settings["service_seconds"] = str(3 * SECONDS)  # longer than a measurement; the service must still end
        with scratch_service(Path(directory), wait=False, **settings) as service:
            wait_until_ready(service.url)
            prepare(service.url, held)
            works = storage_works()
            measure(service.url, works)  # the first measurement does not count
            print(HEAD.format("held still"))
            for name, asked in what_hangs().items():
                compare(service.url, name, partial(hanging, service.url, asked), works, rounds)


def measure_faulty(rounds: int) -> None:
    with faulty_models() as models:
        for name, (provider, path) in FAULTY.items():
            settings = {"embedding_provider": provider, "embedding_url": models.url + path, "embedding_model": "m"}
            with (
                tempfile.TemporaryDirectory() as directory,
                scratch_service(Path(directory), wait=False, log_level="error", **settings) as service,
            ):
                wait_until_ready(service.url)
                prepare(service.url, models.url)
                tested = _tested(service.url, provider, models.url + path)
                works = storage_works()
                measure(service.url, works)
                models.begin()
                print(HEAD.format(name), flush=True)
                asked = Asked(service.url)
                compare(service.url, "", asked.going_on, works, rounds)
                fates = ", ".join(f"{count} {fate}" for fate, count in sorted(asked.fates.items()))
                sent = f"{models.calls[name]} calls with {models.texts[name]} texts"
                print(f"{'test':>18}  {tested}\n{'asked':>18}  {fates}\n{'sent':>18}  {sent}", flush=True)


def _tested(url: str, provider: str, place: str) -> str:
    """Return what the test of a connection says."""
    body = {"provider": provider, "config": {"url": place, "model": "m"}}
    report = requests.post(f"{url}/api/connections/embedding/test", json=body, timeout=TIMEOUT_SECONDS).json()
    *_, last = [each for each in report["stages"] if each["verdict"] != "skipped"]
    return " ".join(filter(None, (f"{last['message']}.", last["next_step"])))


class Asked:
    """What is asked of the embeddings while others store: questions, batches, and files of which one in three has a
    text that says BAD. `fates` counts what became of it."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._numbers = count()
        self.fates: Counter[str] = Counter()

    @contextmanager
    def going_on(self) -> Iterator[None]:
        over = threading.Event()
        asking = [
            threading.Thread(target=self._ask, args=(over, ask)) for ask in (self._embed, self._embed, self._upload)
        ]
        for each in asking:
            each.start()
        try:
            yield
        finally:
            over.set()
            for each in asking:
                each.join()

    def _ask(self, over: threading.Event, ask: Callable[[int], str]) -> None:
        while not over.wait(0.1):
            self.fates[ask(next(self._numbers))] += 1

    def _embed(self, number: int) -> str:
        texts = [f"question {number} {place}" for place in range(1 if number % 2 else 20)]
        answer = requests.post(
            f"{self._url}/v1/embeddings", json={"model": "default", "input": texts}, timeout=TIMEOUT_SECONDS
        )
        return f"{'question' if len(texts) == 1 else 'batch of 20'} {'answered' if answer.ok else answer.status_code}"

    def _upload(self, number: int) -> str:
        bad = "BAD" if number % 3 == 0 else "good"
        parts = [f"## Part {part}\n\n" + f"word{number} of part {part} is {bad}. " * 60 for part in range(15)]
        file = (f"{number}.md", "\n\n".join(parts).encode(), "text/markdown")
        answer = requests.post(f"{self._url}/api/documents", files={"file": file}, timeout=TIMEOUT_SECONDS)
        return "file taken" if answer.ok else f"file {answer.status_code}"


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


def compare(
    url: str, name: str, disturbing: Callable[[], AbstractContextManager[None]], works: list[list[Work]], rounds: int
) -> None:
    quiet, loud = [], []
    with disturbing():
        measure(url, works)  # loads whatever is loaded on first use, which must not count
    for _ in range(rounds):
        quiet.append(measure(url, works))
        with disturbing():
            loud.append(measure(url, works))
    medians = [[statistics.median(each[part] for each in side) for side in (quiet, loud)] for part in (0, 1)]
    shown = "  ".join(f"{before:8.1f} -> {after:6.1f} ms" for before, after in medians)
    ratios = ", ".join(f"{after / before:.2f}" for before, after in medians)
    print(f"{name:>18}  {shown}  {ratios}", flush=True)


if __name__ == "__main__":
    main()
