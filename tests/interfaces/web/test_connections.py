"""The registry's routes as a config builder uses them; no connection leads to the service's own engine. Connections
that the configuration file declares."""

import json
import os

import pytest
import yaml

from interfaces import layers
from interfaces.start_checks import look_before_start
from registry.placeholders.resolving import Placeholders
from schemas.settings import RegistrySettings
from tests.interfaces.conftest import answering, environ
from tests.registry.hostile import response
from tests.support.live import live_service
from tests.support.logs import logs_of
from tests.support.raw_server import raw_server, saying
from wrapper.engine.keeper.state import read_state

SECRET = "sk-planted-9f3b"


def test_a_provider_is_found_by_name_and_type(client):
    assert client.get("/api/connections/providers/ollama").json["type"] == "embedding"
    for path in ("ollama?type=llm", "ollama/schema?type=llm"):
        assert client.get(f"/api/connections/providers/{path}").json["type"] == "llm"
    for path in ("nobody", "nobody/schema", "minilm?type=llm", "minilm?type=nothing", "minilm?type="):
        answer = client.get(f"/api/connections/providers/{path}")
        name = path.partition("?")[0].partition("/")[0]
        assert (answer.status_code, answer.json["error"]) == (404, "Provider not found")
        assert answer.json["message"] == f"Provider '{name}' not found"


@pytest.mark.parametrize(
    ("config", "pointers"),
    [
        ({}, []),
        ({"url": "ftp://x", "batch_size": 0, "speed": 1}, ["/url", "/batch_size", "/speed"]),
        ({"url": "http://${CHROMA_HOST:-x}:1/v1"}, []),
        ({"batch_size": "${RAG_BATCH:-8}", "model": "${NO_SUCH_MODEL_URL}"}, ["/model", "/batch_size"]),
        ({"api_key": "${RAG_CHAT_API_KEY}"}, ["/api_key"]),
        ({"url": "http://evil.example/${OPENAI_API_KEY}"}, ["/url"]),
    ],
)
def test_a_half_filled_form_is_judged_by_field(client, config, pointers):
    asked = {"type": "embedding", "provider": "openai", "config": config}
    answer = client.post("/api/connections/validate", json=asked)
    assert answer.status_code == 200
    assert sorted({fault["pointer"] for fault in answer.json["errors"]}) == sorted(pointers)
    assert answer.json["valid"] is (not pointers)


def test_a_missing_field_is_a_fault_and_an_unset_variable_a_warning(client):
    missing = client.post("/api/connections/validate", json={"type": "rag", "provider": "qdrant"}).json
    assert missing["errors"] == [{"pointer": "", "message": "Give either URL or Folder"}]
    config = {"api_key": "${NO_SUCH_MODEL_API_KEY}", "url": "${NO_SUCH_MODEL_URL}"}
    asked = {"type": "embedding", "provider": "openai", "config": config}
    unset = client.post("/api/connections/validate", json=asked).json
    assert (missing["valid"], unset["valid"]) == (False, True)
    assert sorted(warning["pointer"] for warning in unset["warnings"]) == ["/api_key", "/url"]


@pytest.fixture
def secret(monkeypatch):
    monkeypatch.setenv("TEST_OPENAI_API_KEY", SECRET)
    return "${TEST_OPENAI_API_KEY}"


def openai(connection_id, **config):
    return {"id": connection_id, "type": "embedding", "provider": "openai", "config": config}


@pytest.mark.slow
def test_a_planted_secret_is_in_no_answer_of_any_route(client, connection_id, secret, capfd):
    config = {"url": "http://127.0.0.1:9/v1", "api_key": secret}
    client.post("/api/connections", json=openai(connection_id, **config))
    selected = [{"service": "local", "name": "nothing", "embedding_connection": connection_id}]
    answers = [
        client.get(f"/api/connections/{connection_id}"),
        client.get("/api/connections"),
        client.get(f"/api/connections/{connection_id}/health"),
        client.get("/api/connections/health"),
        client.get(f"/api/connections/{connection_id}/collections"),
        client.get("/api/connections/env-vars?mask=false"),
        client.post("/api/connections/env-vars/validate", json={"text": secret}),
        client.get("/api/connections/env-vars/suggestions?provider=openai&field=api_key"),
        client.post("/api/connections/validate", json={"type": "embedding", "provider": "openai", "config": config}),
        client.post("/api/connections/test", json={"type": "embedding", "provider": "openai", "config": config}),
        client.post("/api/connections/embedding/test", json={"provider": "openai", "config": config}),
        client.put(f"/api/connections/{connection_id}", json={"config": {"url": "nonsense", "api_key": secret}}),
        client.post("/api/collect", json={"userMessage": "hello", "selectedCollections": selected}),
    ]
    assert [answer.status_code for answer in answers if answer.status_code >= 500] == []
    assert SECRET not in "".join(answer.text for answer in answers)
    said = capfd.readouterr()
    assert SECRET not in said.out + said.err


def test_the_health_of_one_connection_is_asked_for_by_its_id(client):
    answer = client.get("/api/connections/health?id=default")
    assert [each["id"] for each in answer.json["connections"]] == ["default"]
    assert client.get("/api/connections/health?id=nobody").status_code == 404


def test_only_documents_have_collections(client):
    answer = client.get("/api/connections/default/collections")
    assert (answer.status_code, answer.json["code"]) == (409, "wrong_connection_type")
    assert "local" in answer.json["details"]["allowed"]


def events_of(answer):
    assert (answer.status_code, answer.mimetype) == (200, "text/event-stream")
    return [json.loads(each.removeprefix("data: ")) for each in answer.text.split("\n\n") if each]


@pytest.mark.parametrize("route", ["test", "embedding/test"])
def test_a_test_may_be_told_stage_by_stage(client, models, route):
    for url, succeeds in ((f"{models.url}/v1", True), ("http://127.0.0.1:9", False)):
        asked = {"provider": "openai", "config": {"url": url, "model": "stub"}, "stream": True}
        events = events_of(client.post(f"/api/connections/{route}", json={"type": "embedding", **asked}))
        *stages, last = events
        assert (last["done"], last["success"]) == (True, succeeds)
        assert [event["stage"] for event in stages] == last["stages"]
        assert len(stages) == 6
    for provider, status in (("nobody", 404), (7, 400)):
        asked = {"type": "embedding", "provider": provider, "stream": True}
        assert client.post("/api/connections/test", json=asked).status_code == status


@pytest.mark.parametrize(("changes", "status"), [("nobody", 404), ("local", 409)])
def test_only_a_connection_that_may_be_changed_lends_its_secrets(client, changes, status):
    asked = {"type": "rag", "provider": "local", "config": {}, "changes": changes}
    for route in ("validate", "test"):
        assert client.post(f"/api/connections/{route}", json=asked).status_code == status


def test_neither_a_test_nor_a_stored_connection_reaches_the_engine(app, client, connection_id, filled):
    kept = filled([{"text": "one", "embedding": [1.0, 0.0]}])
    config = {"url": read_state(app.extensions["rag.service"].settings.data_dir).url}
    for provider in ("chromadb", "qdrant", "chromadb-wrapper"):
        tested = client.post("/api/connections/test", json={"type": "rag", "provider": provider, "config": config})
        assert (tested.status_code, tested.json["errorType"]) == (200, "blocked"), provider
    made = {"id": connection_id, "type": "rag", "provider": "chromadb", "config": config}
    assert client.post("/api/connections", json=made).status_code == 201
    listed = client.get(f"/api/connections/{connection_id}/collections")
    assert (listed.status_code, listed.json["code"]) == (400, "connection_blocked")
    report = client.get(f"/api/connections/{connection_id}/health").json
    assert (report["status"], report["details"]["error_type"]) == ("unhealthy", "blocked")
    asked = {"userMessage": "hello", "selectedCollections": [{"service": connection_id, "name": kept}]}
    [receipt] = client.post("/api/collect", json=asked).json["receipt"]["collections"]
    assert receipt["status"] == "failed"
    assert "RAG_CONNECT_POLICY" in receipt["error"]


GOOD = {
    "type": "rag",
    "provider": "chromadb",
    "config": {"url": "http://127.0.0.1:9", "api_key": "${CHROMA_API_KEY}"},
    "display_name": "The books",
}


def file_of(tmp_path, **connections):
    path = tmp_path / "rag.yaml"
    path.write_text(yaml.safe_dump({"connections": connections}))
    return path


def test_a_declared_connection_is_there_for_all_and_cannot_be_changed(tmp_path, processes):
    path = file_of(tmp_path, books=GOOD)
    with live_service(tmp_path, workers=2, config_file=path) as service, service.session() as session:
        shown = session.get(f"{service.url}/api/connections/books").json()
        assert (shown["origin"], shown["display_name"]) == ("declared", "The books")
        assert (shown["config"], shown["secrets"]) == ({"url": "http://127.0.0.1:9"}, {"api_key": ["CHROMA_API_KEY"]})
        refused = session.delete(f"{service.url}/api/connections/books")
        assert (refused.status_code, refused.json()["code"]) == (409, "connection_read_only")
        taken = session.post(f"{service.url}/api/connections", json={"id": "books", **GOOD})
        assert taken.status_code == 409


@pytest.mark.parametrize(
    ("connection", "sentence"),
    [
        ({**GOOD, "provider": "pinecone"}, "connections.books: Provider 'pinecone' not found"),
        ({**GOOD, "type": "database"}, "connections.books: type must be one of"),
        (
            {**GOOD, "config": {"url": "nowhere"}},
            "connections.books: The configuration for 'chromadb' is not valid: URL",
        ),
        ({**GOOD, "config": {"api_key": "sk-planted"}}, "API key is a secret"),
        ({**GOOD, "config": {"url": "http://${HOME}"}}, "HOME is not among those allowed"),
        ({**GOOD, "config": ["x"]}, "connections.books.config must be a mapping"),
        ({**GOOD, "colour": "red"}, "connections.books has an unknown field 'colour'"),
        ("books", "must map ids to connections"),
    ],
)
def test_one_that_is_no_good_stops_the_start_with_a_sentence(tmp_path, monkeypatch, connection, sentence):
    settings = environ(data_dir=tmp_path / "data", config_file=file_of(tmp_path, books=connection))
    monkeypatch.setattr(os, "environ", settings)
    (problem,) = look_before_start().problems
    assert sentence in problem
    assert "sk-planted" not in problem


@pytest.mark.parametrize(
    ("hosts", "environ", "warnings"),
    [
        ((), {"OPENAI_API_KEY": "sk-planted"}, 1),
        (("OPENAI_API_KEY=api.openai.com",), {"OPENAI_API_KEY": "sk-planted"}, 0),
        ((), {"PATH": "/bin", "RAG_CHAT_API_KEY": "sk-planted"}, 0),
    ],
)
def test_the_start_warns_of_secrets_that_are_bound_to_no_host(monkeypatch, hosts, environ, warnings):
    logs = logs_of(monkeypatch, "interfaces.layers")
    layers.warn_of_free_secrets(RegistrySettings(secret_hosts=hosts), Placeholders(environ))
    assert ([entry["event"].count("RAG_SECRET_HOSTS") for entry in logs], "planted" in str(logs)) == (
        [1] * warnings,
        False,
    )


# The calls of the first release's forms, and services that answer like its server.


DOCS = {"name": "docs", "count": 2, "metadata": {"embedding_model": "all-MiniLM-L6-v2", "hnsw:space": "cosine"}}


@pytest.fixture
def original():
    with answering({"/health": {"status": "healthy"}, "/collections": {"collections": [DOCS]}}) as server:
        yield server


def as_first_written(url, **more):
    return {"provider": "chromadb-wrapper", "config": {"provider": "chromadb-wrapper", "url": url, **more}}


def test_a_form_that_names_its_provider_twice_is_tested_and_kept_as_this_release_spells_it(
    client, original, connection_id
):
    answer = client.post("/api/connections/rag/test", json=as_first_written(original.url, timeout=30000))
    assert answer.status_code == 200, answer.json
    assert [stage["verdict"] for stage in answer.json["stages"]] == ["passed"] * 6
    assert (answer.json["success"], answer.json["collectionCount"]) == (True, 1)
    assert answer.json["collections"] == [{"name": "docs", "count": 2, "metadata": DOCS["metadata"]}]
    judged = client.post(
        "/api/connections/validate", json={"type": "rag", **as_first_written(original.url, timeout=30000)}
    ).json
    assert (judged["valid"], judged["errors"]) == (True, [])
    sent = {"id": connection_id, "type": "rag", **as_first_written(original.url, timeout=30000)}
    made = client.post("/api/connections", json=sent)
    assert (made.status_code, made.json["config"]) == (201, {"url": original.url, "timeout_seconds": 30.0})
    changed = client.put(f"/api/connections/{connection_id}", json=as_first_written(original.url, timeout=500))
    assert changed.json["config"] == {"url": original.url, "timeout_seconds": 0.5}


def test_an_older_spelling_that_makes_no_sense_is_named(client):
    for more, pointer in (
        ({"provider": "qdrant"}, "/provider"),
        ({"timeout": "30000"}, "/timeout"),
        ({"timeout": True}, "/timeout"),
        ({"timeout": 0}, "/timeout_seconds"),
        ({"timeout": 30000, "timeout_seconds": 3}, "/timeout"),
    ):
        sent = {"type": "rag", "provider": "chromadb-wrapper", "config": {"url": "http://127.0.0.1:9", **more}}
        faults = client.post("/api/connections/validate", json=sent).json["errors"]
        assert [each["pointer"] for each in faults] == [pointer], more


@pytest.mark.parametrize("provider", ["chromadb-wrapper", "chromadb"])
def test_a_url_is_required_and_has_its_default(client, provider):
    fields = client.get(f"/api/connections/providers/{provider}/schema").json["fields"]
    [url] = [field for field in fields if field["name"] == "url"]
    assert (url["required"], url["default"].startswith("http://127.0.0.1")) == (True, True)
    sent = {"type": "rag", "provider": provider, "config": {}}
    assert client.post("/api/connections/validate", json=sent).json["valid"] is True


GPT, EMBEDDING = {"id": "gpt-4o-mini", "owned_by": "openai"}, {"id": "text-embedding-3-small", "owned_by": "openai"}
QWEN = {"id": "qwen3", "max_model_len": 32768, "description": "A model"}
LLAMA = {"name": "llama3.2:latest", "details": {"family": "llama", "parameter_size": "3B"}}
OFFERED = {
    "/models": {"data": [GPT, EMBEDDING, QWEN, {"id": 7}, "rubbish"]},
    "/api/tags": {"models": [LLAMA, {"name": "all:latest", "details": {"family": "bert"}}]},
}


def discovered(client, kind, provider, /, **config):
    sent = {"provider": provider, "config": config}
    return client.post(f"/api/connections/{kind}/discovery/models", json=sent)


@pytest.mark.parametrize(
    ("kind", "provider", "names"),
    [
        ("llm", "openai", ["gpt-4o-mini", "qwen3"]),
        ("embedding", "openai", ["text-embedding-3-small"]),
        ("llm", "ollama", ["llama3.2:latest"]),
        ("embedding", "ollama", ["all:latest"]),
    ],
)
def test_the_models_of_a_provider_are_discovered(client, kind, provider, names):
    with answering(OFFERED) as server:
        answer = discovered(client, kind, provider, provider=provider, url=server.url)
    assert answer.status_code == 200, answer.json
    assert (answer.json["provider"], answer.json["count"]) == (provider, len(names))
    assert [each["id"] for each in answer.json["models"]] == names
    for each in answer.json["models"]:
        assert set(each) == {"id", "name", "type", "capabilities", "maxTokens", "description"}
        assert (each["type"], each["capabilities"]) == (kind, ["chat"] if kind == "llm" else ["embeddings"])
    if "qwen3" in names:
        assert (answer.json["models"][1]["maxTokens"], answer.json["models"][1]["description"]) == (32768, "A model")


def test_models_whose_names_say_nothing_may_all_embed_and_the_local_provider_has_its_own(client):
    with answering({"/models": {"data": [{"id": "a"}, {"id": "b"}]}}) as server:
        models = discovered(client, "embedding", "openai", url=server.url).json["models"]
    assert [(each["id"], each["type"]) for each in models] == [("a", "embedding"), ("b", "embedding")]
    models = discovered(client, "embedding", "minilm").json["models"]
    told = [(model["id"], model["maxTokens"]) for model in models]
    assert told == [("all-MiniLM-L6-v2", 8384), ("all-MiniLM-L6-v2-int8", 8384)]
    for kind, provider in (("llm", "minilm"), ("embedding", "nobody")):
        assert discovered(client, kind, provider).status_code == 404


@pytest.mark.parametrize(
    ("answer", "error_type"),
    [(response(b"{}", "401 Unauthorized"), "authentication"), (response(b'{"data": 7}'), "unknown")],
)
def test_models_that_are_not_told_are_a_failed_test(client, answer, error_type):
    with raw_server(saying(answer)) as server:
        said = discovered(client, "llm", "openai", url=server.url, api_key="sk-planted-in-a-form")
    assert (said.status_code, said.json["success"], said.json["errorType"]) == (400, False, error_type)
    assert "sk-planted" not in said.text
