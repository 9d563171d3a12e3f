"""The checker catches what it should, and `openapi.yaml` is consistent in itself."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import yaml
from flask import Flask, jsonify
from jsonschema import Draft202012Validator

from tests.support.contract import METHODS, OPENAPI, CheckedClient, CheckedSession, Contract, ContractError

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
OPERATIONS = sorted(Contract.load().described())
SHORT_ERRORS = ("/api/rag/", "/api/chat")  # whose `error` is a short word
ERROR_SAMPLES = {
    "408": {"message": "The client sends its request too slowly", "code": "client_too_slow"},
    "403": {"message": "Pages of this origin may not call", "code": "origin_not_allowed"},
    "404": {"message": "Collection 'handbook' not found", "code": "collection_not_found"},
    "412": {"message": "The collection has changed", "code": "precondition_failed"},
    "413": {"message": "The body is too large", "code": "payload_too_large"},
    "414": {"message": "Send long filters to documents/search", "code": "request_line_too_long"},
    "415": {"message": "The body must be JSON", "code": "unsupported_media_type"},
    "421": {"message": "This service is not asked by that name", "code": "host_not_allowed"},
    "507": {"message": "The disk is nearly full", "code": "disk_floor_reached"},
}
SCHEMA_KEYWORDS = frozenset(Draft202012Validator.VALIDATORS) | {
    "x-equal",
    "$ref",
    "default",
    "description",
    "example",
    "examples",
    "contentEncoding",
    "format",
}


@pytest.fixture
def contract() -> Contract:
    return Contract.load()


def error_body(message: str, code: str = "not_found", **details: object) -> dict[str, object]:
    return {"error": message, "message": message, "detail": message, "code": code, "details": details}


def check(contract, method, path, status, body, headers=JSON):
    contract.check_response(method, path, status, headers, json.dumps(body).encode())


class TestChecker:
    def test_a_documented_answer_passes(self, contract):
        check(contract, "GET", "/collections/handbook", 200, COLLECTION, {**JSON, "ETag": '"7"'})

    def test_parameters_of_the_content_type_and_case_of_headers_do_not_matter(self, contract):
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
        body = error_body("Collection 'handbook' not found", "collection_not_found") | {"detail": "No such thing"}
        with pytest.raises(ContractError, match="error, message, detail must be the same"):
            check(contract, "GET", "/collections/handbook", 404, body)

    def test_a_missing_collection_is_told_from_a_missing_route(self, contract):
        with pytest.raises(ContractError, match="does not match"):
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

    def test_a_contract_of_ones_own(self, client):
        document = {"paths": {"/secret": {"get": {"operationId": "s", "responses": {"200": {"content": {"*/*": {}}}}}}}}
        own = client.application.test_client(contract=Contract(document))
        assert own.get("/secret").status_code == 200


class TestCheckedSession:
    @pytest.fixture
    def url(self) -> Iterator[str]:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                status, body = (200, {"status": "alive"}) if self.path.startswith("/live") else (404, {"error": "?"})
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(json.dumps(body).encode())

            def log_message(self, *args):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
        server.server_close()

    def test_answers_of_a_server_are_checked(self, url):
        with CheckedSession() as session:
            assert session.get(f"{url}/live", params={"x": "1"}).json() == {"status": "alive"}
            with pytest.raises(ContractError, match="GET /nowhere answered 404"):
                session.get(f"{url}/nowhere")


def nodes(node, pointer=()):
    """Every (pointer, mapping) of the document."""
    if isinstance(node, dict):
        yield pointer, node
    entries = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in entries:
        yield from nodes(value, (*pointer, str(key)))


def schemas(contract):
    """Every (pointer, schema), found where OpenAPI and JSON Schema put them, never inside an example."""
    for pointer, node in nodes(contract.document):
        if pointer[-1:] == ("schema",) or (pointer[:2] == ("components", "schemas") and len(pointer) == 3):
            yield from subschemas(pointer, node)


def subschemas(pointer, schema):
    yield pointer, schema
    for keyword in ("items", "additionalProperties", "not"):
        if isinstance(schema.get(keyword), dict):
            yield from subschemas((*pointer, keyword), schema[keyword])
    for keyword in ("properties", "patternProperties"):
        for name, part in schema.get(keyword, {}).items():
            yield from subschemas((*pointer, keyword, name), part)
    for keyword in ("allOf", "anyOf", "oneOf"):
        for index, part in enumerate(schema.get(keyword, [])):
            yield from subschemas((*pointer, keyword, str(index)), part)


def examples(contract):
    """Every (pointer of the schema, example)."""
    for pointer, node in nodes(contract.document):
        if isinstance(node.get("schema"), dict):
            named = node.get("examples", {})
            given = [node["example"]] if "example" in node else []
            for example in [*given, *(named[name]["value"] for name in named)]:
                yield (*pointer, "schema"), example
    for pointer, schema in schemas(contract):
        for example in schema.get("examples", []):
            yield pointer, example


class TestDescription:
    def test_no_key_is_written_twice(self):
        for node in yaml_mappings(yaml.compose(OPENAPI.read_text(), Loader=yaml.SafeLoader)):
            keys = [key.value for key, _ in node.value]
            assert len(keys) == len(set(keys)), node.start_mark

    def test_every_reference_leads_somewhere_and_every_component_is_used(self, contract):
        used = {node["$ref"] for _, node in nodes(contract.document) if isinstance(node.get("$ref"), str)}
        for reference in used:
            assert contract.at(tuple(reference.removeprefix("#/").split("/"))), reference
        components = contract.document["components"]
        assert used == {f"#/components/{kind}/{name}" for kind in components for name in components[kind]}

    def test_operation_ids_are_unique_camel_case(self, contract):
        ids = [operation["operationId"] for _, _, operation in operations(contract)]
        assert len(ids) == len(set(ids)) == len(OPERATIONS)
        assert all(re.fullmatch(r"[a-z]+([A-Z][a-z]+)*", name) for name in ids)

    @pytest.mark.parametrize(("path", "method"), OPERATIONS)
    def test_an_operation_is_complete(self, contract, path, method):
        operation = contract.at(("paths", path, method.lower()))
        assert operation["summary"].endswith(".")
        assert set(operation["tags"]) <= {tag["name"] for tag in contract.document["tags"]}
        declared = {parameter["name"] for parameter in parameters(contract, path, method, "path")}
        assert declared == set(re.findall(r"\{(\w+)\}", path))
        for status in operation["responses"]:
            assert contract.at(("paths", path, method.lower(), "responses", status))["description"].strip()

    @pytest.mark.parametrize(("path", "method"), OPERATIONS)
    def test_errors_have_the_error_body(self, contract, path, method):
        for status in contract.at(("paths", path, method.lower(), "responses")):
            if int(status) < 400 or path in ("/health", "/ready") or (path, status) == ("/mcp", "404"):
                continue
            answer = contract.resolve(("paths", path, method.lower(), "responses", status))
            validator = contract.validator((*answer, "content", "application/json", "schema"))
            body = error_body(**ERROR_SAMPLES.get(status, {"message": "Wrong", "code": "wrong"}))
            if path.startswith(SHORT_ERRORS) and status != "414":
                body |= {"error": "Validation error", "details": {"message": body["message"]}}
            assert validator.is_valid(body)
            assert not validator.is_valid({"error": "Wrong"}), status

    @pytest.mark.parametrize(("path", "method"), OPERATIONS)
    def test_operations_follow_the_rules_for_all(self, contract, path, method):
        operation = contract.at(("paths", path, method.lower()))
        responses = operation["responses"]
        headers = {parameter["name"] for parameter in parameters(contract, path, method, "header")}
        keeps_connection = path in ("/api/connections", "/api/connections/{id}") and method != "GET"
        reads = method == "GET" or path.endswith(("/search", "/query", "/gather", "/text-search"))
        reads = reads or (path.startswith(("/api/", "/tools/", "/mcp")) and not keeps_connection)
        asks_doctor = "/index/" in path  # twice is no more than once
        ingests = method != "DELETE" and (
            path.endswith(("/rag/ingest", ":batch")) or (path, method) == ("/tools/{tool}", "POST")
        )
        assert ("Idempotency-Key" in headers) == (ingests or (not reads and not asks_doctor and not keeps_connection))
        writes_text = path.startswith(SHORT_ERRORS) and (path.endswith(("ingest", ":batch")) or method == "DELETE")
        writes_text = writes_text or (path.startswith("/tools/") and method == "POST")
        assert ("507" in responses) == (writes_text or (not reads and not path.endswith("/index/check")))
        preconditions = not reads and not asks_doctor and not keeps_connection and path != "/collections"
        assert ("If-Match" in headers) == ("412" in responses) == preconditions
        assert ("If-None-Match" in headers) == ("304" in responses)
        assert ("requestBody" in operation) == ("413" in responses)
        assert ("415" in responses) == (method != "GET")
        assert {"403", "421"} <= set(responses)
        assert ("Content-Encoding" in headers) == ("requestBody" in operation)
        assert "500" not in responses

    def test_schemas_are_valid_and_use_known_keywords(self, contract):
        for pointer, schema in schemas(contract):
            assert set(schema) <= SCHEMA_KEYWORDS, pointer
            Draft202012Validator.check_schema(schema)
            if "properties" in schema:
                assert set(schema.get("required", [])) <= set(schema["properties"]), pointer

    def test_examples_are_valid(self, contract):
        seen = 0
        for pointer, example in examples(contract):
            errors = [error.message for error in contract.validator(pointer).iter_errors(example)]
            assert not errors, (pointer, example)
            seen += 1
        assert seen > 40

    def test_answers_are_closed_where_no_route_may_extend_them(self, contract):
        closed = {"Collection", "Document", "DocumentPage", "DocumentsAdded", "QueryResults", "Group", "TextResult"}
        closed |= {"CollectionNotFound"}
        for pointer, example in examples(contract):
            is_stream = "application/x-ndjson" in pointer
            answers = "responses" in pointer and "/ready" not in pointer and not is_stream
            if answers or (pointer[:2] == ("components", "schemas") and pointer[2] in closed):
                validator = contract.validator(pointer)
                assert not validator.is_valid(example | {"unexpected": 1}), pointer
                assert not any(
                    validator.is_valid({name: value for name, value in example.items() if name != missing})
                    for missing in example.keys() - {"embedding", "ids", "best_distance"}
                ), pointer

    def test_it_can_be_served_as_json(self, contract):
        assert json.loads(json.dumps(contract.document)) == contract.document

    @pytest.mark.parametrize(
        "where",
        [
            {},
            {"a.b": 1, "c": True},
            {"a": {"$gte": 1, "$lt": 3}},
            {"a": {"$in": []}, "b": {"$not": {"$eq": "x"}}},
            {"$and": [{"$not": {"$or": [{"a": {"$exists": False}}]}}]},
        ],
    )
    def test_filters_of_the_grammar_are_valid(self, contract, where):
        assert contract.validator(("components", "schemas", "Filter")).is_valid(where)

    @pytest.mark.parametrize(
        "where",
        [
            [],
            {"a": None},
            {"a": [1]},
            {"a": {}},
            {"a": {"b": 1}},
            {"a": {"$gt": True}},
            {"a": {"$exists": 1}},
            {"a": {"$in": "x"}},
            {"$nor": []},
            {"$and": []},
            {"$or": [None]},
        ],
    )
    def test_filters_outside_the_grammar_are_not(self, contract, where):
        assert not contract.validator(("components", "schemas", "Filter")).is_valid(where)


def yaml_mappings(node):
    if isinstance(node, yaml.MappingNode):
        yield node
        children = [child for pair in node.value for child in pair]
    else:
        children = node.value if isinstance(node, yaml.SequenceNode) else []
    for child in children:
        yield from yaml_mappings(child)


def operations(contract):
    for path, item in contract.document["paths"].items():
        for method, operation in item.items():
            if method.upper() in METHODS:
                yield path, method, operation


def parameters(contract, path, method, place):
    """The parameters of an operation in this place, its path's included."""
    for owner in (("paths", path), ("paths", path, method.lower())):
        for index in range(len(contract.at(owner).get("parameters", []))):
            parameter = contract.at((*owner, "parameters", str(index)))
            if parameter["in"] == place:
                yield parameter
