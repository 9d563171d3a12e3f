"""The workers of one service see each other's writes."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from tests.durability.processes import leader, worker_of, workers
from tests.durability.workload import ask, create, documents
from tests.support.live import eventually, live_service

ASKED = 12
"""The number of connections, which the service spreads evenly over its workers."""


@pytest.fixture(scope="module")
def service(tmp_path_factory, processes):
    """A service that asks the index, however few documents there are, and makes backups."""
    backups = {"backup_dir": tmp_path_factory.mktemp("backups"), "backup_every": "24h"}
    with live_service(
        tmp_path_factory.mktemp("two"), workers=2, memory_vectors_mb=0, exact_ms=0, recall=0, **backups
    ) as service:
        yield service


def test_one_of_them_makes_the_backup_that_is_due(service):
    eventually(lambda: len(workers(service)) == 2)
    with service.session() as session:
        eventually(
            lambda: [each["state"] for each in session.get(f"{service.url}/api/backups").json()["backups"]] == ["done"]
        )
    assert service.log.read_text().count('"event":"backup made"') == 1


def both_answer(service):
    """Return whether each of the workers has taken some of the connections."""
    with ExitStack() as stack:
        connections = [stack.enter_context(service.one_connection()) for _ in range(ASKED)]
        for connection in connections:
            connection.ask("GET", "/live")
        return len({worker_of(connection.local_port, service) for connection in connections}) == 2


def test_writes_through_each_worker_are_answered_when_the_index_has_them(service):
    create(service, "released")
    eventually(lambda: both_answer(service))
    first = eventually(lambda: leader(service))
    reached = {True: 0, False: 0}
    with ExitStack() as stack:
        connections = [stack.enter_context(service.one_connection()) for _ in range(16)]
        for number, connection in enumerate(connections):
            for step in range(4):
                given = documents(1, seed=number * 10 + step, writer=number)
                added = connection.ask("POST", "/collections/released/documents", {"documents": given})
                assert added.status == 201, added.json
                query = {"query_embedding": given[0]["embedding"], "top_k": 1}
                found = connection.ask("POST", "/collections/released/query", query).json
                assert (found["results"][0]["id"], found["plan"]) == (given[0]["id"], "index")
            reached[worker_of(connection.local_port, service) == first] += 1
    assert min(reached.values()) > 0, reached


def test_no_worker_answers_from_a_deleted_collection(service):
    """Nothing that a worker remembers of a collection is used for a later collection of the same name."""

    def fill(text):
        metadata = {"source": "handbook", "doc_type": "ops", "last_update_date": "2025-10-02"}
        documents = [{"document_id": None, "filename": "keys.md", "content": text, "metadata": metadata}]
        body = {"documents": documents, "collection": "keys"}
        assert ask(service, "POST", "/api/rag/documents:batch", json=body)["errors"] == []
        return ask(service, "GET", "/collections/keys")["revision"]

    def told(_):
        body = {"query": "the key of the house", "context_key": "a:b", "collection": "keys", "min_relevance": 0}
        (found,) = ask(service, "POST", "/api/rag/retrieve", json=body)["document_chunks"]
        return found["text"]

    with ThreadPoolExecutor(4) as pool:
        revision = fill("The key of the house lies under the red stone.")
        assert all("red stone" in text for text in pool.map(told, range(ASKED)))
        ask(service, "DELETE", "/collections/keys")
        assert fill("The key of the house hangs in the kitchen.") == revision
        assert all("kitchen" in text for text in pool.map(told, range(ASKED)))
