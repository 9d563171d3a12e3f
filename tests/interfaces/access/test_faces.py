"""Who asks by the protocols of other products: keys are asked for and answered in the words of each."""

import pytest

from schemas.access.callers import Scope
from tests.interfaces.access.conftest import Asking

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


def test_a_key_that_asks_too_much_is_told_so_in_difys_words(clocked):
    asking = Asking(clocked, Scope.READ)
    clocked.change(asking.key, Scope.READ, requests_per_second=1)
    answers = [asking.post("/dify/retrieval", {}) for _ in range(20)]
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
    asking = Asking(clocked, Scope.CHAT)
    assert openai("/v1/embeddings", {}, **EMBEDDING) == (401, "invalid_api_key", "key_missing")
    assert openai("/v1/models", {"Authorization": "Bearer x"}) == (401, "invalid_api_key", "key_unknown")
    assert openai("/v1/embeddings", asking.headers, **EMBEDDING) == (403, "scope_missing", "scope_missing")
    clocked.change(asking.key, Scope.READ)
    assert openai("/v1/embeddings", asking.headers, **EMBEDDING)[0] == 200


def test_models_are_those_that_a_key_may_use_and_connections_of_others_are_none(client, clocked):
    def get(who, path=""):
        return client.get(f"/v1/models{path}", headers=who.headers)

    asking, mine, others = (
        Asking(clocked, *scopes) for scopes in ([Scope.READ], [Scope.CONNECT, Scope.READ], [Scope.READ])
    )
    for scopes, names in (([Scope.CHAT], ["chatty"]), ([Scope.READ, Scope.CHAT], ["rag", "chatty", "stub"])):
        clocked.change(asking.key, *scopes)
        assert [each["id"] for each in get(asking).json["data"]] == names
        assert get(asking, "/stub").status_code == (200 if "stub" in names else 404)
    made = {"id": "mine-alone", "type": "embedding", "provider": "minilm", "config": {"model": "all-MiniLM-L6-v2"}}
    assert mine.post("/api/connections", made).status_code == 201
    assert [get(who, "/mine-alone").status_code for who in (mine, others)] == [200, 404]
    assert [each["id"] for each in get(others).json["data"]] == ["stub"]


def test_tokens_that_are_embedded_count_against_the_limit_of_the_key(clocked):
    asking = Asking(clocked, Scope.READ)
    clocked.change(asking.key, Scope.READ, embedded_tokens_per_day=1)
    answers = [asking.post("/v1/embeddings", EMBEDDING) for _ in range(2)]
    assert [each.status_code for each in answers] == [200, 429]
    assert answers[1].json["error"]["code"] in ("insufficient_quota", "rate_limit_exceeded")
    assert (answers[1].headers.get("x-should-retry") == "false") == (int(answers[1].headers["Retry-After"]) > 60)
