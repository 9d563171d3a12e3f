"""`/v1/embeddings` and `/v1/models` as OpenAI's clients ask them, without those clients."""

import base64
import uuid

import numpy as np
import pytest

from tests.support.commands import files_holding

MODEL = "all-MiniLM-L6-v2"
TEXTS = ["Backups are kept for thirty days.", "The coffee machine is cleaned every Friday."]


@pytest.fixture
def embed(client):
    def embed(status=200, **body):
        answer = client.post("/v1/embeddings", json={"model": MODEL, "input": TEXTS, **body})
        assert answer.status_code == status, answer.json
        return answer.json

    return embed


@pytest.fixture(scope="module")
def expected(app):
    return app.extensions["rag.layers"].connections.open("default", "embedding").embed(TEXTS)


def vectors(answer):
    assert [each["index"] for each in answer["data"]] == list(range(len(answer["data"])))
    return np.array([each["embedding"] for each in answer["data"]])


def test_vectors_are_those_of_the_model_as_floats_and_as_base64_of_little_endian_float32(embed, expected):
    answer = embed()
    np.testing.assert_allclose(vectors(answer), expected, atol=1e-6)
    assert answer["model"] == MODEL
    assert answer["usage"]["prompt_tokens"] == answer["usage"]["total_tokens"] > len(TEXTS)
    assert "truncated" not in answer
    packed = embed(encoding_format="base64")["data"]
    decoded = [np.frombuffer(base64.b64decode(each["embedding"]), "<f4") for each in packed]
    np.testing.assert_array_equal(np.array(decoded), vectors(answer).astype("<f4"))
    for single in (TEXTS[0], TEXTS[:1]):
        np.testing.assert_allclose(vectors(embed(input=single)), expected[:1], atol=1e-6)


def test_many_texts_are_embedded_in_their_order_and_nothing_of_a_text_is_kept(embed, app):
    texts = [f"text number {number}" for number in range(70)]
    expected = app.extensions["rag.layers"].connections.open("default", "embedding").embed(texts)
    np.testing.assert_allclose(vectors(embed(input=texts)), expected, atol=1e-5)
    word = uuid.uuid4().hex
    embed(input=f"secret {word}")
    folder = app.extensions["rag.service"].settings.data_dir
    assert files_holding(folder, word) == []


def test_a_text_of_which_the_model_reads_the_beginning_only_is_named(embed, monkeypatch):
    monkeypatch.setattr("providers.embeddings.minilm.MAX_WINDOWS", 1)  # its vector proves nothing here
    answer = embed(input=["short", "long " * 9_000])
    assert answer["truncated"] == [1]
    assert answer["usage"]["prompt_tokens"] > 9_000


def test_the_number_of_dimensions_is_that_of_the_model_and_unknown_names_are_ignored(embed):
    assert embed(dimensions=384)["data"]
    assert embed(user="me", encoding="float", inputs=["x"], dimension=3, encoding_format=None)["data"]
    refused = embed(400, dimensions=256)
    assert (refused["error"]["param"], refused["details"]["allowed"]) == ("dimensions", [384])


def test_tokens_are_refused_with_what_to_do(embed):
    for tokens in ([1, 2], [[1, 2], [3]], [[]], [1.5]):
        refused = embed(400, input=tokens)["error"]
        assert "check_embedding_ctx_length=False" in refused["message"]
        assert (refused["type"], refused["param"]) == ("invalid_request_error", "input")


def test_models_are_listed_and_shown_by_their_names_and_an_unknown_one_is_404_with_openais_code(client, embed):
    listed = client.get("/v1/models").json["data"]
    assert [each["id"] for each in listed if each["owned_by"] == "minilm"] == [MODEL]
    assert client.get(f"/v1/models/{MODEL}").json == listed[0]
    assert client.get("/v1/models/default").json == {**listed[0], "id": "default"}
    refused = embed(404, model="text-embedding-3-small")
    assert (refused["error"]["code"], refused["error"]["param"]) == ("model_not_found", "model")
    assert client.get("/v1/models/text-embedding-3-small").json["error"]["code"] == "model_not_found"


@pytest.fixture
def connected(client):
    """`connected(id, provider, config)` makes a connection for embeddings, which is deleted after the test."""
    made = []

    def connect(name, provider, config):
        body = {"id": name, "type": "embedding", "provider": provider, "config": config}
        assert client.post("/api/connections", json=body).status_code == 201
        made.append(name)

    yield connect
    for name in made:
        assert client.delete(f"/api/connections/{name}").status_code == 200


def test_a_connection_may_be_called_what_a_client_insists_on(client, embed, expected, connected):
    connected("text-embedding-ada-002", "minilm", {"model": MODEL})
    answer = embed(model="text-embedding-ada-002")
    np.testing.assert_allclose(vectors(answer), expected, atol=1e-6)
    assert answer["model"] == "text-embedding-ada-002"
    names = [each["id"] for each in client.get("/v1/models").json["data"]]
    assert (names.count(MODEL), names.count("text-embedding-ada-002")) == (1, 1)


def test_what_may_succeed_later_says_when_to_try_again(client, connected):
    connected("far", "openai", {"model": "x", "url": "http://127.0.0.1:9/v1"})
    answer = client.post("/v1/embeddings", json={"model": "far", "input": "x"})
    assert (answer.status_code, "x-should-retry" in answer.headers) == (503, False)
    assert int(answer.headers["Retry-After"]) >= 1
