"""Every collection has a revision: `ETag` and `If-None-Match` on reads, `If-Match` on writes, `revision` in bodies."""

import uuid

import pytest

from tests.wrapper.routes.conftest import TWO_DOCUMENTS, WRITES_TO_TWO
from wrapper.web import line_streams

READS = [
    "",
    "/documents",
    '/documents?where={"page":1}&limit=1',
    "/documents/count",
    "/documents/a",
    "/metadata-values?field=page",
    "/facets?fields=page",
    "/projection?field=page",
]
WHICH_KEEP_IT = {
    "merge by put": ("PUT", "/metadata?merge=true", {"metadata": {"language": "en"}}),
    **{name: write for name, write in WRITES_TO_TWO.items() if write[1]},
}


@pytest.fixture
def etag(client):
    def etag(name):
        return client.get(f"/collections/{name}").headers["ETag"]

    return etag


@pytest.mark.parametrize("read", READS)
def test_a_read_is_304_until_something_is_written(client, filled, read):
    name = filled(TWO_DOCUMENTS)
    first = client.get(f"/collections/{name}{read}")
    known = {"If-None-Match": first.headers["ETag"]}
    again = client.get(f"/collections/{name}{read}", headers=known)
    assert (again.status_code, again.data, again.headers["ETag"]) == (304, b"", first.headers["ETag"])
    client.patch(f"/collections/{name}/documents/b", json={"text": "new"})
    changed = client.get(f"/collections/{name}{read}", headers=known)
    assert changed.status_code == 200
    assert changed.headers["ETag"] != first.headers["ETag"]


@pytest.mark.parametrize("tag", ["W/{}", '"other", {}', "*"])
def test_weak_several_and_any_tags_are_understood(client, filled, etag, tag):
    name = filled(TWO_DOCUMENTS)
    answer = client.get(f"/collections/{name}/documents", headers={"If-None-Match": tag.format(etag(name))})
    assert answer.status_code == 304


def test_a_later_collection_of_the_same_name_has_other_tags(client, filled, etag):
    name = filled(TWO_DOCUMENTS)
    before, known = etag(name), client.get(f"/collections/{name}").json
    client.delete(f"/collections/{name}")
    filled(TWO_DOCUMENTS)
    later = client.get(f"/collections/{name}", headers={"If-None-Match": before})
    assert (later.status_code, later.json) == (200, known | {"id": later.json["id"]})
    assert later.json["id"] != known["id"]
    body = {"documents": [{"id": "a", "text": "for the collection before", "embedding": [1, 0]}]}
    assert client.post(f"/collections/{name}/documents", json=body, headers={"If-Match": before}).status_code == 412


def test_a_collections_id_stays_and_is_in_each_of_its_descriptions(client, collection):
    made = client.post("/collections", json={"name": collection}).json["id"]
    assert uuid.UUID(made)
    client.put(f"/collections/{collection}/metadata", json={"metadata": {"language": "en"}})
    listed = {each["name"]: each["id"] for each in client.get("/collections").json["collections"]}
    through = client.get("/api/connections/local/collections").json["collections"]
    described = client.get(f"/collections/{collection}").json["id"]
    assert {made} == {listed[collection], described, *(each["id"] for each in through if each["name"] == collection)}


@pytest.mark.parametrize(("method", "route", "body"), WHICH_KEEP_IT.values(), ids=WHICH_KEEP_IT)
def test_each_write_of_what_is_as_expected_raises_the_revision_by_one(client, filled, etag, method, route, body):
    name = filled(TWO_DOCUMENTS)
    headers = {"If-Match": f'"older", {etag(name)}'}
    answer = client.open(f"/collections/{name}{route}", method=method, json=body, headers=headers)
    assert answer.status_code in (200, 201)
    assert client.get(f"/collections/{name}").json["revision"] == 3
    assert answer.headers["ETag"] == etag(name)
    assert answer.json.get("revision", 3) == 3


@pytest.mark.parametrize(("method", "route", "body"), WRITES_TO_TWO.values(), ids=WRITES_TO_TWO)
def test_a_write_is_refused_when_the_collection_has_changed(client, filled, unchanged, method, route, body):
    name = filled(TWO_DOCUMENTS)
    client.patch(f"/collections/{name}/documents/b", json={"text": "somebody else's"})
    for expected in ('"1.1"', '"nothing"', "nothing", '""', '"any", ""'):
        with unchanged(name):
            answer = client.open(
                f"/collections/{name}{route}", method=method, json=body, headers={"If-Match": expected}
            )
        assert answer.status_code == 412, expected
        assert (answer.json["code"], answer.json["details"]) == ("precondition_failed", {"revision": 3})


@pytest.mark.parametrize(
    ("expected", "status", "code"),
    [
        ("*", 200, None),
        ("W/{}", 412, "precondition_failed"),
        ("2", 400, "invalid_if_match"),
        ('"2"', 400, "invalid_if_match"),
        ('"other", "2"', 400, "invalid_if_match"),
    ],
    ids=["any", "a weak tag", "a number", "a revision without its collection", "such a one among others"],
)
def test_a_write_wants_a_strong_tag_or_a_star(client, filled, etag, expected, status, code):
    name = filled(TWO_DOCUMENTS)
    headers = {"If-Match": expected.format(etag(name))}
    answer = client.put(f"/collections/{name}/metadata", json={"metadata": {"language": "en"}}, headers=headers)
    assert (answer.status_code, answer.json.get("code")) == (status, code)
    assert code != "invalid_if_match" or answer.json["details"] == {"field": "If-Match"}
    assert client.get(f"/collections/{name}").json["revision"] == (3 if status == 200 else 2)


def test_a_stream_obeys_if_match(client, filled, etag, unchanged, monkeypatch):
    monkeypatch.setattr(line_streams, "LINES_PER_TRANSACTION", 10)
    name = filled(TWO_DOCUMENTS)
    lines = "\n".join(f'{{"id": "c{number}", "text": "three", "embedding": [0.5, 0.5]}}' for number in range(25))

    def send(route, expected):
        how = {"content_type": "application/x-ndjson", "headers": {"If-Match": expected}}
        return client.post(f"/collections/{name}/{route}", data=lines, **how)

    for route, status in (("documents", 201), ("import", 200)):
        with unchanged(name):
            assert send(route, '"other"').status_code == 412
        stored = send(route, etag(name))
        assert (stored.status_code, stored.json["count"]) == (status, 25)


def test_answers_to_posted_reads_carry_the_revision_too(client, filled, etag):
    name = filled(TWO_DOCUMENTS)
    for route, body in {
        "query": {"query_embedding": [1, 0]},
        "documents/search": {},
        "gather": {"ids": ["a"], "by": "page"},
        "text-search": {"query": "one"},
    }.items():
        answer = client.post(f"/collections/{name}/{route}", json=body)
        assert (answer.json["revision"], answer.headers["ETag"]) == (2, etag(name)), route
        missing = client.post(f"/collections/nobody/{route}", json=body)
        assert (missing.status_code, missing.json["code"]) == (404, "collection_not_found"), route
