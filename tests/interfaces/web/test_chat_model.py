"""The connection that answers: marked over the wire, used from the next question on, and named by requests."""

import pytest

from tests.support.apps import models_of, running_app
from tests.support.live import eventually

CONNECTIONS = "/api/connections"


@pytest.fixture(scope="module")
def client(tmp_path_factory, models):
    settings = models_of(models, chats=False)
    with running_app(tmp_path_factory.mktemp("chat"), registry=settings, look_seconds=0.05) as app:
        yield app.test_client()


@pytest.fixture
def save(client, models):
    """`save(id)`: a connection to a chat model of that name, or of another type."""

    def save(name, kind="llm"):
        config = {"url": f"{models.url}/v1", "model": name}
        body = {"id": name, "type": kind, "provider": "openai", "config": config}
        answer = client.post(CONNECTIONS, json=body)
        assert answer.status_code == 201, answer.json
        return answer.json["chat_model"]

    yield save
    for each in client.get(CONNECTIONS).json["connections"]:
        if each["origin"] == "stored":
            client.delete(f"{CONNECTIONS}/{each['id']}")


def answered(client, **asked):
    """Return the model that has answered, or the status and the code of the refusal."""
    answer = client.post("/api/chat", json={"message": "What?", **asked}).json
    return answer["data"]["model"] if "data" in answer else answer["code"]


def test_the_first_one_saved_answers_until_another_is_marked_or_it_is_gone(client, save):
    refused = client.post("/api/chat", json={"message": "What?"})
    assert (refused.status_code, refused.json["code"]) == (503, "chat_unavailable")
    assert all(each in refused.json["message"] for each in ("/api/connections", "RAG_CHAT_PROVIDER"))
    assert "chat" not in client.get("/health").json
    assert [save("first"), save("second"), save("vectors", "embedding")] == [True, False, False]
    assert answered(client) == "first"
    changed = client.put(f"{CONNECTIONS}/second", json={"chat_model": True})
    assert (changed.status_code, changed.json["chat_model"]) == (200, True)
    listed = client.get(CONNECTIONS).json["connections"]
    assert [each["id"] for each in listed if each["chat_model"]] == ["second"]
    assert answered(client) == "second"
    eventually(lambda: client.get("/health").json["chat"]["status"] == "healthy")
    assert client.post("/tools/rag_context_health").json["chat"]["healthy"] is True
    config = listed[-2]["config"] | {"model": "third"}
    assert client.put(f"{CONNECTIONS}/second", json={"config": config}).json["chat_model"] is True
    assert answered(client) == "third"
    for marked, method, change in (
        ("second", "PUT", {"chat_model": False}),
        ("second", "PUT", {"type": "embedding", "config": config}),
        ("first", "DELETE", None),
    ):
        client.put(f"{CONNECTIONS}/{marked}", json={"chat_model": True})
        assert client.open(f"{CONNECTIONS}/{marked}", method=method, json=change).status_code == 200
        assert answered(client) == "chat_unavailable"


def test_a_request_names_another_one(client, save):
    save("first"), save("second"), save("vectors", "embedding")
    assert answered(client, connection="second") == "second"
    for named, status, code in (("nobody", 404, "connection_not_found"), ("vectors", 409, "wrong_connection_type")):
        refused = client.post("/api/chat", json={"message": "What?", "connection": named})
        assert (refused.status_code, refused.json["code"]) == (status, code)
        assert refused.json["details"]["field"] == "connection"
        marked = client.put(f"{CONNECTIONS}/{named}", json={"chat_model": True})
        assert (marked.status_code, marked.json["code"]) == (status, code)


def test_models_are_named_by_their_connections(client, save):
    save("first"), save("second")
    listed = {each["id"]: each["owned_by"] for each in client.get("/v1/models").json["data"]}
    assert listed == {"rag": "rag-wrapper", "first": "openai", "rag/second": "rag-wrapper", "second": "openai"} | {
        "stub": "openai"
    }
    said = {}
    for model in ("rag", "rag/first", "rag/second", "second"):
        asked = {"model": model, "messages": [{"role": "user", "content": "What?"}]}
        answer = client.post("/v1/chat/completions", json=asked)
        assert client.get(f"/v1/models/{model}").json["id"] == answer.json["model"] == model
        said[model] = "rag" in answer.json
    assert said == {"rag": True, "rag/first": True, "rag/second": True, "second": False}
    asked["model"] = "rag/nobody"
    assert client.post("/v1/chat/completions", json=asked).status_code == 404
