"""Numbers that are refused at the door: integers beyond 64 bits, which cannot be compared exactly, and in a cosine collection
vectors without a direction."""

import pytest


def _document(number, embedding=(1.0, 0.5)):
    return {"id": f"d{number}", "text": f"text {number}", "metadata": {}, "embedding": list(embedding)}


@pytest.fixture
def restored(client, filled):
    """A collection with a zero vector, as an earlier release accepted it: restored from an export."""
    name = filled()
    lines = b"".join(
        b'{"id":"d%d","text":"text %d","metadata":{},"embedding":"%s"}\n' % (number, number, embedding)
        for number, embedding in enumerate((b"AACAPwAAAAA=", b"AAAAAAAAAAA="))
    )
    answer = client.post(f"/collections/{name}/import", data=lines, content_type="application/x-ndjson")
    assert (answer.status_code, answer.json["created"]) == (200, 2)
    return name, lines


@pytest.mark.parametrize("zero", [[0.0, 0.0], [-0.0, 0], [1e-60, 0.0], "AAAAAAAAAAA="])
def test_a_zero_vector_is_refused_its_place_is_named_and_nothing_is_done(client, filled, unchanged, zero):
    name = filled([_document(0)])
    documents = [_document(1), {**_document(2), "embedding": zero}, _document(3)]
    for method, path, body, where in (
        ("POST", "documents", {"documents": documents}, {"field": "embedding", "index": 1}),
        ("PATCH", "documents/d0", {"embedding": zero, "text": "x"}, {"field": "embedding"}),
        ("POST", "query", {"query_embedding": zero}, {"field": "query_embedding"}),
    ):
        with unchanged(name):
            answer = client.open(f"/collections/{name}/{path}", method=method, json=body)
        assert (answer.status_code, answer.json["code"], answer.json["details"]) == (400, "zero_vector", where), path
        assert "zero vector" in answer.json["message"]


@pytest.mark.parametrize("metric", ["l2", "ip"])
def test_other_metrics_accept_zero_vectors_and_questions(client, filled, metric):
    name = filled([_document(0), _document(1, (0.0, 0.0))], metric=metric)
    url = f"/collections/{name}"
    assert client.patch(f"{url}/documents/d0", json={"embedding": [0.0, 0.0]}).status_code == 200
    answer = client.post(f"{url}/query", json={"query_embedding": [0.0, 0.0]})
    assert (answer.status_code, len(answer.json["results"])) == (200, 2)


def test_a_vector_however_short_has_a_direction(client, filled):
    name = filled([_document(0, (1e-40, 0.0)), _document(1, (0.0, 1.0))])
    assert client.get(f"/collections/{name}").json["count"] == 2


def test_stored_zero_vectors_are_served_changed_and_exported(client, restored):
    name, lines = restored
    answer = client.post(f"/collections/{name}/query", json={"query_embedding": [1, 0], "top_k": 9})
    assert [(each["id"], each["distance"]) for each in answer.json["results"]] == [("d0", 0.0), ("d1", 1.0)]
    assert client.get(f"/collections/{name}/export").get_data() == lines
    changed = client.patch(f"/collections/{name}/documents/d1", json={"text": "changed"})
    assert (changed.status_code, changed.json["text"]) == (200, "changed")


LONG = "1" + "0" * 30
JSON = {"Content-Type": "application/json"}
DOCUMENT = '{"id": "a", "text": "x", "embedding": [1, 0], "metadata": {"n": %s}}'


@pytest.fixture
def name(filled):
    return filled([{"id": "a", "text": "x", "embedding": [1, 0], "metadata": {"n": 2**64 - 1}}])


@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("POST", "/documents", f'{{"documents": [{DOCUMENT}]}}', "metadata.n"),
        ("PATCH", "/documents/a", '{"metadata": {"n": %s}}', "metadata.n"),
        ("PUT", "/metadata", '{"metadata": {"n": %s}}', "metadata.n"),
        ("PATCH", "/metadata", '{"metadata": {"a": {"n": %s}}}', "metadata.a.n"),
        ("POST", "/documents/search", '{"where": {"n": %s}}', "where.n"),
        ("POST", "/documents/search", '{"limit": %s}', "limit"),
        ("DELETE", "/documents", '{"where": {"n": {"$lt": %s}}}', "where.n.$lt"),
        ("POST", "/query", '{"query_embedding": [1, 0], "where": {"n": {"$in": [1, %s]}}}', "where.n.$in.1"),
        ("POST", "/text-search", '{"query": "x", "top_k": %s}', "top_k"),
    ],
)
def test_a_long_integer_is_refused_by_name_and_nothing_is_done(client, name, unchanged, method, path, body, field):
    with unchanged(name):
        answer = client.open(f"/collections/{name}{path}", method=method, data=body % LONG, headers=JSON)
        assert (answer.status_code, answer.json["code"]) == (400, "integer_too_large")
        assert answer.json["details"]["field"] == field


def test_lines_of_a_stream_and_of_an_import_name_the_long_integer(client, name, unchanged):
    line = DOCUMENT % LONG
    headers = {"Content-Type": "application/x-ndjson"}
    with unchanged(name):
        stream = client.post(f"/collections/{name}/documents", data=line, headers=headers)
        assert (stream.status_code, stream.json["details"]["errors"][0]["code"]) == (400, "integer_too_large")
        imported = client.post(f"/collections/{name}/import", data=line, headers=headers)
        assert (imported.status_code, imported.json["code"]) == (400, "integer_too_large")
