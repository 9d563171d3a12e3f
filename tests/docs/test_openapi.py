"""`openapi.yaml` is consistent in itself."""

import json
import re

import pytest
import yaml
from jsonschema import Draft202012Validator

from tests.support.contract import METHODS, OPENAPI, Contract, error_body

OPERATIONS = sorted(Contract.load().described())
SHORT_ERRORS = ("/api/rag/", "/api/chat")  # their `error` is a short word
ERROR_SAMPLES = {
    "408": {"message": "The client sends its request too slowly", "code": "client_too_slow"},
    "401": {"message": "This needs an API key", "code": "key_missing"},
    "403": {"message": "Pages of this origin may not call", "code": "origin_not_allowed"},
    "404": {"message": "Collection 'handbook' not found", "code": "collection_not_found"},
    "410": {"message": "What was deleted before is not known any more", "code": "too_old"},
    "412": {"message": "The collection has changed", "code": "precondition_failed"},
    "413": {"message": "The body is too large", "code": "payload_too_large"},
    "414": {"message": "Send long filters to documents/search", "code": "request_line_too_long"},
    "415": {"message": "The body must be JSON", "code": "unsupported_media_type"},
    "421": {"message": "This service is not asked by that name", "code": "host_not_allowed"},
    "429": {"message": "The limit of the key is 2 requests per second", "code": "rate_limited"},
    "499": {"message": "The client closed its side", "code": "client_closed_request"},
    "507": {"message": "The disk is nearly full", "code": "disk_floor_reached"},
}
FACES = {
    "/api/v1/": lambda error: {"error": "Unimplemented", "message": error["message"]},
    "/api/v2": lambda error: {"error": "ChromaError", "message": error["message"]},
    "/dify/": lambda error: {"error_code": 1002, "error_msg": error["message"]},
    "/v1/": lambda error: {"error": {**error, "type": "invalid_request_error", "param": None}},
}
"""The bodies of errors below the paths of other products' protocols, without our own fields."""
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


def nodes(node, pointer=()):
    """Yield every (pointer, mapping) of the document."""
    if isinstance(node, dict):
        yield pointer, node
    entries = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in entries:
        yield from nodes(value, (*pointer, str(key)))


def schemas(contract):
    """Yield every (pointer, schema), found where OpenAPI and JSON Schema put them, never inside an example."""
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
    """Yield every (pointer of the schema, example)."""
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
    @pytest.mark.slow
    def test_no_key_is_written_twice_and_the_description_can_be_served_as_json(self, contract):
        for node in yaml_mappings(yaml.compose(OPENAPI.read_text(), Loader=yaml.SafeLoader)):
            keys = [key.value for key, _ in node.value]
            assert len(keys) == len(set(keys)), node.start_mark
        assert json.loads(json.dumps(contract.document)) == contract.document

    def test_every_reference_leads_somewhere_and_every_component_is_used(self, contract):
        used = {node["$ref"] for _, node in nodes(contract.document) if isinstance(node.get("$ref"), str)}
        asked = {name for _, _, operation in operations(contract) for each in operation["security"] for name in each}
        used |= {f"#/components/securitySchemes/{name}" for name in asked}
        for reference in used:
            assert contract.at(tuple(reference.removeprefix("#/").split("/"))), reference
        components = contract.document["components"]
        assert used == {f"#/components/{kind}/{name}" for kind in components for name in components[kind]}

    def test_operations_are_complete_and_their_ids_unique_in_camel_case(self, contract):
        ids = [operation["operationId"] for _, _, operation in operations(contract)]
        assert len(ids) == len(set(ids)) == len(OPERATIONS)
        assert all(re.fullmatch(r"[a-z]+([A-Z][a-z]+)*", name) for name in ids)
        tags = {tag["name"] for tag in contract.document["tags"]}
        for path, method, operation in operations(contract):
            where = f"{method.upper()} {path}"
            assert operation["summary"].endswith("."), where
            assert set(operation["tags"]) <= tags, where
            declared = {parameter["name"] for parameter in parameters(contract, path, method, "path")}
            assert declared == set(re.findall(r"\{(\w+)\}", path)), where
            for status in operation["responses"]:
                assert contract.at(("paths", path, method, "responses", status))["description"].strip(), (where, status)

    @pytest.mark.slow
    def test_errors_have_the_error_body(self, contract):
        for path, method, operation in operations(contract):
            for status in operation["responses"]:
                if int(status) < 400 or path in ("/health", "/ready") or (path, status) == ("/mcp", "404"):
                    continue
                answer = contract.resolve(("paths", path, method, "responses", status))
                validator = contract.validator((*answer, "content", "application/json", "schema"))
                sample = ERROR_SAMPLES.get(status, {"message": "Wrong", "code": "wrong"})
                if face := next((each for each in FACES if path.startswith(each)), None):
                    assert validator.is_valid(FACES[face](sample) | {"code": sample["code"], "details": {}}), path
                    assert not validator.is_valid({"error": "Wrong"}), path
                    continue
                body = error_body(**sample)
                if path.startswith(SHORT_ERRORS) and status != "414":
                    body |= {"error": "Validation error", "details": {"message": body["message"]}}
                assert validator.is_valid(body), (method, path, status)
                assert not validator.is_valid({"error": "Wrong"}), (method, path, status)

    def test_operations_follow_the_rules_for_all(self, contract):
        for path, method, operation in operations(contract):
            headers = {parameter["name"] for parameter in parameters(contract, path, method, "header")}
            broken = [rule for rule, holds in _rules(path, method.upper(), operation, headers).items() if not holds]
            assert not broken, f"{method.upper()} {path}"

    @pytest.mark.slow
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
            if not isinstance(example, dict):
                continue
            is_stream = not {"application/x-ndjson", "text/event-stream"}.isdisjoint(pointer)
            answers = "responses" in pointer and "/ready" not in pointer and not is_stream
            if answers or (pointer[:2] == ("components", "schemas") and pointer[2] in closed):
                validator = contract.validator(pointer)
                assert not validator.is_valid(example | {"unexpected": 1}), pointer
                assert not any(
                    validator.is_valid({name: value for name, value in example.items() if name != missing})
                    for missing in example.keys() - {"embedding", "ids", "best_distance"}
                ), pointer

    def test_filters_of_the_grammar_are_valid_and_others_are_not(self, contract):
        is_valid = contract.validator(("components", "schemas", "Filter")).is_valid
        right = [
            {},
            {"a.b": 1, "c": True},
            {"a": {"$gte": 1, "$lt": 3}},
            {"a": {"$in": []}, "b": {"$not": {"$eq": "x"}}},
            {"$and": [{"$not": {"$or": [{"a": {"$exists": False}}]}}]},
        ]
        wrong = [[], {"$nor": []}, {"$and": []}, {"$or": [None]}]
        wrong += [{"a": each} for each in (None, [1], {}, {"b": 1}, {"$gt": True}, {"$exists": 1}, {"$in": "x"})]
        assert [where for where in right if not is_valid(where)] == []
        assert [where for where in wrong if is_valid(where)] == []


def _rules(path, method, operation, headers):
    """Return what holds for every operation, by name."""
    responses = operation["responses"]
    keeps_connection = path in ("/api/connections", "/api/connections/{id}") and method != "GET"
    reads = method == "GET" or path.endswith(("/search", "/query", "/gather", "/text-search", "/rerank"))
    reads = reads or (path.startswith(("/api/", "/tools/", "/mcp", "/dify/", "/v1/")) and not keeps_connection)
    asks_doctor = "/index/" in path or (path.endswith("/reembed") and method != "GET")
    # Asking them twice is no more than asking once.
    uploads = (path, method) == ("/api/documents", "POST")
    ingests = method != "DELETE" and (
        path.endswith(("/rag/ingest", ":batch")) or (path, method) == ("/tools/{tool}", "POST") or uploads
    )
    may_repeat = ingests or (not reads and not asks_doctor and not keeps_connection)
    writes_text = path.startswith(SHORT_ERRORS) and (path.endswith(("ingest", ":batch")) or method == "DELETE")
    writes_text = writes_text or (path.startswith("/tools/") and method == "POST")
    writes_text = writes_text or uploads or (path, method) == ("/api/documents/{id}", "DELETE")
    # What only the audit log keeps from being done.
    recorded = (
        asks_doctor
        or path == "/mcp"
        or (
            method != "GET"
            and path.startswith(("/api/jobs", "/api/watchers/", "/api/keys", "/api/erase", "/api/backups"))
        )
    )
    judges = method != "GET" and path.startswith(("/api/judgements", "/api/bench"))
    writes = writes_text or recorded or judges or not reads
    if path.startswith(("/api/v1/", "/api/v2")):  # Chroma's protocol has no such difference in its methods
        writes = "409" in responses
    if path.startswith(("/v1/files", "/v1/vector_stores")):
        writes = method != "GET" and not path.endswith("/search")
    of_collection = path != "/collections" and not path.startswith("/aliases")
    preconditions = not reads and not asks_doctor and not keeps_connection and of_collection
    return {
        "Idempotency-Key": ("Idempotency-Key" in headers) == may_repeat,
        "507": ("507" in responses) == writes,
        "If-Match": ("If-Match" in headers) == ("412" in responses) == preconditions,
        "If-None-Match": ("If-None-Match" in headers) == ("304" in responses),
        "413": ("requestBody" in operation) == ("413" in responses),
        "415": ("415" in responses) == (method != "GET"),
        "403 and 421": {"403", "421"} <= set(responses),
        "Content-Encoding": ("Content-Encoding" in headers) == ("requestBody" in operation),
        "no 500": "500" not in responses,
    }


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
    """Return the parameters of an operation in this place, its path's included."""
    for owner in (("paths", path), ("paths", path, method.lower())):
        for index in range(len(contract.at(owner).get("parameters", []))):
            parameter = contract.at((*owner, "parameters", str(index)))
            if parameter["in"] == place:
                yield parameter
