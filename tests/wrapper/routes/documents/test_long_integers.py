"""Every route that stores or compares numbers refuses integers beyond 64 bits."""

import pytest

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


def test_an_integer_within_64_bits_is_kept_exactly_and_found(client, name):
    assert client.get(f"/collections/{name}/documents/a").json["metadata"] == {"n": 2**64 - 1}
    for where, count in (({"n": 2**64 - 1}, 1), ({"n": 2**64 - 2}, 0), ({"n": {"$gt": 2**64 - 2}}, 1)):
        assert client.post(f"/collections/{name}/documents/search", json={"where": where}).json["count"] == count
