"""Contract *storage*, "RAG Provider Registry Integration" and "Base RAG Provider Interface", over HTTP."""

import time
from datetime import datetime, timedelta

import pytest

from providers.base import RagProvider
from schemas.configuration import faults
from schemas.wire.connecting.provider_forms import rendered_schema

BUILT_IN = {"local", "chromadb-wrapper", "chromadb", "qdrant"}


def providers(client):
    return {each["id"]: each for each in client.get("/api/connections/providers").json["rag"]}


def test_rag_provider_registration(app, client):
    """WHEN a new RAG provider is added to the system THEN it registers itself and becomes discoverable."""

    class Drawer(RagProvider):
        id, display_name = "drawer", "Drawer"

        @classmethod
        def connection_schema(cls):
            return {"type": "object", "properties": {}}

        def check(self):
            return {}

        def collections(self):
            return []

    def register(registry):
        registry.register(Drawer)

    registry = app.extensions["rag.layers"].registry
    assert "drawer" not in providers(client)
    try:
        register(registry)
        assert providers(client)["drawer"]["capabilities"] == ["collections"]
    finally:
        del registry._entries["rag", "drawer"]


def test_rag_provider_discovery(client):
    """WHEN the system needs to find available RAG providers THEN the registry returns all with their capabilities."""
    found = providers(client)
    assert found.keys() >= BUILT_IN
    assert all({"collections", "search"} <= set(each["capabilities"]) for each in found.values())
    assert all(found[name]["viable"] for name in BUILT_IN)


def test_rag_provider_selection(client, filled):
    """WHEN a RAG provider is selected for use THEN its instance is loaded with proper configuration and errors."""
    name = filled([{"text": "one", "embedding": [1.0, 0.0]}])
    made = client.post("/api/connections", json={"id": "selected", "type": "rag", "provider": "local", "config": {}})
    assert made.status_code == 201
    try:
        found = client.get("/api/connections/selected/collections").json["collections"]
        assert (name, 1, 2) in [(each["name"], each["count"], each["dimension"]) for each in found]
    finally:
        client.delete("/api/connections/selected")
    wrong = {"id": "wrong", "type": "rag", "provider": "chromadb", "config": {"url": "nowhere"}}
    refused = client.post("/api/connections", json=wrong)
    assert refused.status_code == 400
    assert refused.json["details"]["errors"][0]["pointer"] == "/url"
    unknown = client.post("/api/connections", json={**wrong, "provider": "pinecone"})
    assert (unknown.status_code, unknown.json["error"]) == (404, "Provider not found")
    assert unknown.json["message"] == "Provider 'pinecone' not found"


@pytest.mark.parametrize("provider", sorted(BUILT_IN))
def test_provider_initialization_with_schema(app, client, provider):
    """WHEN a RAG provider is instantiated THEN it exposes its configuration schema via `getConnectionSchema()`, validates
    the configuration against it and initializes when it is valid."""
    schema = client.get(f"/api/connections/providers/{provider}/schema").json
    assert schema["provider"] == provider
    assert [field["name"] for field in schema["fields"]] == list(schema["json_schema"]["properties"])
    config = {"url": "http://127.0.0.1:9"} if any(field["name"] == "url" for field in schema["fields"]) else {}
    layers = app.extensions["rag.layers"]
    with layers.registry.connect("rag", provider, config, layers.connections.context) as connection:
        assert rendered_schema(connection.connection_schema()) == schema["json_schema"]
        assert faults(connection.config, schema["json_schema"]) == []
    asked = {"type": "rag", "provider": provider, "config": {"no_such_field": 1}}
    judged = client.post("/api/connections/validate", json=asked).json
    assert judged["valid"] is False
    assert "/no_such_field" in [fault["pointer"] for fault in judged["errors"]]


def test_provider_capabilities_declaration(client):
    """WHEN querying a RAG provider's capabilities THEN it returns supported operations, AND a UI can go by them."""
    found = providers(client)
    for name in BUILT_IN:
        assert {"collections", "search", "embeddings", "metadata_filtering"} <= set(found[name]["capabilities"])
    assert "gather" in found["local"]["capabilities"]
    assert "gather" not in found["chromadb"]["capabilities"]


@pytest.mark.slow
def test_health_check_with_details(client, filled):
    """WHEN the system checks RAG provider health THEN it returns standardized health status with timestamp and error
    details, AND service-specific information."""
    filled([{"text": "one", "embedding": [1.0, 0.0]}])
    began = time.monotonic()
    report = client.get("/api/connections/local/health").json
    waited_ms = 1_000 * (time.monotonic() - began) + 1  # both are rounded
    assert (report["status"], report["provider"]) == ("healthy", "local")
    assert datetime.fromisoformat(report["timestamp"]).utcoffset() == timedelta(0)
    assert report["details"]["collections_count"] >= 1
    assert 0 <= report["details"]["response_time_ms"] <= waited_ms
    assert report["details"]["storage_bytes"] > 0
    dead = {"id": "dead", "type": "rag", "provider": "chromadb", "config": {"url": "http://127.0.0.1:9"}}
    assert client.post("/api/connections", json=dead).status_code == 201
    try:
        report = client.get("/api/connections/dead/health").json
        assert (report["status"], report["details"]["error_type"]) == ("unhealthy", "network")
        assert report["error"]
        everything = client.get("/api/connections/health").json
        by_id = {each["id"]: each["status"] for each in everything["connections"]}
        assert (by_id["local"], by_id["dead"]) == ("healthy", "unhealthy")
        assert everything["unhealthy"] >= 1
    finally:
        client.delete("/api/connections/dead")
