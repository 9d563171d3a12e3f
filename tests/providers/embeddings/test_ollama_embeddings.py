import numpy as np
import pytest

from schemas.errors import ConfigurationError, UnavailableError

TEXTS = ["one", "two", "three"]


def test_all_texts_go_in_one_request(server, ollama, stub):
    vectors = ollama(model="m").embed(TEXTS)
    np.testing.assert_allclose(vectors, [stub.vector(text) for text in TEXTS], rtol=1e-6)
    [request] = server.requests
    assert (request.path, request.body) == ("/api/embed", {"model": "m", "input": TEXTS})


def test_an_old_server_is_asked_text_by_text_and_for_the_missing_route_only_once(server, ollama, stub):
    del server.routes["/api/embed"]
    connection = ollama(model="m")
    vectors = connection.embed(TEXTS)
    connection.embed(["four"])
    assert [request.path for request in server.requests] == ["/api/embed"] + ["/api/embeddings"] * 4
    assert server.requests[1].body == {"model": "m", "prompt": "one"}
    # The stub's old route does not normalise, as Ollama's does not.
    np.testing.assert_allclose(vectors, [stub.vector(text) for text in TEXTS], rtol=1e-5)


@pytest.mark.parametrize("routes", [("/api/embed",), ("/api/embeddings",)])
def test_an_unknown_model_is_named_with_the_remedy(server, ollama, stub, routes):
    def unknown(body):
        return stub.json({"error": f'model "{body["model"]}" not found, try pulling it first'}, 404)

    server.routes = dict.fromkeys(routes, unknown)
    with pytest.raises(ConfigurationError, match="ollama pull nomic-embed-text") as caught:
        ollama().embed(TEXTS)
    assert caught.value.details["error_type"] == "not_found"


def test_a_server_with_neither_route_is_not_ollama(server, ollama):
    server.routes = {}
    with pytest.raises(ConfigurationError, match="does not know the route"):
        ollama().embed(TEXTS)


def test_a_guarded_server_that_refuses_the_key_is_not_mistaken_for_an_old_one(server, ollama, stub):
    server.script = [stub.answer(401)]
    with pytest.raises(ConfigurationError, match="refuses the API key"):
        ollama(api_key="k").embed(TEXTS)
    assert len(server.requests) == 1


def test_failed_requests_are_repeated(server, ollama, waits, stub):
    server.script = [stub.json({"error": "llama runner process has terminated"}, 500), stub.answer(503)]
    assert ollama().embed(TEXTS).shape == (3, stub.dimension)
    assert len(waits) == 2


@pytest.mark.parametrize(
    "answer", [{}, [], {"embeddings": None}, {"embeddings": [[1.0]]}, {"embeddings": [[1.0], [2.0], "AAAA"]}]
)
def test_a_malformed_answer_is_unusable(server, ollama, stub, answer):
    server.script = [stub.json(answer)]
    with pytest.raises(UnavailableError):
        ollama().embed(TEXTS)


@pytest.mark.parametrize("answer", [{}, [], {"embedding": []}, {"embedding": None}, {"embedding": "x"}])
def test_a_malformed_answer_of_the_old_route_is_unusable(server, ollama, stub, answer):
    server.routes = {"/api/embeddings": lambda body: stub.json(answer)}
    with pytest.raises(UnavailableError):
        ollama().embed(["one"])


def test_a_zero_vector_of_the_old_route_stays_zero(server, ollama, stub):
    server.routes = {"/api/embeddings": lambda body: stub.json({"embedding": [0.0, 0.0]})}
    np.testing.assert_array_equal(ollama().embed(["one"]), [[0.0, 0.0]])
