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


def test_dify_is_told_what_is_wrong_with_a_key(asked, clocked):
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


def test_the_probe_of_dify_needs_a_key_that_counts(asked, clocked):
    _, text = clocked.key(Scope.READ)
    assert asked({"Authorization": f"Bearer {text}"}, query="")[0] == 200
    assert asked({"Authorization": "Bearer nonsense"}, query="") == (403, 1002, "key_unknown")


def test_a_key_that_asks_too_much_is_told_so_in_difys_words(client, clocked):
    key, text = clocked.key(Scope.READ)
    clocked.change(key, Scope.READ, requests_per_second=1)
    headers = {"Authorization": f"Bearer {text}"}
    answers = [client.post("/dify/retrieval", json={}, headers=headers) for _ in range(20)]
    refused = next(each for each in answers if each.status_code != 200)
    assert (refused.status_code, refused.json["error_code"], refused.json["code"]) == (429, 429, "rate_limited")
    assert int(refused.headers["Retry-After"]) >= 1


def test_foreign_collections_are_not_there(client, clocked):
    key, text = clocked.key(Scope.MANAGE)
    headers = {"Authorization": f"Bearer {text}"}
    assert client.post("/collections", json={"name": "theirs-faces"}, headers=headers).status_code == 201
    clocked.change(key, Scope.READ, collections=("mine*",))
    told = [client.post("/dify/retrieval", json={**QUESTION, "knowledge_id": name}, headers=headers)
            for name in ("theirs-faces", "nobody-faces")]  # fmt: skip
    assert [each.status_code for each in told] == [404, 404]
    assert told[0].text.replace("theirs", "nobody") == told[1].text
