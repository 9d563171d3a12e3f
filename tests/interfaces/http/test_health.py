"""One truth: `/health`, the context tools and what pre-validation reads say the same."""

from __future__ import annotations

import pytest

from schemas.settings import RegistrySettings, RetrievalSettings
from tests.support.apps import running_app
from tests.support.live import eventually
from tests.support.model_server import model_server

KEY = "sk-planted-in-the-environment"


@pytest.fixture(scope="module")
def models():
    with model_server() as server:
        yield server


@pytest.fixture(scope="module")
def client(tmp_path_factory, models):
    """Of a service that asks its models all the time."""
    url = f"{models.url}/v1"
    registry = RegistrySettings(
        embedding_provider="openai",
        embedding_url=url,
        embedding_model="stub",
        chat_provider="openai",
        chat_url=url,
        chat_model="chatty",
    )
    retrieval = RetrievalSettings(breaker_threshold=1, breaker_timeout_seconds=3_600)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("RAG_EMBEDDING_API_KEY", KEY)
        with running_app(
            tmp_path_factory.mktemp("health"), registry=registry, retrieval=retrieval, look_seconds=0.05
        ) as app:
            yield app.test_client()


def told(client):
    """(`/health`, `rag_context_health`) as soon as they agree, which they must."""

    def asked():
        both = client.get("/health"), client.post("/tools/rag_context_health")
        return [each.json for each in both] if both[0].json["healthy"] == both[1].json["healthy"] else None

    return eventually(asked, seconds=30)


def test_models_that_answer_are_part_of_a_healthy_service(client):
    service, tools = told(client)
    assert (service["status"], service["healthy"], tools["healthy"]) == ("healthy", True, True)
    assert service["embedding"]["status"] == service["chat"]["status"] == "healthy"
    assert tools["embedding"]["healthy"] is tools["chat"]["healthy"] is True


def test_models_that_are_down_degrade_the_service_by_name_and_never_what_it_stores(client, models):
    models.is_down = True
    try:
        eventually(lambda: client.get("/health").json["embedding"]["status"] == "unhealthy", seconds=30)
        eventually(lambda: client.get("/health").json["chat"]["status"] == "unhealthy", seconds=30)
        service, tools = told(client)
        assert (service["status"], service["healthy"], tools["healthy"]) == ("degraded", False, False)
        for part in ("embedding", "chat"):
            assert service[part]["error"]
            assert tools[part]["error"] == service[part]["error"]
            assert KEY not in str(service[part])
        assert (client.get("/health").status_code, client.get("/ready").status_code) == (200, 200)
    finally:
        models.is_down = False
    eventually(lambda: client.get("/health").json["healthy"], seconds=30)


def test_an_open_circuit_breaker_degrades_the_service(client, models):
    layers = client.application.extensions["rag.layers"]
    layers.context.breaker.failed()
    try:
        service, tools = told(client)
        assert (service["status"], service["circuitBreakerOpen"]) == ("degraded", True)
        assert (tools["status"], tools["circuitBreakerOpen"]) == ("degraded", True)
    finally:
        layers.context.breaker.succeeded()
    eventually(lambda: client.get("/health").json["healthy"], seconds=30)
