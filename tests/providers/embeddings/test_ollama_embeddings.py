import numpy as np
import pytest

from schemas.errors import ConfigurationError, UnavailableError
from tests.support.model_server import Answer, as_json, vector

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
