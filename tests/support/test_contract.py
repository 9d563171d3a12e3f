"""The checker of answers catches everything it should."""

import json

import pytest
from flask import Flask, jsonify

from tests.support.contract import CheckedClient, CheckedSession, Contract, ContractError, error_body
from tests.support.http_stub import running

JSON = {"Content-Type": "application/json"}
COLLECTION = {
    "id": "7f0c2b86-52b5-4c43-9a2e-1d6f0a9f3c11",
    "name": "handbook",
    "count": 2,
    "metadata": {"language": "en"},
    "dimension": 2,
    "metric": "cosine",
    "revision": 7,
}
ADDED = {
    "status": "added",
    "collection": "handbook",
    "count": 1,
    "ids": ["intro-1"],
    "created": 1,
    "updated": 0,
    "unchanged": 0,
    "indexed": True,
    "revision": 8,
}


TAGGED = {**JSON, "ETag": '"7"'}
ONE, DOCUMENTS = "/collections/handbook", "/collections/handbook/documents"
DOCUMENT = {"id": "a", "text": "t", "metadata": {}, "embedding": [0.5, 1]}
NOT_ALLOWED = error_body("Method not allowed", "method_not_allowed")
BAD_LINES = {"errors": [{"line": 3, "code": "invalid_input", "message": "Document text is required"}]}
WITHOUT_IDS = {name: value for name, value in ADDED.items() if name != "ids"}
RIGHT = [
    ("GET", ONE, 200, TAGGED, COLLECTION),
    # Parameters of the content type and the case of headers do not matter.
    ("get", ONE, 200, {"content-type": "application/json; charset=utf-8", "etag": '"7"'}, COLLECTION),
    ("GET", ONE, 304, {}, b""),
    ("GET", ONE, 404, JSON, error_body("Collection 'a' not found", "collection_not_found")),
    ("HEAD", "/live", 200, JSON, b""),
    ("OPTIONS", "/health", 200, {"Allow": "GET, HEAD, OPTIONS"}, b""),
    ("GET", "/collections", 503, JSON, error_body("This took too long", "too_slow")),
    ("GET", "/nowhere", 404, JSON, error_body("Not found")),
    ("POST", "/health", 405, {**JSON, "Allow": "GET"}, NOT_ALLOWED),
    ("GET", f"{DOCUMENTS}/a", 200, TAGGED, DOCUMENT),
    ("POST", DOCUMENTS, 201, JSON, ADDED),
    ("POST", DOCUMENTS, 202, JSON, ADDED | {"indexed": False}),
    ("POST", DOCUMENTS, 201, JSON, WITHOUT_IDS | BAD_LINES | {"errors_total": 1}),
]
SHAPES = [
    ({"size": 3}, "'size' was unexpected"),
    ({"count": "2"}, r"\$\.count: '2' is not of type 'integer'"),
    ({"count": True}, r"\$\.count: True is not of type 'integer'"),
    ({"count": -1}, r"\$\.count: -1 is less than the minimum"),
    ({"metric": "euclid"}, r"\$\.metric: 'euclid' is not one of"),
]
WRONG = [
    *(("GET", ONE, 200, TAGGED, COLLECTION | change, reason) for change, reason in SHAPES),
    ("GET", ONE, 200, TAGGED, dict(list(COLLECTION.items())[:-1]), "'revision' is a required property"),
    ("GET", ONE, 500, JSON, error_body("Internal server error"), "getCollection documents 200, 304"),
    ("GET", ONE, 200, JSON, COLLECTION, "header ETag is missing"),
    ("GET", ONE, 200, {**JSON, "ETag": "7"}, COLLECTION, "header ETag: '7' does not match"),
    ("GET", "/ready", 503, JSON, {"status": "not ready"}, "header Retry-After is missing"),
    ("GET", "/collections", 503, JSON, error_body("It is away", "unavailable"), "header Retry-After is missing"),
    ("GET", "/live", 200, {"Content-Type": "text/html"}, {"status": "alive"}, "Content-Type is 'text/html'"),
    *(("GET", "/live", 200, JSON, each, "not JSON") for each in (b"", b"<html>", b'{"status": NaN}', b'{"a": "\xff"}')),
    ("GET", ONE, 304, {}, b"{}", "must not have a body"),
    ("GET", "/nowhere", 200, JSON, {}, "the route is not described, which must answer 404"),
    ("GET", "/nowhere", 404, JSON, {"message": "Not found"}, "'error' is a required property"),
    ("POST", "/health", 405, JSON, NOT_ALLOWED, "header Allow is missing"),
    ("POST", "/health", 404, JSON, NOT_ALLOWED, "/health does not describe POST, which must answer 405"),
    ("OPTIONS", "/health", 200, {}, b"", "OPTIONS must answer"),
    (
        *("GET", "/api/jobs/a", 404, JSON),
        error_body("Job 'a' not found", "job_not_found") | {"detail": "No such thing"},
        "error, message, detail must be the same",
    ),
    # A missing collection is told from a missing route.
    ("GET", ONE, 404, JSON, error_body("Not found", "collection_not_found"), "answered 404"),
    ("POST", DOCUMENTS, 202, JSON, ADDED, "indexed"),
    # Only a stream may leave the ids out.
    ("POST", DOCUMENTS, 201, JSON, WITHOUT_IDS, "required property"),
    ("POST", DOCUMENTS, 201, JSON, ADDED | BAD_LINES, "'errors_total' is a dependency of 'errors'"),
    *(
        ("GET", f"{DOCUMENTS}/a", 200, TAGGED, DOCUMENT | {"embedding": wrong}, r"\$\.embedding")
        for wrong in ([0.5, "1"], [0.5, True], [0.5, None], [])
    ),
]


@pytest.fixture
def contract() -> Contract:
    return Contract.load()


def check(contract, method, path, status, headers, body):
    contract.check_response(
        method, path, status, headers, body if isinstance(body, bytes) else json.dumps(body).encode()
    )


@pytest.mark.parametrize("answer", RIGHT)
def test_a_documented_answer_passes(contract, answer):
    check(contract, *answer)


@pytest.mark.parametrize(("answer", "reason"), [(each[:-1], each[-1]) for each in WRONG])
def test_an_answer_that_is_not_as_documented_is_caught(contract, answer, reason):
    with pytest.raises(ContractError, match=reason):
        check(contract, *answer)


def test_literal_segments_win_over_parameters(contract):
    assert contract.match("/collections/x/documents/count") == "/collections/{name}/documents/count"
    assert contract.match("/collections/x/documents/a%2Fb") == "/collections/{name}/documents/{id}"
    assert contract.match("/collections/x/documents/a/b") is None


def test_the_message_names_the_place_and_shows_the_body(contract):
    groups = [{"key": "intro", "rank": 0, "documents": [], "total": 1, "complete": True}]
    with pytest.raises(ContractError) as caught:
        check(contract, "POST", "/collections/x/gather", 200, JSON, {"groups": groups, "revision": 1})
    assert str(caught.value).startswith("POST /collections/x/gather answered 200: $.groups[0].rank: 0 is less than")
    assert '"rank": 0' in str(caught.value)


class TestCheckedClient:
    @pytest.fixture
    def client(self) -> CheckedClient:
        app = Flask("checked")
        app.test_client_class = CheckedClient
        answers = {"handbook": COLLECTION, "a b": COLLECTION | {"name": "a-b"}, "broken": {"name": "broken"}}

        @app.get("/collections/<name>")
        def collection(name):
            response = jsonify(answers[name])
            response.set_etag("7")
            return response

        @app.get("/secret")
        def secret():
            return jsonify(status="served, but not described")

        @app.errorhandler(404)
        def not_found(error):
            return error_body("Not found"), 404

        return app.test_client()

    def test_every_answer_is_checked(self, client):
        assert client.get("/collections/handbook?x=1").json["revision"] == 7
        assert client.get("/collections/a%20b").json["name"] == "a-b"
        assert client.get("/nowhere").status_code == 404
        assert client.head("/collections/handbook").status_code == 200

    def test_wrong_answers_fail_the_test(self, client):
        with pytest.raises(ContractError, match="required property"):
            client.get("/collections/broken")
        with pytest.raises(ContractError, match="the route is not described"):
            client.get("/secret")
        with pytest.raises(ContractError, match="POST /collections/handbook answered 405: Content-Type is 'text/html"):
            client.post("/collections/handbook")

    def test_a_test_may_bring_a_contract_of_its_own(self, client):
        document = {"paths": {"/secret": {"get": {"operationId": "s", "responses": {"200": {"content": {"*/*": {}}}}}}}}
        own = client.application.test_client(contract=Contract(document))
        assert own.get("/secret").status_code == 200


class TestCheckedSession:
    class Alive:
        def answer(self, method, target, headers, body):
            status, said = (200, {"status": "alive"}) if target.startswith("/live") else (404, {"error": "?"})
            return status, JSON, said

    def test_answers_of_a_server_are_checked(self):
        with running(self.Alive()) as server, CheckedSession() as session:
            assert session.get(f"{server.url}/live", params={"x": "1"}).json() == {"status": "alive"}
            with pytest.raises(ContractError, match="GET /nowhere answered 404"):
                session.get(f"{server.url}/nowhere")
