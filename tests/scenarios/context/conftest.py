"""The context tools of a service whose embeddings come from the stub."""

import uuid

import pytest
from jsonschema import Draft202012Validator

from schemas.settings import RetrievalSettings
from schemas.tool_schemas import read_tool_schemas
from tests.support.apps import models_of, running_app
from tests.support.live import PATIENCE_SECONDS
from tests.support.model_server import Answer

SEARCH, INDEX = "rag_context_search", "rag_context_index"
HEALTH, STATS = "rag_context_health", "rag_context_stats"
SIX_KEYS = {"results", "latency", "fallback", "fallbackLevel", "circuitBreakerOpen", "totalIndexed"}
RETRY = "MongoDB connections should use retry logic with exponential backoff. Max retries: 5."
JACKPOT = "FireKirin jackpot threshold is set at $500. Major jackpot at $250."
TIMEOUT = "Selenium WebDriver timeout should be 30 seconds for page loads."
THRESHOLD = 5


@pytest.fixture(scope="session")
def app(tmp_path_factory, models):
    retrieval = RetrievalSettings(
        breaker_threshold=THRESHOLD, context_vector_seconds=PATIENCE_SECONDS, context_text_seconds=PATIENCE_SECONDS
    )
    registry = models_of(models, chats=False)
    with running_app(tmp_path_factory.mktemp("context"), registry=registry, retrieval=retrieval) as app:
        yield app


@pytest.fixture
def refusing(models):
    """`refusing()` makes the embedding service refuse from now on; unlike a broken connection, a refusal is not
    retried."""
    usual = models.routes["/v1/embeddings"]

    def refuse():
        models.routes["/v1/embeddings"] = lambda body: Answer(401, b"{}", {"Content-Type": "application/json"})

    yield refuse
    models.routes["/v1/embeddings"] = usual


@pytest.fixture
def closed_breaker(app, models_up):
    app.extensions["rag.layers"].context.breaker.succeeded()


@pytest.fixture
def call(client, closed_breaker):
    """`call(tool, **arguments)` returns the answer, which must fit the schema that the service publishes for the
    tool."""

    def send(tool, /, *, status=200, **arguments):
        answer = client.post(f"/tools/{tool}", json=arguments)
        assert answer.status_code == status, answer.json
        if status == 200:
            Draft202012Validator(read_tool_schemas(tool).output).validate(answer.json)
        return answer.json

    return send


@pytest.fixture
def session_id():
    return f"s-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def index(call, session_id):
    def send(content=RETRY, **arguments):
        return call(INDEX, content=content, **{"sessionId": session_id, "source": "tests", **arguments})

    return send


@pytest.fixture
def search(call, session_id):
    def send(query, **arguments):
        return call(SEARCH, query=query, **{"sessionId": session_id, **arguments})

    return send
