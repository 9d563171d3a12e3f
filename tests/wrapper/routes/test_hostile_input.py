"""Every wrong type in every field of every body, and in every argument, gets no 5xx, and nothing is stored in part."""

import json

import pytest

DOCUMENT = {"id": "a", "text": "one", "metadata": {"page": 1}, "embedding": [1.0, 0.0]}
VALUES = {
    "null": None,
    "true": True,
    "zero": 0,
    "minus one": -1,
    "half": 0.5,
    "huge": 10**18,
    "huge float": 1e308,
    "empty string": "",
    "string": "text",
    "minus signs": "--5",
    "surrogates": "\U0010ffff\u0000",
    "long string": "x" * 70_000,
    "empty list": [],
    "list of null": [None],
    "list of numbers": [1, 2],
    "list of strings": ["a", ""],
    "list of lists": [[[]]],
    "empty object": {},
    "object": {"a": 1},
    "object with an empty key": {"": {"": None}},
    "operators": {"$gt": 1},
    "logical": {"$and": [{"$or": [{}]}]},
}
deep_list, deep_object = [], {}
for _ in range(500):
    deep_list, deep_object = [deep_list], {"a": deep_object}
VALUES |= {"deep list": deep_list, "deep object": deep_object}

BODIES = {
    "create": (
        "POST",
        "/collections",
        {"name": "NEW", "embedding_provider": "x", "embedding_model": "x", "metadata": {}, "metric": "l2"},
    ),
    "replace metadata": ("PUT", "/collections/NAME/metadata", {"metadata": {"x": 1}}),
    "merge metadata": ("PATCH", "/collections/NAME/metadata", {"metadata": {"x": 1}}),
    "add": ("POST", "/collections/NAME/documents", {"documents": [DOCUMENT]}),
    "patch": ("PATCH", "/collections/NAME/documents/a", {"text": "x", "metadata": {"x": 1}, "embedding": [1, 0]}),
    "delete ids": ("DELETE", "/collections/NAME/documents", {"ids": ["nobody"]}),
    "delete where": ("DELETE", "/collections/NAME/documents", {"where": {"nothing": 1}}),
    "search": (
        "POST",
        "/collections/NAME/documents/search",
        {
            "where": {},
            "ids": ["a"],
            "limit": 1,
            "offset": 0,
            "order_by": "page",
            "cursor": None,
            "include": "embedding",
        },
    ),
    "query": (
        "POST",
        "/query",
        {
            "collection": "NAME",
            "query_embedding": [1, 0],
            "query": "x",
            "top_k": 1,
            "where": {},
            "max_distance": 1,
            "include": ["embedding"],
            "gather": {"by": "page"},
        },
    ),
    "gather ids": ("POST", "/collections/NAME/gather", {"ids": ["a"], "by": "page", "order_by": "page", "limit": 1}),
    "gather where": ("POST", "/collections/NAME/gather", {"where": {"page": 1}, "by": "page"}),
    "text-search": ("POST", "/collections/NAME/text-search", {"query": "one", "where": {}, "top_k": 1}),
}
WRITES = {"create", "replace metadata", "merge metadata", "add", "patch", "delete ids", "delete where"}
FIELDS = [(kind, field) for kind, (_, _, body) in BODIES.items() for field in body]


def _fill_in(value, name):
    if isinstance(value, dict):
        return {key: _fill_in(inner, name) for key, inner in value.items()}
    return value.replace("NAME", name).replace("NEW", f"{name}-new") if isinstance(value, str) else value


@pytest.fixture
def ask(client, filled):
    """`ask(method, url, body)` returns an answer about the collection `ask.name`, which has one document, and never
    takes a 5xx.

    A refused request must leave the collection unchanged.
    """
    name = filled([DOCUMENT])
    known = client.get(f"/collections/{name}").json

    def ask(method, url, body, *, writes=True):
        nonlocal known
        # json, because the test client's writer, orjson, refuses to nest as deeply as a hostile client does.
        answer = client.open(url, method=method, data=json.dumps(body), content_type="application/json")
        assert answer.status_code < 500, answer.json
        now = client.get(f"/collections/{name}").json if writes else known
        assert answer.status_code < 400 or now == known
        known = now
        return answer

    ask.name = name
    return ask


@pytest.mark.parametrize(("kind", "field"), FIELDS, ids=[f"{kind}.{field}" for kind, field in FIELDS])
def test_no_value_of_a_field_causes_a_failure(client, ask, kind, field):
    method, url, body = (_fill_in(part, ask.name) for part in BODIES[kind])
    for value in VALUES.values():
        answer = ask(method, url, {**body, field: value}, writes=kind in WRITES)
        if answer.status_code == 400:
            assert answer.json["details"], (value, answer.json)
        if kind == "create" and answer.status_code == 201:
            client.delete(f"/collections/{answer.json['name']}")
    ask(method, url, {key: inner for key, inner in body.items() if key != field})


@pytest.mark.parametrize("kind", BODIES)
def test_no_value_as_a_whole_body_causes_a_failure(ask, kind):
    method, url, _ = BODIES[kind]
    for value in VALUES.values():
        ask(method, _fill_in(url, ask.name), value)


@pytest.mark.parametrize("field", [*DOCUMENT, "unknown"])
def test_no_value_in_a_document_causes_a_failure(ask, field):
    for value in VALUES.values():
        documents = [DOCUMENT, {**DOCUMENT, "id": "b", field: value}]
        answer = ask("POST", f"/collections/{ask.name}/documents", {"documents": documents})
        if answer.status_code == 400:
            assert (answer.json["details"]["field"], answer.json["details"]["index"]) == (field, 1)


@pytest.mark.parametrize("field", ["by", "order_by", "limit", "unknown"])
def test_no_value_in_a_gather_causes_a_failure(ask, field):
    for value in VALUES.values():
        gather = {"by": "page", "order_by": ["page"], "limit": 5, field: value}
        ask("POST", f"/collections/{ask.name}/query", {"query_embedding": [1, 0], "gather": gather}, writes=False)


OPERATORS = ["$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$exists", "$contains", "$not_contains", "$not"]


@pytest.mark.parametrize("operator", [*OPERATORS, "$and", "$or", "$nor", ""])
def test_no_operand_causes_a_failure(ask, operator):
    url = f"/collections/{ask.name}"
    for value in VALUES.values():
        for where in ({"page": {operator: value}}, {operator: value}, {"$not": {"a.b": {operator: value}}}):
            ask("POST", f"{url}/documents/search", {"where": where}, writes=False)
            ask("POST", f"{url}/query", {"query_embedding": [1, 0], "where": where}, writes=False)


ARGUMENTS = [
    ("GET", "documents", ["where", "limit", "offset", "order_by", "cursor", "include"]),
    ("GET", "documents/a", ["include"]),
    ("GET", "documents/count", ["where"]),
    ("GET", "metadata-values", ["field"]),
    ("GET", "facets", ["fields", "where", "limit"]),
    ("GET", "projection", ["field", "where", "limit"]),
    ("POST", "documents", ["on_conflict", "replace_where", "embedding_model"]),
    ("PUT", "metadata", ["merge"]),
]
TEXTS = [
    "",
    " ",
    "x",
    "--5",
    "-0",
    "1e9",
    "99999999999999999999999",
    "٣",
    "null",
    "true",
    "[]",
    "{}",
    "[[[",
    '"x"',
    "{" * 2_000,
    "[" * 8_000,
    '{"a":{"$in":[1]}}',
    "\x00",
    "\U0010ffff",
    "'; DROP TABLE documents; --",
    ",",
    "-",
    "a,-b,,c",
    "%",
    "../..",
]


@pytest.mark.parametrize(("method", "route", "arguments"), ARGUMENTS, ids=[route for _, route, _ in ARGUMENTS])
def test_no_text_as_an_argument_causes_a_failure(client, filled, method, route, arguments):
    name = filled([DOCUMENT])
    body = None if method == "GET" else {"documents": [DOCUMENT], "metadata": {"x": 1}}
    for argument in arguments:
        for text in TEXTS:
            others = {"field": "page", "fields": "page"} if argument not in ("field", "fields") else {}
            answer = client.open(
                f"/collections/{name}/{route}", method=method, json=body, query_string={**others, argument: text}
            )
            assert answer.status_code < 500, (argument, text, answer.json)


@pytest.mark.parametrize(
    "query",
    ["%FF=%FE", "where=%FF", "limit=1&limit=x", "where={}&where=x", "=&&=", "%00=%00", "limit[]=1", "a" * 30_000],
)
def test_odd_query_strings_cause_no_failure(client, filled, query):
    assert client.get(f"/collections/{filled([DOCUMENT])}/documents?{query}").status_code < 500


@pytest.mark.parametrize("header", ["If-Match", "If-None-Match", "Idempotency-Key", "X-Request-ID", "Origin", "Accept"])
@pytest.mark.parametrize("text", ["", '"', '"""', "W/", ",,,", "*, *", "x" * 5_000, "é", "null", 'W/W/"1"'])
def test_odd_headers_cause_no_failure(client, filled, header, text):
    name = filled([DOCUMENT])
    for method, route in (("GET", "documents"), ("POST", "documents")):
        answer = client.open(
            f"/collections/{name}/{route}", method=method, json={"documents": [DOCUMENT]}, headers={header: text}
        )
        assert answer.status_code < 500


@pytest.mark.parametrize(
    "segment", ["%00", "%FF", "%F4%8F%BF%BF", "..", ".", "%2e%2e", "a" * 3_000, "%25", "*", "'", "{name}"]
)
def test_odd_names_in_paths_are_not_found(client, segment):
    for route in ("", "/documents", "/documents/count", "/documents/x", "/facets?fields=a"):
        assert client.get(f"/collections/{segment}{route}").status_code == 404
