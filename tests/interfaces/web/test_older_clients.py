"""The calls of the first release's forms, and services that answer like its server."""

import pytest

from tests.interfaces.conftest import answering
from tests.registry.hostile import response
from tests.support.raw_server import raw_server, saying

DOCS = {"name": "docs", "count": 2, "metadata": {"embedding_model": "all-MiniLM-L6-v2", "hnsw:space": "cosine"}}
ORIGINAL = {
    "/health": {"status": "healthy"},
    "/collections": {"collections": [DOCS]},
    "/collections/docs": DOCS,
    "/query": {
        "results": [
            {"text": "Take the plane.", "distance": 0.1, "metadata": {"title": "Travel"}},
            {"text": "Take the train.", "distance": 0.2, "metadata": None},
        ]
    },
}


@pytest.fixture
def original():
    with answering(ORIGINAL) as server:
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


def test_an_original_service_whose_answers_have_no_ids_can_be_asked(client, connection_id, original):
    client.post("/api/connections", json={"id": connection_id, "type": "rag", **as_first_written(original.url)})
    selected = [{"service": connection_id, "name": "docs"}]
    asked = {"userMessage": "How do I travel?", "selectedCollections": selected, "match_threshold": 0.4}
    answers = [client.post("/api/collect", json=asked).json for _ in range(2)]
    assert answers[0]["result"] == "match", answers[0]
    documents = answers[0]["data"]["documents"]
    assert [each["text"] for each in documents] == ["Take the plane.", "Take the train."]
    assert len({each["id"] for each in documents}) == 2
    assert answers[1]["data"]["documents"] == documents


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
