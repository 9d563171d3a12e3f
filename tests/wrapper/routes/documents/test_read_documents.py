"""`GET documents`, `POST documents/search`, `GET documents/{id}` and `GET documents/count` read documents, by pages with
limits, offsets, orders and cursors."""

import base64
import json
from itertools import pairwise
from urllib.parse import quote

import pytest

from tests.wrapper.routes.conftest import numbered_document


def _ids(answer):
    return [document["id"] for document in answer["documents"]]


def test_a_page_has_its_counts_and_bounds(page, filled):
    name = filled([numbered_document(number, even=number % 2 == 0) for number in range(10)])
    answer = page(name, where={"even": True}, limit=2).json
    assert set(answer) == {"documents", "count", "total", "next_cursor", "revision"}
    assert (answer["count"], answer["total"], answer["revision"]) == (2, 5, 2)
    assert answer["documents"][0] == {"id": "doc-0", "text": "text 0", "metadata": {"even": True}}
    assert isinstance(answer["next_cursor"], str)


def test_include_embedding_adds_vectors(page, client, filled):
    name = filled([numbered_document(0), numbered_document(1)])
    for include in ("embedding", "text,metadata,embedding"):
        documents = page(name, include=include).json["documents"]
        assert [each["embedding"] for each in documents] == [[1.0, 0.0], [1.0, 1.0]]
    assert "embedding" not in page(name, include="text").json["documents"][0]
    one = client.get(f"/collections/{name}/documents/doc-1?include=embedding").json
    assert one == {"id": "doc-1", "text": "text 1", "metadata": {}, "embedding": [1.0, 1.0]}
    by_ids = client.post(
        f"/collections/{name}/documents/search", json={"ids": ["doc-1"], "include": ["embedding"]}
    ).json
    assert by_ids["documents"] == [one]


def test_search_by_ids_answers_in_their_order(client, filled):
    name = filled([numbered_document(number, even=number % 2 == 0) for number in range(5)])
    url = f"/collections/{name}/documents/search"
    answer = client.post(url, json={"ids": ["doc-4", "nobody", "doc-0", "doc-1", "doc-4"]}).json
    assert _ids(answer) == ["doc-4", "doc-0", "doc-1"]
    assert (answer["count"], answer["total"], answer["next_cursor"]) == (3, 3, None)
    assert _ids(client.post(url, json={"ids": ["doc-4", "doc-1"], "where": {"even": True}}).json) == ["doc-4"]
    assert _ids(client.post(url, json={"ids": []}).json) == []


def test_search_takes_more_ids_than_a_page_holds(client, filled):
    name = filled([numbered_document(number) for number in range(1_100)])
    ids = [f"doc-{number}" for number in range(1_100)]
    answer = client.post(f"/collections/{name}/documents/search", json={"ids": ids})
    assert answer.status_code == 200
    assert (answer.json["count"], answer.json["total"]) == (1_000, 1_100)
    rest = client.post(f"/collections/{name}/documents/search", json={"ids": ids, "offset": 1_000})
    assert _ids(rest.json) == ids[1_000:]


def test_a_filter_of_almost_32_kilobytes_is_read_in_the_request_line_and_a_longer_one_by_search(client, filled):
    name = filled([numbered_document(number, n=number) for number in range(3)])
    short = quote(json.dumps({"n": {"$in": [1, "y" * 32_000]}}))
    assert client.get(f"/collections/{name}/documents?where={short}").json["total"] == 1
    where = {"n": {"$in": list(range(10_000))}}
    refused = client.get(f"/collections/{name}/documents?where={quote(json.dumps(where))}")
    assert refused.status_code == 414
    assert "documents/search" in refused.json["message"]
    assert client.post(f"/collections/{name}/documents/search", json={"where": where}).json["total"] == 3


@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
def test_a_missing_document_is_not_found(client, filled, unchanged, method):
    name = filled()
    with unchanged(name):
        body = {"text": "new"} if method == "PATCH" else None
        answer = client.open(f"/collections/{name}/documents/nobody", method=method, json=body)
    assert answer.status_code == 404
    assert answer.json["message"] == f"Document 'nobody' not found in collection '{name}'"
    assert (answer.json["code"], answer.json["details"]) == ("document_not_found", {"collection": name, "id": "nobody"})


@pytest.mark.parametrize(
    "document_id", ["a/b", "a//b", "/", "ä ö", "?x=1&y", "#", "%2F", "..", "counts", "a/search", "count/"]
)
def test_any_id_is_reached_by_its_encoded_path(client, filled, document_id):
    name = filled([{**numbered_document(0), "id": document_id}])
    path = f"/collections/{name}/documents/{quote(document_id, safe='')}"
    assert client.get(path).json["id"] == document_id
    assert client.patch(path, json={"text": "new"}).json == {"id": document_id, "text": "new", "metadata": {}}


def test_the_default_order_is_that_of_insertion_and_survives_replacement(page, client, filled):
    name = filled([numbered_document(number) for number in (3, 1, 2)])
    changed = [{**numbered_document(1), "text": "new"}, numbered_document(0)]
    client.post(f"/collections/{name}/documents", json={"documents": changed})
    assert _ids(page(name).json) == ["doc-3", "doc-1", "doc-2", "doc-0"]


def _content(cursor):
    return base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))


def test_a_cursor_that_was_changed_is_refused(page, filled):
    name = filled([numbered_document(number) for number in range(3)])
    content = _content(page(name, limit=1).json["next_cursor"])
    for place in range(len(content)):
        changed = content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
        cursor = base64.urlsafe_b64encode(changed).decode().rstrip("=")
        answer = page(name, cursor=cursor)
        assert (answer.status_code, answer.json["code"]) == (400, "invalid_cursor")


def test_a_cursor_does_not_tell_how_many_documents_come_before(client, filled):
    """Some of them may be hidden from its reader."""
    url = f"/collections/{filled([numbered_document(number) for number in range(120)])}/documents"
    cursors = [client.get(f"{url}?limit=1&offset={offset}").json["next_cursor"] for offset in range(118)]
    assert {len(each) for each in cursors} == {len(cursors[0])}
    for nearby in pairwise(cursors):
        same = sum(one == other for one, other in zip(*map(_content, nearby), strict=True))
        assert same < 10, "the contents of neighbours look alike"


def test_a_cursor_excludes_an_offset(page, filled):
    name = filled([numbered_document(number) for number in range(3)])
    cursor = page(name, limit=1).json["next_cursor"]
    answer = page(name, cursor=cursor, offset=1)
    assert (answer.status_code, answer.json["details"]["field"]) == (400, "cursor")
