"""What is asked of OpenAI's and Ollama's protocols, and what their answers must be like."""

import base64

import numpy as np
import pytest

from schemas.errors import ConfigurationError, UnavailableError
from tests.support.model_server import DIMENSION, Answer, as_json, openai_answer, vector


def test_base64_is_requested_and_index_gives_the_order(server, openai):
    texts = ["one", "two", "three"]  # the stub answers last first
    vectors = openai(model="m").embed(texts)
    np.testing.assert_array_equal(vectors, [vector(text) for text in texts])
    assert server.requests[0].body == {"model": "m", "encoding_format": "base64", "input": texts}
    server.script = [as_json({"data": [{"embedding": [1, 0]}, {"embedding": [0.5, 2]}]})]
    np.testing.assert_array_equal(openai().embed(["a", "b"]), [[1, 0], [0.5, 2]])
    server.script = [lambda body: openai_answer(body, plain=True)]
    np.testing.assert_allclose(openai().embed(["one", "two"]), [vector("one"), vector("two")], rtol=1e-6)


def test_a_server_that_refuses_base64_is_no_longer_asked_for_it_and_a_failing_batch_fails_the_call(server, openai):
    refusal = {"error": {"message": "Unknown parameter: 'encoding_format'."}}
    server.script = [as_json(refusal, 400)]
    connection = openai()
    np.testing.assert_allclose(connection.embed(["one"]), [vector("one")], rtol=1e-6)
    connection.embed(["two"])
    assert ["encoding_format" in request.body for request in server.requests] == [True, False, False]
    server.script = [openai_answer, Answer(500), Answer(500), Answer(500)]
    with pytest.raises(UnavailableError):
        openai(batch_size=1).embed(["one", "two", "three"])
    assert len(server.requests) == 3 + 4


def test_texts_go_in_batches_and_large_ones_in_small_ones(server, openai):
    texts = [f"text {number}" for number in range(130)]
    vectors = openai().embed(texts)
    assert [len(request.body["input"]) for request in server.requests] == [64, 64, 2]
    np.testing.assert_array_equal(vectors, [vector(text) for text in texts])
    texts = ["ä" * 150_000, "b" * 300_000, "c" * 100_000, "d" * 600_000, "e"]
    openai().embed(texts)
    assert [[text[0] for text in request.body["input"]] for request in server.requests[3:]] == [
        ["ä"],
        ["b", "c"],
        ["d"],
        ["e"],
    ]


def test_a_dimension_is_requested_and_checked_and_one_that_changes_noticed(server, openai):
    connection = openai(dimension=256)
    assert connection.dimension == 256
    with pytest.raises(UnavailableError, match="dimension 8 where 256 is expected"):
        connection.embed(["one"])
    assert server.requests[0].body["dimensions"] == 256
    connection = openai()
    assert connection.dimension is None
    connection.embed(["one"])
    assert connection.dimension == DIMENSION
    server.script = [as_json({"data": [{"index": 0, "embedding": [1.0, 2.0]}]})]
    with pytest.raises(UnavailableError, match="dimension 2 where 8"):
        connection.embed(["two"])


def item(embedding, index=0):
    return {"index": index, "embedding": embedding}


def base64_of(values):
    return base64.b64encode(np.array(values, dtype="<f4").tobytes()).decode()


@pytest.mark.parametrize(
    "answer",
    [
        [],
        {"data": None},
        {"data": [item([1.0, 2.0])]},
        {"data": [item([1.0]), item([1.0], 1), item([1.0], 2)]},
        {"data": [item([1.0]), [1.0]]},
        {"data": [item([1.0]), item([1.0])]},
        {"data": [item([1.0]), item([1.0], [1])]},
        {"data": [item([1.0]), {"index": 1}]},
        {"data": [item([1.0]), item([1.0, 2.0], 1)]},
        {"data": [item([]), item([], 1)]},
        {"data": [item([1.0]), item(["1.0"], 1)]},
        {"data": [item([1.0]), item([True], 1)]},
        {"data": [item([1.0]), item([[1.0], [1.0, 2.0]], 1)]},
        {"data": [item([1.0]), item([10**400], 1)]},
        {"data": [item([1.0]), item([1e39], 1)]},
        {"data": [item([1.0]), item("not base64!", 1)]},
        {"data": [item(base64_of([1.0])), item("AAA=", 1)]},
        {"data": [item(base64_of([1.0])), item(base64_of([np.nan]), 1)]},
    ],
)
def test_a_malformed_answer_is_unusable(server, openai, waits, answer):
    server.script = [as_json(answer)]
    with pytest.raises(UnavailableError):
        openai().embed(["one", "two"])
    assert len(server.requests) == 1
    assert waits == []


TEXTS = ["one", "two", "three"]


def test_all_texts_go_in_one_request(server, ollama):
    vectors = ollama(model="m").embed(TEXTS)
    np.testing.assert_allclose(vectors, [vector(text) for text in TEXTS], rtol=1e-6)
    [request] = server.requests
    assert (request.path, request.body) == ("/api/embed", {"model": "m", "input": TEXTS})


def test_an_old_server_is_asked_text_by_text_and_for_the_missing_route_only_once(server, ollama):
    del server.routes["/api/embed"]
    connection = ollama(model="m")
    vectors = connection.embed(TEXTS)
    connection.embed(["four"])
    assert [request.path for request in server.requests] == ["/api/embed"] + ["/api/embeddings"] * 4
    assert server.requests[1].body == {"model": "m", "prompt": "one"}
    # The stub's old route does not normalise, as Ollama's does not.
    np.testing.assert_allclose(vectors, [vector(text) for text in TEXTS], rtol=1e-5)


@pytest.mark.parametrize("routes", [("/api/embed",), ("/api/embeddings",)])
def test_an_unknown_model_is_named_with_the_remedy(server, ollama, routes):
    def unknown(body):
        return as_json({"error": f'model "{body["model"]}" not found, try pulling it first'}, 404)

    server.routes = dict.fromkeys(routes, unknown)
    with pytest.raises(ConfigurationError, match="ollama pull nomic-embed-text") as caught:
        ollama().embed(TEXTS)
    assert caught.value.details["error_type"] == "not_found"


def test_a_server_with_neither_route_is_not_ollama_nor_is_a_guarded_one_an_old_one(server, ollama):
    server.script = [Answer(401)]
    with pytest.raises(ConfigurationError, match="refuses the API key"):
        ollama(api_key="k").embed(TEXTS)
    assert len(server.requests) == 1
    server.routes = {}
    with pytest.raises(ConfigurationError, match="does not know the route"):
        ollama().embed(TEXTS)


OF_TODAY, OLD = "/api/embed", "/api/embeddings"


@pytest.mark.parametrize(
    ("route", "answer"),
    [
        *((route, answer) for route in (OF_TODAY, OLD) for answer in ({}, [])),
        *((OF_TODAY, {"embeddings": wrong}) for wrong in (None, [[1.0]], [[1.0], [2.0], "AAAA"])),
        *((OLD, {"embedding": wrong}) for wrong in ([], None, "x")),
    ],
)
def test_a_malformed_answer_is_unusable_and_a_vector_of_zeros_is_none(server, ollama, route, answer):
    server.routes = {route: lambda body: as_json(answer)}
    with pytest.raises(UnavailableError):
        ollama().embed(TEXTS)
    server.routes = {OLD: lambda body: as_json({"embedding": [0.0, 0.0]})}
    np.testing.assert_array_equal(ollama().embed(["one"]), [[0.0, 0.0]])
