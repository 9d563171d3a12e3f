"""Who asks by the protocols of other products: keys are asked for and answered in the words of each."""

import pytest

from schemas.access.callers import Scope

QUESTION = {"knowledge_id": "handbook", "query": "when do backups run"}


@pytest.fixture
def app(clocked):
    return clocked.app


@pytest.fixture
def asked(client):
    """`asked(headers, **changes)`: (status, error_code, code) of a question of Dify's."""

    def ask(headers, **changes):
        answer = client.post("/dify/retrieval", json={**QUESTION, **changes}, headers=headers)
        return answer.status_code, answer.json.get("error_code"), answer.json.get("code")

    return ask


def test_dify_is_told_what_is_wrong_with_a_key_and_its_probe_needs_one_that_counts(asked, clocked):
    key, text = clocked.key(Scope.READ)
    assert asked({}) == (403, 1001, "key_missing")
    assert asked({"Authorization": text}) == (403, 1001, "key_unknown")
    assert asked({"Authorization": f"Bearer {text}", "X-API-Key": "other"}) == (403, 1001, "key_ambiguous")
    assert asked({"Authorization": f"Bearer {text[:-1]}"}) == (403, 1002, "key_unknown")
    assert asked({"Authorization": f"Bearer {text}"}) == (404, 2001, "collection_not_found")
    clocked.change(key, Scope.CHAT)
    assert asked({"Authorization": f"Bearer {text}"}) == (403, 1002, "scope_missing")
    clocked.revoke(key)
    assert asked({"Authorization": f"Bearer {text}"}) == (403, 1002, "key_revoked")
    _, text = clocked.key(Scope.READ)
    assert asked({"Authorization": f"Bearer {text}"}, knowledge_id="")[0] == 200
    assert asked({"Authorization": "Bearer nonsense"}, query="") == (403, 1002, "key_unknown")


def test_a_key_that_asks_too_much_is_told_so_in_difys_words(client, clocked):
    key, text = clocked.key(Scope.READ)
    clocked.change(key, Scope.READ, requests_per_second=1)
    headers = {"Authorization": f"Bearer {text}"}
    answers = [client.post("/dify/retrieval", json={}, headers=headers) for _ in range(20)]
    refused = next(each for each in answers if each.status_code != 200)
    assert (refused.status_code, refused.json["error_code"], refused.json["code"]) == (429, 429, "rate_limited")
    assert int(refused.headers["Retry-After"]) >= 1


@pytest.fixture
def openai(client):
    """`openai(path, headers, **body)`: (status, OpenAI's code, ours) of a request of OpenAI's protocol."""

    def ask(path, headers, **body):
        answer = client.post(path, json=body, headers=headers) if body else client.get(path, headers=headers)
        error = answer.json.get("error", {})
        return answer.status_code, error.get("code"), answer.json.get("code")

    return ask


EMBEDDING = {"model": "stub", "input": "a text"}


def test_openais_clients_are_told_what_is_wrong_with_a_key(openai, clocked):
    key, text = clocked.key(Scope.CHAT)
    headers = {"Authorization": f"Bearer {text}"}
    assert openai("/v1/embeddings", {}, **EMBEDDING) == (401, "invalid_api_key", "key_missing")
    assert openai("/v1/models", {"Authorization": "Bearer x"}) == (401, "invalid_api_key", "key_unknown")
    assert openai("/v1/embeddings", headers, **EMBEDDING) == (403, "scope_missing", "scope_missing")
    clocked.change(key, Scope.READ)
    assert openai("/v1/embeddings", headers, **EMBEDDING)[0] == 200


def test_models_are_those_that_a_key_may_use_and_connections_of_others_are_none(client, clocked):
    key, text = clocked.key(Scope.READ)
    headers = {"Authorization": f"Bearer {text}"}

    def names():
        return [each["id"] for each in client.get("/v1/models", headers=headers).json["data"]]

    assert names() == ["stub"]
    clocked.change(key, Scope.CHAT)
    assert names() == ["chatty"]
    assert client.get("/v1/models/stub", headers=headers).status_code == 404
    clocked.change(key, Scope.READ, Scope.CHAT)
    assert names() == ["rag", "chatty", "stub"]
    _, text = clocked.key(Scope.CONNECT, Scope.READ)
    _, others = clocked.key(Scope.READ)
    made = {"id": "mine-alone", "type": "embedding", "provider": "minilm", "config": {"model": "all-MiniLM-L6-v2"}}
    assert client.post("/api/connections", json=made, headers={"X-API-Key": text}).status_code == 201
    asked = [client.get("/v1/models/mine-alone", headers={"X-API-Key": key}).status_code for key in (text, others)]
    assert asked == [200, 404]
    assert "mine-alone" not in client.get("/v1/models", headers={"X-API-Key": others}).text


def test_tokens_that_are_embedded_count_against_the_limit_of_the_key(client, clocked):
    key, text = clocked.key(Scope.READ)
    clocked.change(key, Scope.READ, embedded_tokens_per_day=1)
    headers = {"Authorization": f"Bearer {text}"}
    answers = [client.post("/v1/embeddings", json=EMBEDDING, headers=headers) for _ in range(2)]
    assert [each.status_code for each in answers] == [200, 429]
    assert answers[1].json["error"]["code"] in ("insufficient_quota", "rate_limit_exceeded")
    assert (answers[1].headers.get("x-should-retry") == "false") == (int(answers[1].headers["Retry-After"]) > 60)
