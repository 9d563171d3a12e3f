"""While the engine does not answer, writes are safe and say so, and reads and vector queries still work."""

import threading

import pytest

from schemas.errors import UnavailableError
from tests.support.live import PATIENCE_SECONDS, eventually
from tests.wrapper.routes.conftest import TWO_DOCUMENTS
from wrapper.catalog.catalog import Catalog
from wrapper.engine.client import EngineClient


@pytest.fixture
def client(open_client):
    with open_client() as client:
        yield client


@pytest.fixture
def url(client):
    assert client.post("/collections", json={"name": "abc"}).status_code == 201
    return "/collections/abc"


def test_a_repeat_without_a_key_is_not_indexed_before_its_original(client, url):
    for counted in ("created", "unchanged"):
        answer = client.post(f"{url}/documents", json={"documents": TWO_DOCUMENTS})
        assert (answer.status_code, answer.json["indexed"], answer.json[counted]) == (202, False, 2)


def test_vector_queries_scan_the_catalogue_and_say_so(client, url):
    client.post(f"{url}/documents", json={"documents": TWO_DOCUMENTS})
    for where in (None, {"page": {"$gte": 1}}):
        answer = client.post(f"{url}/query", json={"query_embedding": [0, 1], "where": where}).json
        assert [each["id"] for each in answer["results"]] == ["b", "a"]
        assert answer["plan"] == "scan"


def test_health_is_degraded_with_200(client, url):
    client.post(f"{url}/documents", json={"documents": TWO_DOCUMENTS})
    eventually(lambda: client.get("/health").json["engine"]["status"] == "unresponsive")
    answer = client.get("/health")
    assert (answer.status_code, answer.json["status"]) == (200, "degraded")
    assert (answer.json["engine"]["mode"], "age_seconds" in answer.json["engine"]) == ("remote", True)
    assert answer.json["catalog"] == {"status": "healthy", "kind": "sqlite"}
    assert answer.json["index_lag"] == 2
    assert client.get("/ready").status_code == 200


def test_health_is_503_when_the_catalogue_is_away(client, tmp_path, monkeypatch):
    (tmp_path / "catalog.sqlite").write_bytes(b"this is no database" * 1_000)
    for end in ("-wal", "-shm"):
        (tmp_path / f"catalog.sqlite{end}").unlink(missing_ok=True)
    answer = client.get("/health")
    assert (answer.status_code, answer.json["status"]) == (503, "unhealthy")

    def fail(self):
        raise UnavailableError("The catalogue is unavailable")

    # A connection that has read the first pages may still answer from its cache.
    monkeypatch.setattr(Catalog, "read", fail)
    eventually(lambda: client.get("/ready").status_code == 503)
    assert client.get("/live").status_code == 200


def test_health_does_not_wait_for_the_engine(monkeypatch, open_client):
    asked, gate = threading.Event(), threading.Event()

    def hang(engine, timeout_seconds):
        asked.set()
        gate.wait()

    monkeypatch.setattr(EngineClient, "heartbeat", hang)
    with open_client() as client:
        try:
            assert asked.wait(PATIENCE_SECONDS)
            for path in ("/live", "/ready", "/health", "/metrics"):
                assert client.get(path).status_code == 200
        finally:
            gate.set()


def test_writes_are_refused_below_the_disk_floor_and_reads_go_on(open_client):
    with open_client() as client:
        client.post("/collections", json={"name": "abc"})
        client.post("/collections/abc/documents", json={"documents": TWO_DOCUMENTS})
    with open_client(disk_floor_mb=10**9) as client:
        before = client.get("/collections/abc").json
        url = "/collections/abc"
        for answer in (
            client.post("/collections", json={"name": "another"}),
            client.put(f"{url}/metadata", json={"metadata": {"x": 1}}),
            client.post(f"{url}/documents", json={"documents": [{**TWO_DOCUMENTS[0], "id": "c"}]}),
            client.post(
                f"{url}/documents", data='{"text": "c", "embedding": [1, 1]}', content_type="application/x-ndjson"
            ),
            client.patch(f"{url}/documents/a", json={"text": "new"}),
            client.delete(f"{url}/documents", json={"ids": ["a"]}),
            client.delete(f"{url}/documents/all"),
            client.delete(url),
        ):
            assert (answer.status_code, answer.json["code"]) == (507, "disk_floor_reached")
        assert client.get(url).json == before
        assert client.get(f"{url}/documents").json["total"] == 2
        assert client.post(f"{url}/query", json={"query_embedding": [1, 0]}).status_code == 200
