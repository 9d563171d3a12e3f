"""What the collections of a key may hold: documents and bytes."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.wrapper.access.conftest import BOOTSTRAP

ADMIN = {"X-API-Key": BOOTSTRAP}


@pytest.fixture(autouse=True)
def collections(service):
    """Three empty collections, which go with the test."""
    names = ("team-a", "team-b", "other")
    for name in names:
        assert service.client().post("/collections", headers=ADMIN, json={"name": name}).status_code == 201
    yield
    for name in names:
        assert service.client().delete(f"/collections/{name}", headers=ADMIN).status_code == 200


def document(document_id, text="text", **metadata):
    return {"id": str(document_id), "text": text, "metadata": metadata, "embedding": [1.0, 2.0]}


def add(service, key, name, *documents, **conditions):
    body = {"documents": list(documents)}
    return service.client().post(f"/collections/{name}/documents", headers=key, json=body, query_string=conditions)


def count(service, name):
    return service.client().get(f"/collections/{name}", headers=ADMIN).json["count"]


def test_a_write_beyond_the_documents_is_refused_whole(service):
    key = service.key("write", collections=("team-*",), documents=3)
    assert add(service, key, "team-a", document(1), document(2)).status_code == 202
    refused = add(service, key, "team-b", document(1), document(2))
    assert (refused.status_code, refused.json["code"]) == (507, "quota_exceeded")
    assert refused.json["details"] == {"limit": "documents", "allowed": 3, "held": 2, "left": 1, "added": 2}
    assert "room for 1 more" in refused.json["message"]
    assert "Retry-After" not in refused.headers
    assert count(service, "team-b") == 0
    assert add(service, key, "team-b", document(1)).status_code == 202


def test_what_others_store_counts_in_the_keys_collections_and_in_no_others(service):
    add(service, ADMIN, "other", *map(document, range(10)))
    key = service.key("write", collections=("team-*",), documents=1)
    assert add(service, key, "team-a", document(1)).status_code == 202
    assert add(service, service.key("write", documents=1), "team-b", document(1)).status_code == 507
    key = service.key("write", collections=("team-a",), documents=2)
    add(service, ADMIN, "team-a", document(2), document(3))
    assert add(service, key, "team-a", document(4)).status_code == 507
    assert add(service, ADMIN, "team-a", document(4)).status_code == 202


def test_bytes_are_those_of_text_metadata_and_vector(service):
    size = len("Grüße".encode()) + len(b'{"team":"a"}') + 2 * 4
    key = service.key("write", collections=("team-a",), bytes=2 * size)
    assert add(service, key, "team-a", document(1, "Grüße", team="a")).status_code == 202
    refused = add(service, key, "team-a", document(2, "Grüße!", team="a"))
    assert refused.status_code == 507
    told = {"limit": "bytes", "allowed": 2 * size, "held": size, "left": size, "added": size + 1}
    assert refused.json["details"] == told
    assert add(service, key, "team-a", document(2, "Grüße", team="a")).status_code == 202


def test_a_patch_counts_the_difference(service):
    key = service.key("write", collections=("team-a",), bytes=40)
    add(service, key, "team-a", document(1, "a" * 20))
    path = "/collections/team-a/documents/1"
    assert service.client().patch(path, headers=key, json={"text": "b" * 31}).status_code == 507
    assert service.client().patch(path, headers=key, json={"text": "b" * 30}).status_code == 202
    assert service.client().get(path, headers=key).json["text"] == "b" * 30
    assert service.client().patch(path, headers=key, json={"text": "b"}).status_code == 202


def test_at_a_limit_and_above_one_that_was_lowered_what_is_there_is_replaced_deleted_and_made_smaller(service):
    key = service.key("write", collections=("team-b",), documents=2)
    add(service, key, "team-b", document(1), document(2))
    assert add(service, key, "team-b", document(1, "another text"), document(2)).status_code == 202
    answer = service.client().delete("/collections/team-b/documents", headers=key, json={"ids": ["1"]})
    assert answer.status_code == 202
    assert add(service, key, "team-b", document(3)).status_code == 202
    add(service, ADMIN, "team-a", *(document(number, "a" * 100) for number in range(3)))
    key = service.key("write", collections=("team-a",), documents=1, bytes=10)
    assert add(service, key, "team-a", document(1, "a" * 50)).status_code == 202
    assert add(service, key, "team-a", document(1, "a" * 60)).status_code == 507


def test_writers_at_the_same_time_never_exceed_it(service):
    key = service.key("write", collections=("team-*",), documents=20)

    def write(number):
        name = "team-a" if number % 2 else "team-b"
        return add(service, key, name, *(document(f"{number}-{each}") for each in range(3))).status_code

    with ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(write, range(16)))
    assert sorted(set(statuses)) == [202, 507]
    assert count(service, "team-a") + count(service, "team-b") == 18


def test_a_stream_is_refused_where_it_goes_beyond(service):
    key = service.key("manage", collections=("team-a",), documents=0)
    lines = '{"id":"1","text":"a","metadata":{},"embedding":[1.0,2.0]}\n'
    headers = key | {"Content-Type": "application/x-ndjson"}
    answer = service.plain_client().post("/collections/team-a/import", headers=headers, data=lines)
    assert (answer.status_code, answer.json["code"]) == (507, "quota_exceeded")
    assert count(service, "team-a") == 0
