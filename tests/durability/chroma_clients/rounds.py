"""Rounds of writing, killing, starting again and reading, of this service and of a stock `chroma run`: what a client of
Chroma finds after a kill is compared with what was acknowledged."""

import random
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import chromadb.errors
import numpy as np

from tests.durability.chroma_clients.writers import SHARED, Bed, Record, State, Writer
from tests.durability.processes import kill_everything
from tests.durability.workload import MISSED_BY_INDEX, running
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


PAGE = 2_000
ASKED = 40
FEW = 3


def found_by(client: Any) -> State:
    """Return all collections and records that a client can get, by id and filter and without, and complain by
    AssertionError when these ways disagree."""
    there: State = {}
    for collection in client.list_collections():
        there[collection.name, None] = str(collection.id)
        count, read = collection.count(), 0
        while read < count:
            page = collection.get(include=["documents", "metadatas", "embeddings"], limit=PAGE, offset=read)
            for place, record_id in enumerate(page["ids"]):
                embedding = np.asarray(page["embeddings"][place], dtype=np.float32).tobytes()
                record = Record(page["documents"][place], page["metadatas"][place], embedding)
                there[collection.name, record_id] = record
            assert page["ids"], f"{collection.name} counts {count} records, and gives {read}"
            read += len(page["ids"])
        assert read == count, f"{collection.name} counts {count} records, and gives {read}"
    return there


def complaints_about(client: Any, there: State, writers: Sequence[Writer]) -> list[str]:
    """Return what is wrong with what a client found, and settle what was not answered."""
    complaints = [complaint for writer in writers if (complaint := writer.settle(_with_new(there, writer)))]
    told = {key: value for writer in writers for key, value in writer.state.items()}
    told[SHARED, None] = there.get((SHARED, None))
    lost = [key for key in told if key not in there]
    back = [key for key in there if key not in told]
    other = [key for key in told if key in there and there[key] != told[key]]
    for keys, what in (
        (lost, "acknowledged, and lost"),
        (back, "deleted or never told, and there"),
        (other, "not as told"),
    ):
        if keys:
            complaints.append(f"{len(keys)} {what}, such as {keys[:FEW]}")
    shared = client.get_collection(SHARED, embedding_function=None)
    for writer in writers:
        complaints += _asked(shared, writer)
    return complaints


def _with_new(there: State, writer: Writer) -> State:
    """Return what is there as far as an unanswered request told it: nobody was told the UUID of a new collection."""
    if writer.unanswered is None or writer.unanswered.what != "create":
        return there
    (key,) = writer.unanswered.after
    if key not in there:
        return there
    writer.unanswered = writer.unanswered._replace(after={key: there[key]})
    return there


def _asked(shared: Any, writer: Writer) -> list[str]:
    """Ask for a writer's records by id, by filter and by vector."""
    mine = {key[1]: value for key, value in writer.state.items() if key[0] == SHARED}
    found = set(shared.get(where={"writer": writer.number}, include=[])["ids"])
    complaints = [] if found == mine.keys() else [f"{len(found ^ mine.keys())} records of a filter differ"]
    some = sorted(mine)[:: max(1, len(mine) // ASKED)]
    if not some:
        return complaints
    by_id = shared.get(ids=some, include=["documents"])
    if dict(zip(by_id["ids"], by_id["documents"], strict=True)) != {each: mine[each].document for each in some}:
        complaints.append("records by id differ")
    vectors = [np.frombuffer(mine[each].embedding, dtype=np.float32) for each in some]
    nearest = shared.query(query_embeddings=vectors, n_results=1, include=["distances"])
    missed = [
        each
        for each, ids, distances in zip(some, nearest["ids"], nearest["distances"], strict=True)
        if ids != [each] or distances[0] > 1e-6
    ]
    if len(missed) > max(1, MISSED_BY_INDEX * len(some)):
        complaints.append(
            f"{len(missed)} of {len(some)} records are not found by their vectors, such as {missed[:FEW]}"
        )
    gone = [np.frombuffer(each, dtype=np.float32) for each in writer.gone[-ASKED:]]
    if gone:
        answer = shared.query(query_embeddings=gone, n_results=1, include=["distances"])
        near = [distances[0] for distances in answer["distances"] if distances and distances[0] < 1e-6]
        if near:
            complaints.append(f"{len(near)} of {len(gone)} deleted records are found by their vectors")
    return complaints
