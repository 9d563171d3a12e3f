"""Rubbish in bodies, filters and streams is refused as the description says, and none of it is stored.

The client checks every answer against openapi.yaml. `HYPOTHESIS_PROFILE=search` looks further.
"""

import copy

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.profiles import at_most

DOCUMENT = {"id": "a", "text": "one", "metadata": {"page": 1, "tags": ["x", 2]}, "embedding": [1.0, 0.0]}
WHERE = {
    "$and": [{"page": {"$gte": 1, "$in": [1, "x"]}}, {"$or": [{"tags": {"$contains": "x"}}, {"$not": {"a.b": 1}}]}]
}
ORDERED = {"where": WHERE, "limit": 5, "order_by": ["-page", "x"], "include": ["embedding"]}
REQUESTS = {
    "create": ("POST", "/collections", {"name": "new-one", "metadata": {"a": {"b": [1]}}, "metric": "ip"}),
    "replace metadata": ("PUT", "/collections/NAME/metadata", {"metadata": {"x": [1, {"y": None}]}}),
    "merge metadata": ("PATCH", "/collections/NAME/metadata", {"metadata": {"x": {"y": None}}}),
    "add": ("POST", "/collections/NAME/documents", {"documents": [DOCUMENT, {**DOCUMENT, "id": "b"}]}),
    "patch": ("PATCH", "/collections/NAME/documents/a", {"text": "x", "metadata": {"y": 1}, "embedding": [1, 0]}),
    "delete": ("DELETE", "/collections/NAME/documents", {"where": {"page": {"$lt": -5}}}),
    "search": ("POST", "/collections/NAME/documents/search", {**ORDERED, "offset": 0, "cursor": None}),
    "by ids": ("POST", "/collections/NAME/documents/search", {"ids": ["a", "b"], "limit": 1, "offset": 1}),
    "query": (
        "POST",
        "/collections/NAME/query",
        {
            "query_embedding": [1, 0],
            "top_k": 3,
            "where": WHERE,
            "max_distance": 1.5,
            "gather": {"by": "page", "order_by": "x", "limit": 2},
        },
    ),
    "gather": ("POST", "/collections/NAME/gather", {"where": WHERE, "by": "page", "order_by": ["x"], "limit": 2}),
    "text-search": ("POST", "/collections/NAME/text-search", {"query": "one two", "where": WHERE, "top_k": 2}),
}

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["$eq", "$in", "$not", "", "a.b", "page", "cosine", "-", "AAAA", 2**63, -0.0, 1e308, 5e-324]),
)
names = st.one_of(
    st.text(max_size=5),
    st.sampled_from(
        ["page", "id", "text", "embedding", "metadata", "where", "ids", "$and", "$or", "$not", "$in", "$gt", "by"]
    ),
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4), max_leaves=12
)


def _places(value, path=()):
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield from _places(each, (*path, key))


@st.composite
def near(draw, valid):
    """Return `valid` with up to three parts replaced, removed or doubled."""
    body = copy.deepcopy(valid)
    for _ in range(draw(st.integers(1, 3))):
        *way, last = draw(st.sampled_from([path for path in _places(body) if path])) if body else (None,)
        if last is None:
            return draw(values)
        holder = body
        for key in way:
            holder = holder[key]
        match draw(st.sampled_from(["replace", "remove", "add"])):
            case "replace":
                holder[last] = draw(values)
            case "remove":
                del holder[last]
            case "add" if isinstance(holder, list):
                holder.append(draw(values))
            case "add":
                holder[draw(names)] = draw(values)
    return body


def _written(value):
    return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS, default=str) if _fits(value) else repr(value).encode()


def _fits(value):
    """Return whether orjson can write the value: it writes no integers beyond 64 bits, so Python writes those, as JSON
    or rubbish."""
    if isinstance(value, dict):
        return all(map(_fits, value.values()))
    if isinstance(value, list):
        return all(map(_fits, value))
    return not isinstance(value, int) or -(2**63) <= value < 2**64


broken = st.one_of(
    st.binary(max_size=200),
    values.map(_written),
    st.tuples(values.map(_written), st.integers(0, 50)).map(lambda pair: pair[0][: pair[1]]),
)


def _state(client, name):
    """Return the description and the export of a collection, and the names of all collections."""
    listed = {each["name"]: each for each in client.get("/collections").json["collections"]}
    return listed[name], client.get(f"/collections/{name}/export").get_data(), listed.keys()


def _fresh(client, name):
    """Make the collection with its one document, unless it is as an earlier example found it."""
    path = f"/collections/{name}"
    if client.get(path).json.get("revision") != 2:
        client.delete(path)
        assert client.post("/collections", json={"name": name}).status_code == 201
        assert client.post(f"{path}/documents", json={"documents": [DOCUMENT]}).status_code == 201


@pytest.mark.slow
@pytest.mark.parametrize("kind", REQUESTS)
@at_most(10)
@given(data=st.data())
def test_rubbish_in_a_body_is_refused_and_stores_nothing(client, collection, kind, data):
    method, path, valid = REQUESTS[kind]
    _fresh(client, collection)
    before = _state(client, collection)
    content = data.draw(near(valid).map(_written) | broken)
    answer = client.open(path.replace("NAME", collection), method=method, data=content, content_type="application/json")
    assert answer.status_code < 500, answer.json
    if kind == "create" and answer.status_code == 201:
        client.delete(f"/collections/{answer.json['name']}")
    if answer.status_code >= 400:
        assert _state(client, collection) == before


lines = st.lists(near(DOCUMENT).map(_written) | st.just(_written(DOCUMENT)) | broken, max_size=8).map(b"\n".join)


@pytest.mark.slow
@pytest.mark.parametrize("route", ["documents", "import"])
@at_most(10)
@given(content=lines)
def test_rubbish_in_a_stream_is_counted(client, collection, route, content):
    _fresh(client, collection)
    answer = client.post(f"/collections/{collection}/{route}", data=content, content_type="application/x-ndjson")
    assert answer.status_code in (200, 201, 202, 400), answer.json
    if answer.status_code == 400 and route == "documents":
        assert client.get(f"/collections/{collection}").json["revision"] == 2
    said = answer.json.get("details", answer.json)
    created = said.get("created", said.get("count", 0))
    assert client.get(f"/collections/{collection}").json["count"] <= 1 + created


@pytest.mark.parametrize("route", ["documents?where=", "documents/count?where=", "facets?fields=page&where="])
@at_most(10)
@given(where=near(WHERE).map(_written) | broken)
def test_rubbish_as_a_filter_is_refused(client, collection, route, where):
    _fresh(client, collection)
    path, _, argument = route.rpartition("?")
    names = dict(pair.split("=") for pair in argument.split("&"))
    query = {**names, "where": where.decode(errors="replace")}
    answer = client.get(f"/collections/{collection}/{path}", query_string=query)
    assert answer.status_code in (200, 400), answer.json
    if answer.status_code == 400:
        assert answer.json["details"]["field"].partition(".")[0] == "where"
