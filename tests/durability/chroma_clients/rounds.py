"""Rounds of writing, killing, starting again and reading, of this service and of a stock `chroma run`."""

import random
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import chromadb.errors

from tests.durability.chroma_clients.judging import complaints_about, found_by
from tests.durability.chroma_clients.writers import SHARED, Bed, Writer
from tests.durability.processes import kill_everything
from tests.durability.workload import running
from tests.support.chroma import ChromaServer
from tests.support.live import LiveService, chroma_client_at, eventually, start_service

WRITERS = 4
READS = 2
"""How often a server is read after a kill: one that fails once may answer from then on."""
FAILURES = (chromadb.errors.ChromaError, AssertionError)


class Ours:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._service: LiveService | None = None

    @property
    def url(self) -> str:
        assert self._service is not None
        return self._service.url

    def start(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        self._service = start_service(self._directory, access="open")

    def kill(self) -> None:
        kill_everything(self._service)

    def stop(self) -> None:
        if self._service is not None:
            self._service.stop()


class Stock(ChromaServer):
    def kill(self) -> None:
        self.stop()

    def stop(self, number: int = signal.SIGKILL) -> None:
        super().stop(number)


def prepared(server: Any) -> list[Writer]:
    """Start a server, make the collection that all writers share, and return the writers."""
    server.start()
    with chroma_client_at(server.url) as client:
        client.create_collection(SHARED, embedding_function=None)
    return [Writer(number) for number in range(WRITERS)]


def one_round(server: Any, writers: Sequence[Writer], generator: random.Random, longest_seconds: float) -> list[str]:
    """Kill a server at a random moment of its clients' writing, start it again, and return what is wrong then."""
    told = acknowledged(writers)

    def runner(writer: Writer) -> Any:
        return lambda stopping: writer.run(server.url, stopping)

    with running([runner(writer) for writer in writers]) as stopping:
        eventually(lambda: acknowledged(writers) > told or stopping.is_set())
        stopping.wait(generator.uniform(0.0, longest_seconds))
        server.kill()
    server.start()
    complaints = [refusal for writer in writers for refusal in writer.refused]
    with chroma_client_at(server.url) as client:
        for _ in range(READS):
            try:
                complaints += complaints_about(client, found_by(client), writers)
                break
            except FAILURES as error:
                complaints.append(f"cannot be read: {error}")
        try:
            _write(client)
        except FAILURES as error:
            complaints.append(f"cannot be written: {error}")
    return complaints


def _write(client: Any) -> None:
    """Add a record to the shared collection, find it, and delete it."""
    shared, vector = client.get_collection(SHARED, embedding_function=None), Bed((0,)).vector()
    shared.add(ids=["probe"], embeddings=[vector])
    found = shared.query(query_embeddings=[vector], n_results=1)["ids"]
    assert found == [["probe"]], f"a new record is not found: {found}"
    shared.delete(ids=["probe"])


def acknowledged(writers: Sequence[Writer]) -> int:
    return sum(writer.acknowledged for writer in writers)
