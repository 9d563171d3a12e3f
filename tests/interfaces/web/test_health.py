"""`/health`, the context tools and what pre-validation reads agree."""

import pytest

from schemas.settings import RetrievalSettings
from tests.support.live import eventually

KEY = "sk-planted-in-the-environment"


@pytest.fixture(scope="module")
def app(app_of_models):
    """It asks its models all the time."""
    retrieval = RetrievalSettings(breaker_threshold=1, breaker_timeout_seconds=3_600)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("RAG_EMBEDDING_API_KEY", KEY)
        yield app_of_models(retrieval=retrieval, look_seconds=0.05)


def told(client):
    """(`/health`, `rag_context_health`) as soon as both report the same check; they must agree on it."""

    def asked():
        both = client.get("/health").json, client.post("/tools/rag_context_health").json
        said = [(each["healthy"], each["embedding"].get("error"), each["chat"].get("error")) for each in both]
        return both if said[0] == said[1] else None

    return eventually(asked)


@pytest.mark.slow
def test_models_that_are_down_degrade_the_service_by_name_and_never_what_it_stores(client, models):
    service, tools = told(client)
    assert (service["status"], service["healthy"], tools["healthy"]) == ("healthy", True, True)
    assert service["embedding"]["status"] == service["chat"]["status"] == "healthy"
    assert tools["embedding"]["healthy"] is tools["chat"]["healthy"] is True
    models.is_down = True
    try:
        eventually(lambda: client.get("/health").json["embedding"]["status"] == "unhealthy")
        eventually(lambda: client.get("/health").json["chat"]["status"] == "unhealthy")
        service, tools = told(client)
        assert (service["status"], service["healthy"], tools["healthy"]) == ("degraded", False, False)
        for part in ("embedding", "chat"):
            assert service[part]["error"]
            assert KEY not in str(service[part])
        assert (client.get("/health").status_code, client.get("/ready").status_code) == (200, 200)
    finally:
        models.is_down = False
    eventually(lambda: client.get("/health").json["healthy"])


def test_an_open_circuit_breaker_degrades_the_service(client, models):
    layers = client.application.extensions["rag.layers"]
    layers.context.breaker.failed()
    try:
        service, tools = told(client)
        assert (service["status"], service["circuitBreakerOpen"]) == ("degraded", True)
        assert (tools["status"], tools["circuitBreakerOpen"]) == ("degraded", True)
    finally:
        layers.context.breaker.succeeded()
    eventually(lambda: client.get("/health").json["healthy"])
