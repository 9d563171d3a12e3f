"""Every route of openapi.yaml and its names: those that nearly fit, and those by which collections are named."""

import json
import re

import pytest

from schemas.access.table import ROUTES, Names
from schemas.field_names import OWN_MEANING
from schemas.wire.body import ExactBody
from tests.support.contract import Contract
from wrapper.web.request_parts import WRITERS
from wrapper.web.route_table import _CONVERTED, NAME_ALONE

CONTRACT = Contract.load()
OWN_RULES = ("/mcp", "/api/v1/", "/api/v2", "/v1/chat/", "/v1/embeddings", "/v1/models", "/v1/files/{file_id}/content")
"""What the paths of routes begin with that judge names themselves."""
IN_BODY = {
    Names.BODY: {"collection"},
    Names.BODY_NAME: {"name"},
    Names.CHOSEN: {"collections", "collection"},
    Names.ENTRIES: {"selectedCollections"},
    Names.DEFAULT: {"collection"},
}
IN_QUERY = {
    Names.QUERY: {"collection"},
    Names.QUERY_CHOSEN: {"collections", "collection"},
    Names.UPLOADED: {"collection"},
}
NAMING = {"collection", "collections", "selectedCollections"}
ABOUT_SOMETHING_ELSE = {
    "POST /collections/{name}/query",  # its body is that of /query
    "PUT /api/watchers/{name}",  # what a folder is loaded into, as it was reported
    "GET /aliases",  # whose aliases are listed
    "POST /api/keys",
    "PATCH /api/keys/{key_id}",
    "GET /api/audit",
    "GET /api/judgements",
}
"""Routes with a field of such a name that is not the collection the request is about."""


def operations():
    for path, method in every_operation():
        if not path.startswith(OWN_RULES):
            yield path, method


def every_operation():
    """Return those of other protocols as well, which heed conditions as ours do; MCP has none to send."""
    return [(path, method) for path, method in sorted(CONTRACT.described()) if path != "/mcp"]


def parameters(path, method):
    for owner in (("paths", path), ("paths", path, method.lower())):
        for index in range(len(CONTRACT.at(owner).get("parameters", []))):
            parameter = CONTRACT.at((*owner, "parameters", str(index)))
            if parameter["in"] == "query" and re.fullmatch(r"\w+", parameter["name"]):
                yield parameter["name"]


def body_of(path, method):
    return "paths", path, method.lower(), "requestBody", "content", "application/json", "schema"


def body_fields(path, method):
    try:
        return list(dict.fromkeys(properties(body_of(path, method))))
    except KeyError:
        return []


def properties(here):
    """Yield the names of the properties of a schema and of its alternatives, and theirs."""
    schema = CONTRACT.at(here)
    yield from schema.get("properties", {})
    for key in ("oneOf", "allOf", "anyOf"):
        for index in range(len(schema.get(key, []))):
            yield from properties((*here, key, str(index)))


def misspelt(name):
    """Leave one letter out of the middle, which is one edit away from any name."""
    return name[: len(name) // 2] + name[len(name) // 2 + 1 :]


def filled_in(path):
    return re.sub(r"\{tool\}", "rag_context_stats", re.sub(r"\{(?!tool)\w+\}", "nothing-there", path))


TRIED = (
    ("/collections/{name}/documents", "POST"),
    ("/collections/{name}/documents/search", "POST"),
    ("/api/search", "POST"),
    ("/api/documents", "GET"),
)
"""Routes of which each name is misspelt: all others declare theirs to the same judge, in the same way."""
PARAMETERS = [(path, method, name) for path, method in TRIED for name in parameters(path, method)]
FIELDS = [(path, method, name) for path, method in TRIED for name in body_fields(path, method)]


def refusal(answer):
    details = answer.json.get("details", {})
    return answer.status_code, answer.json.get("code"), details.get("field"), details.get("suggestion")


def test_every_route_declares_what_the_description_says(app):
    for path, method in operations():
        if path == "/tools/{tool}":
            continue
        endpoint, _ = app.url_map.bind("").match(filled_in(path), method)
        route = app.extensions["rag.routes"].find(endpoint)
        assert set(route.query_names.known) == set(parameters(path, method)), (method, path)
        besides = {"collection"} if path == "/collections/{name}/query" else set()
        assert set(route.body_names.known) == set(body_fields(path, method)) | besides, (method, path)
        if isinstance(route.body, ExactBody) and method != "DELETE":  # whose body has alternatives
            assert CONTRACT.at((*body_of(path, method), "additionalProperties")) is False, (method, path)


def test_a_collection_is_named_where_the_table_says(app):
    table, faults = app.extensions["rag.routes"], []
    declared = {
        f"{method} {_CONVERTED.sub(NAME_ALONE, rule.rule)}": table.find(rule.endpoint)
        for rule in app.url_map.iter_rules()
        for method in rule.methods - {"HEAD", "OPTIONS"}
    }
    for route, row in ROUTES.items():
        names, in_path = row.names, " /collections/{name}" in route or "{vector_store_id}" in route
        in_body, in_query = set(declared[route].body_names.known), set(declared[route].query_names.known)
        is_missing = not in_body >= IN_BODY.get(names, set()) or not in_query >= IN_QUERY.get(names, set())
        unsaid = (set() if names in IN_BODY else in_body & NAMING) | (set() if names in IN_QUERY else in_query & NAMING)
        if is_missing or (unsaid and route not in ABOUT_SOMETHING_ELSE) or in_path != (names is Names.PATH):
            faults.append((route, names, in_body & NAMING, in_query & NAMING))
    assert faults == []
    assert len(ROUTES) > 150


def test_a_name_that_nearly_fits_is_refused_with_the_name_that_does_and_a_parameter_has_one_value(client):
    assert (len(PARAMETERS) > 8, len(FIELDS) > 15) == (True, True)
    said = {
        (path, method, name, place): refusal(client.open(filled_in(path), method=method, **{place: {given: "error"}}))
        for names, place in ((PARAMETERS, "query_string"), (FIELDS, "json"))
        for path, method, name in names
        if (given := misspelt(name)) not in OWN_MEANING
    }
    assert said == {each: (400, "unknown_field", misspelt(each[2]), each[2]) for each in said}
    assert len(said) == len(PARAMETERS) + len(FIELDS)
    said = {}
    for path, method, name in PARAMETERS:
        answer = client.open(filled_in(path), method=method, query_string=[(name, "error"), (name, "replace")])
        said[path, method, name] = refusal(answer)
    assert said == {each: (400, "repeated_parameter", each[2], None) for each in said}


def test_a_condition_is_compared_or_refused(client):
    """An `If-Match` that is ignored would protect nothing."""
    said, expected = {}, {}
    for path, method in every_operation():
        if method == "GET":
            continue
        operation, item = CONTRACT.at(("paths", path, method.lower())), CONTRACT.at(("paths", path))
        named = [*operation.get("parameters", ()), *item.get("parameters", ())]
        expected[path, method] = (True, {"$ref": "#/components/parameters/IfMatch"} not in named)
        taken = operation.get("requestBody", {}).get("content", ())
        kind = next(iter(taken), "application/json")
        headers = {"If-Match": '"a-stale-tag"', "Content-Type": kind}
        answer = client.open(filled_in(path), method=method, data=b"{}", headers=headers)
        said[path, method] = (answer.status_code >= 400, answer.json["code"] == "invalid_if_match")
    assert said == expected
    assert {True, False} == {is_refused for _, is_refused in expected.values()}
    for name in ("If-None-Match", "If-Unmodified-Since"):
        answer = client.put("/collections/nothing-there/documents/a", json=DOCUMENT, headers={name: "*"})
        assert (answer.status_code, answer.json["details"]["field"]) == (400, name)
    for path in ("/collections/nothing-there/documents/search", "/api/search", "/v1/embeddings", "/mcp"):
        assert b"If-None-Match" not in client.post(path, json={}, headers={"If-None-Match": "*"}).data


def test_a_write_and_an_answer_without_room_for_warnings_refuse_what_they_do_not_know(app, client):
    table = app.extensions["rag.routes"]
    without_room = [(f"/collections/nothing-there/{each}", "GET") for each in ("export", "changes")]
    without_room += [(f"/api/{each}", "GET") for each in ("documents/nothing-there/original", "backups/none/content")]
    asked = {*without_room, ("/tools/rag_context_index", "POST")}
    for path, method in operations():
        rule, _ = app.url_map.bind("").match(filled_in(path), method, return_rule=True)
        if method == "DELETE":
            body = client.delete(filled_in(path), json={"zzzzzz": 1}).json["code"]
            reads_body = "requestBody" in CONTRACT.at(("paths", path, "delete"))
            assert body == ("invalid_field" if reads_body else "invalid_body"), path
        if method == "DELETE" or (method != "GET" and table.access(rule.rule, method).needs in WRITERS):
            asked.add((filled_in(path), method))
    said = {each: client.open(each[0], method=each[1], query_string={"zzzzzz": 1}).json["code"] for each in asked}
    assert said == dict.fromkeys(asked, "unknown_field")
    assert len(said) > 45
    assert {client.get(path, query_string={"_": "1"}).status_code for path, _ in without_room} == {404}


@pytest.mark.slow
def test_an_unknown_parameter_is_named_in_the_answer(client, name):
    said = {}
    for path, method in operations():
        address = filled_in(path.replace("/collections/{name}", f"/collections/{name}"))
        plain = client.get(address) if method == "GET" and path != "/openapi.json" else None
        if plain is not None and plain.is_json and plain.status_code == 200:
            assert "warnings" not in plain.json, path
            said[path] = client.get(address, query_string={"zzzzzz": "1"}).json.get("warnings")
    assert all(warnings == ["Unknown field 'zzzzzz' is ignored"] for warnings in said.values())
    assert len(said) > 30


DOCUMENT = {"id": "a", "text": "kept", "metadata": {"n": 1}, "embedding": [0.6, 0.8]}


@pytest.fixture
def name(filled):
    return filled([DOCUMENT])


@pytest.mark.parametrize("query", ["?on_confict=error", "?conflict_on=1&on_conflic=skip", "?upsert=false", ""])
def test_a_misspelt_or_misplaced_precaution_leaves_the_document_unharmed(client, name, unchanged, query):
    body = {"documents": [{**DOCUMENT, "text": "new"}]} | ({} if query else {"on_conflict": "error"})
    with unchanged(name):
        answer = client.post(f"/collections/{name}/documents{query}", json=body)
        assert (answer.status_code, answer.json["details"]["suggestion"]) == (400, "on_conflict")
    assert client.get(f"/collections/{name}/documents/a").json["text"] == "kept"


def test_what_selects_or_saves_documents_is_read_whole_or_refused(client, name, unchanged):
    twice = b'{"where": {"n": {"$gte": 1}, "n": {"$lt": 0}}, "metadata": {}}'
    with unchanged(name):
        for method, path, body in (
            ("DELETE", "/documents", twice),
            ("PATCH", "/documents", twice),
            ("DELETE", "", b'{"where": {"n": 2}, "where": null}'),
            *(("DELETE", path, b'{"where": {"n": 2}}') for path in ("", "/documents/all", "/documents/all?ids=b")),
            ("PUT", "/documents/a?on_conflict=error", json.dumps(DOCUMENT)),
            ("POST", "/documents?replace_where=", json.dumps({"documents": [DOCUMENT]})),
            ("POST", "/copy", b'{"name": "other", "ids": ["a"]}'),
        ):
            answer = client.open(
                f"/collections/{name}{path}", method=method, data=body, content_type="application/json"
            )
            assert answer.status_code == 400, (method, path)
        # Clients make these of the paths of a document, a file and a collection whose id or name is `..`.
        for path in (f"/collections/{name}/", "/v1/vector_stores/vs_a/", "/api/v2/tenants/default_tenant/databases/a/"):
            assert client.delete(path).status_code == 400, path


def test_a_line_that_nearly_fits_is_a_bad_line_and_others_are_named(client, name):
    lines = b'{"id":"b","text":"x","embedding":[1,0],"metdata":{}}\n{"id":"c","text":"x","embedding":[1,0],"title":1}\n'
    headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": name}
    for _ in range(2):
        answer = client.post(f"/collections/{name}/documents", data=lines, headers=headers)
        assert (answer.status_code, answer.json["count"]) == (201, 1)
        assert answer.json["errors"][0]["code"] == "unknown_field"
        assert answer.json["errors"][0]["details"] == {"field": "metdata", "suggestion": "metadata"}
        assert answer.json["warnings"] == ["Unknown field 'title' is ignored"]


@pytest.mark.parametrize(
    ("order", "unknown"), [("price desc", "price desc"), ("-price", "price"), ("n,price", "price"), ("-n", None)]
)
def test_an_order_that_no_document_has_is_named(client, name, order, unknown):
    said = None if unknown is None else [f"No document has the field '{unknown}' that order_by names"]
    listed = client.get(f"/collections/{name}/documents", query_string={"order_by": order})
    found = client.post(f"/collections/{name}/documents/search", json={"order_by": order})
    assert (listed.json.get("warnings"), found.json.get("warnings")) == (said, said)
