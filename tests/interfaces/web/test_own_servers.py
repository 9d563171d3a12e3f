"""Connections never lead to this service's own engine, which asks for no key."""

import uuid
from urllib.parse import urlsplit

import pytest

from wrapper.engine.keeper.state import read_state

HOSTS = ["127.0.0.1", "127.0.0.2", "localhost", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "2130706433"]


@pytest.fixture
def engine_port(app):
    return urlsplit(read_state(app.extensions["rag.service"].settings.data_dir).url).port


@pytest.fixture
def connection_id(client):
    name = f"own-{uuid.uuid4().hex[:12]}"
    yield name
    client.delete(f"/api/connections/{name}")


def test_the_engine_of_now_is_known(app, engine_port):
    assert app.extensions["rag.service"].own_servers() == [("127.0.0.1", engine_port)]


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("provider", ["chromadb", "qdrant", "chromadb-wrapper"])
def test_a_test_does_not_reach_the_engine(client, engine_port, host, provider):
    config = {"url": f"http://{host}:{engine_port}"}
    tested = client.post("/api/connections/test", json={"type": "rag", "provider": provider, "config": config})
    assert (tested.status_code, tested.json["errorType"]) == (400, "blocked")


def test_a_stored_connection_does_not_reach_the_engine(client, connection_id, engine_port, filled):
    kept = filled([{"text": "one", "embedding": [1.0, 0.0]}])
    config = {"url": f"http://127.0.0.1:{engine_port}"}
    made = client.post(
        "/api/connections", json={"id": connection_id, "type": "rag", "provider": "chromadb", "config": config}
    )
    assert made.status_code == 201
    listed = client.get(f"/api/connections/{connection_id}/collections")
    assert (listed.status_code, listed.json["code"]) == (400, "connection_blocked")
    report = client.get(f"/api/connections/{connection_id}/health").json
    assert (report["status"], report["details"]["error_type"]) == ("unhealthy", "blocked")
    asked = {"userMessage": "hello", "selectedCollections": [{"service": connection_id, "name": kept}]}
    [receipt] = client.post("/api/collect", json=asked).json["receipt"]["collections"]
    assert receipt["status"] == "failed"
    assert "RAG_CONNECT_POLICY" in receipt["error"]
