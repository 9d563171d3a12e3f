"""`/api/collect` over HTTP: what has no match, and several workers."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.live import PATIENCE_SECONDS, live_service


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("collecting")


@pytest.fixture(scope="module")
def service(directory, processes, models):
    """A service of two workers, whose embeddings are the stub's."""
    settings = {"embedding_provider": "openai", "embedding_url": f"{models.url}/v1", "embedding_model": "stub"}
    with live_service(directory, workers=2, **settings) as service:
        yield service


def test_eight_identical_queries_to_two_workers_make_one_embedding_call(service, models):
    with service.session() as session:
        names = [f"collection-{number}" for number in range(5)]
        for name in names:
            session.post(f"{service.url}/collections", json={"name": name}, timeout=PATIENCE_SECONDS)
    selected = [{"service": "local", "name": name} for name in names]

    def ask(_):
        with service.session() as own:
            body = {"userMessage": "the same question", "selectedCollections": selected}
            answer = own.post(f"{service.url}/api/collect", json=body, timeout=PATIENCE_SECONDS)
            return answer.json()["receipt"]["embeddings"]

    with ThreadPoolExecutor(8) as pool:
        receipts = list(pool.map(ask, range(8)))
    asked = [text for each in models.requests for text in each.body["input"]]
    assert asked.count("the same question") == 1  # the health check embeds a text of its own
    assert sum(receipt["generated"] for receipt in receipts) == 1
    assert sum(receipt["reused"] for receipt in receipts) == 8 * 5 - 1


def test_connections_made_through_one_worker_are_known_to_all_and_outlive_a_restart(service, directory):
    made = {"id": "books", "type": "rag", "provider": "chromadb", "config": {"url": "http://127.0.0.1:9"}}
    with service.session() as session:
        assert session.post(f"{service.url}/api/connections", json=made, timeout=PATIENCE_SECONDS).status_code == 201
    for _ in range(8):
        with service.session() as own:
            shown = own.get(f"{service.url}/api/connections/books", timeout=PATIENCE_SECONDS)
            assert shown.status_code == 200
    service.stop()
    with live_service(directory) as again, again.session() as session:
        shown = session.get(f"{again.url}/api/connections/books", timeout=PATIENCE_SECONDS)
        assert shown.json()["config"] == made["config"]
