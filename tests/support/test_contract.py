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


@pytest.fixture
def contract() -> Contract:
    return Contract.load()


def check(contract, method, path, status, body, headers=JSON):
    contract.check_response(method, path, status, headers, json.dumps(body).encode())


class TestChecker:
    def test_a_documented_answer_passes(self, contract):
        check(contract, "GET", "/collections/handbook", 200, COLLECTION, {**JSON, "ETag": '"7"'})
        # Parameters of the content type and the case of headers do not matter.
        headers = {"content-type": "application/json; charset=utf-8", "etag": '"7"'}
        check(contract, "get", "/collections/handbook", 200, COLLECTION, headers)

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            ({"revision": ...}, "'revision' is a required property"),
            ({"size": 3}, "'size' was unexpected"),
            ({"count": "2"}, r"\$\.count: '2' is not of type 'integer'"),
            ({"count": True}, r"\$\.count: True is not of type 'integer'"),
            ({"count": -1}, r"\$\.count: -1 is less than the minimum"),
            ({"metric": "euclid"}, r"\$\.metric: 'euclid' is not one of"),
        ],
    )
    def test_a_body_of_another_shape_is_caught(self, contract, change, reason):
        body = {name: value for name, value in {**COLLECTION, **change}.items() if value is not ...}
        with pytest.raises(ContractError, match=reason):
            check(contract, "GET", "/collections/handbook", 200, body, {**JSON, "ETag": '"7"'})

    def test_an_undocumented_status_is_caught(self, contract):
        with pytest.raises(ContractError, match="getCollection documents 200, 304"):
            check(contract, "GET", "/collections/handbook", 500, error_body("Internal server error"))

    def test_a_missing_or_malformed_header_is_caught(self, contract):
        with pytest.raises(ContractError, match="header ETag is missing"):
            check(contract, "GET", "/collections/handbook", 200, COLLECTION)
        with pytest.raises(ContractError, match="header ETag: '7' does not match"):
            check(contract, "GET", "/collections/handbook", 200, COLLECTION, {**JSON, "ETag": "7"})
        with pytest.raises(ContractError, match="header Retry-After is missing"):
            check(contract, "GET", "/ready", 503, {"status": "not ready"})
        with pytest.raises(ContractError, match="header Retry-After is missing"):
            check(contract, "GET", "/collections", 503, error_body("The catalogue is unavailable", "unavailable"))
        check(contract, "GET", "/collections", 503, error_body("This took too long", "too_slow"))

    def test_another_content_type_is_caught(self, contract):
        with pytest.raises(ContractError, match="Content-Type is 'text/html'"):
            check(contract, "GET", "/live", 200, {"status": "alive"}, {"Content-Type": "text/html"})

    @pytest.mark.parametrize("body", [b"", b"<html>", b'{"status": NaN}', b'{"status": "\xff"}'])
    def test_a_body_that_is_not_json_is_caught(self, contract, body):
        with pytest.raises(ContractError, match="not JSON"):
            contract.check_response("GET", "/live", 200, JSON, body)

    def test_no_content_means_no_body(self, contract):
        contract.check_response("GET", "/collections/handbook", 304, {}, b"")
        contract.check_response("HEAD", "/live", 200, JSON, b"")
        with pytest.raises(ContractError, match="must not have a body"):
            contract.check_response("GET", "/collections/handbook", 304, {}, b"{}")

    def test_a_route_that_is_not_described_must_answer_404_with_the_error_body(self, contract):
        check(contract, "GET", "/nowhere", 404, error_body("Not found"))
        with pytest.raises(ContractError, match="the route is not described, which must answer 404"):
            check(contract, "GET", "/nowhere", 200, {})
        with pytest.raises(ContractError, match="'error' is a required property"):
            check(contract, "GET", "/nowhere", 404, {"message": "Not found"})

    def test_a_method_that_is_not_described_must_answer_405_with_allow(self, contract):
        body = error_body("Method not allowed", "method_not_allowed")
        check(contract, "POST", "/health", 405, body, {**JSON, "Allow": "GET"})
        with pytest.raises(ContractError, match="header Allow is missing"):
            check(contract, "POST", "/health", 405, body)
        with pytest.raises(ContractError, match="/health does not describe POST, which must answer 405"):
            check(contract, "POST", "/health", 404, body)

    def test_options_names_the_methods(self, contract):
        contract.check_response("OPTIONS", "/health", 200, {"Allow": "GET, HEAD, OPTIONS"}, b"")
        with pytest.raises(ContractError, match="OPTIONS must answer"):
            contract.check_response("OPTIONS", "/health", 200, {}, b"")

    def test_literal_segments_win_over_parameters(self, contract):
        assert contract.match("/collections/x/documents/count") == "/collections/{name}/documents/count"
        assert contract.match("/collections/x/documents/a%2Fb") == "/collections/{name}/documents/{id}"
        assert contract.match("/collections/x/documents/a/b") is None

    def test_the_sentences_of_an_error_must_agree(self, contract):
        body = error_body("Job 'a' not found", "job_not_found") | {"detail": "No such thing"}
        with pytest.raises(ContractError, match="error, message, detail must be the same"):
            check(contract, "GET", "/api/jobs/a", 404, body)

    def test_a_missing_collection_is_distinguished_from_a_missing_route(self, contract):
        check(
            contract,
            "GET",
            "/collections/handbook",
            404,
            error_body("Collection 'a' not found", "collection_not_found"),
        )
        with pytest.raises(ContractError, match="answered 404"):
            check(contract, "GET", "/collections/handbook", 404, error_body("Not found", "collection_not_found"))

    def test_the_message_names_the_place_and_shows_the_body(self, contract):
        groups = [{"key": "intro", "rank": 0, "documents": [], "total": 1, "complete": True}]
        with pytest.raises(ContractError) as caught:
            check(contract, "POST", "/collections/x/gather", 200, {"groups": groups, "revision": 1})
        assert str(caught.value).startswith("POST /collections/x/gather answered 200: $.groups[0].rank: 0 is less than")
        assert '"rank": 0' in str(caught.value)


class TestWrites:
    PATH = "/collections/handbook/documents"

    def test_indexed_says_what_the_status_says(self, contract):
        check(contract, "POST", self.PATH, 201, ADDED)
        check(contract, "POST", self.PATH, 202, ADDED | {"indexed": False})
        with pytest.raises(ContractError, match="indexed"):
            check(contract, "POST", self.PATH, 202, ADDED)

    def test_only_a_stream_may_leave_the_ids_out(self, contract):
        without_ids = {name: value for name, value in ADDED.items() if name != "ids"}
        bad_line = {"line": 3, "code": "invalid_input", "message": "Document text is required"}
        check(contract, "POST", self.PATH, 201, without_ids | {"errors": [bad_line], "errors_total": 1})
        with pytest.raises(ContractError, match="required property"):
            check(contract, "POST", self.PATH, 201, without_ids)
        with pytest.raises(ContractError, match="'errors_total' is a dependency of 'errors'"):
            check(contract, "POST", self.PATH, 201, ADDED | {"errors": [bad_line]})

    def test_an_embedding_holds_numbers_only(self, contract):
        document = {"id": "a", "text": "t", "metadata": {}, "embedding": [0.5, 1]}
        headers = {**JSON, "ETag": '"7"'}
        check(contract, "GET", f"{self.PATH}/a", 200, document, headers)
        for wrong in ([0.5, "1"], [0.5, True], [0.5, None], []):
            with pytest.raises(ContractError, match=r"\$\.embedding"):
                check(contract, "GET", f"{self.PATH}/a", 200, document | {"embedding": wrong}, headers)


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
