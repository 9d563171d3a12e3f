"""`/collections` creates, lists, describes, changes, empties and deletes collections."""

from unittest.mock import ANY

import pytest

from tests.support.live import eventually

NESTED = {"title": "Handbook", "stats": {"pages": 12, "parts": [1, {"a": None}]}, "tags": [], "none": None, "half": 0.5}


def test_a_new_collection_is_described_in_full(client, collection):
    answer = client.post("/collections", json={"name": collection})
    assert answer.status_code == 201
    told = {"id": ANY, "name": collection, "metadata": {}, "dimension": None, "metric": "cosine"}
    assert answer.json == told | {"status": "created", "revision": 1}


@pytest.mark.parametrize("metric", ["cosine", "l2", "ip"])
def test_the_engine_uses_the_collections_metric(client, chroma, filled, metric):
    name = filled(metric=metric)
    assert client.get(f"/collections/{name}").json["metric"] == metric
    assert chroma.get_collection(name, embedding_function=None).configuration["hnsw"]["space"] == metric


def test_metadata_comes_back_as_it_was_given_but_for_the_top_level_embedding_fields(client, collection):
    top = {"embedding_provider": "minilm", "embedding_model": {"any": "shape"}}
    given = {**NESTED, "embedding_provider": "loses", "embedding_model": "loses"}
    assert client.post("/collections", json={"name": collection, **top, "metadata": given}).status_code == 201
    assert client.get(f"/collections/{collection}").json["metadata"] == {**NESTED, **top}


@pytest.mark.parametrize(("key", "said"), [("hnsw:space", "'metric'"), ("hnsw:M", "own"), ("chroma:x", "own")])
def test_the_engines_own_keys_cannot_be_set(client, filled, unchanged, key, said):
    name = filled(metadata={"hnsw:space": "ip", "a": 1}, metric="ip")
    change = f"/{name}/metadata"
    for method, path in (("POST", ""), ("POST", "?get_or_create=1"), ("PUT", change), ("PATCH", change)):
        with unchanged(name):
            answer = client.open(f"/collections{path}", method=method, json={"name": name, "metadata": {key: "cosine"}})
        assert (answer.status_code, answer.json["details"]) == (400, {"field": "metadata", "path": key})
        assert said in answer.json["message"].partition(f"'{key}'")[2]
    assert client.get(f"/collections/{name}").json["metadata"] == {"a": 1}


@pytest.mark.parametrize("name", ["rag-wrapper-owner", "trial-7", "rebuild-7-None", "docs-replaced-0123abcd"])
def test_a_name_that_the_service_uses_in_the_engine_is_refused(client, chroma, name):
    answer = client.post("/collections", json={"name": name})
    assert answer.status_code == 400
    assert (answer.json["code"], answer.json["details"]) == ("invalid_name", {"field": "name"})
    assert client.get(f"/collections/{name}").status_code == 404
    assert name not in [each.name for each in chroma.list_collections()]


def test_collections_are_listed_by_pages_of_a_prefix(client, collection):
    names = sorted(f"{collection}{end}" for end in ("-b", "-C", ".a", "_1", "z9"))
    for name in [*names, f"A{collection}"]:
        client.post("/collections", json={"name": name})
    found, cursor = [], {}
    while cursor is not None:
        asked = {"prefix": collection, "limit": 2, **cursor}
        answer = client.get("/collections", query_string=asked).json
        found.append([each["name"] for each in answer["collections"]])
        cursor = {"cursor": answer["next_cursor"]} if answer["next_cursor"] else None
        # Deleting collections that were already read does not change the pages that follow.
        client.delete(f"/collections/{names[0]}")
    assert found == [names[:2], names[2:4], names[4:]]
    assert client.get(f"/collections?prefix={collection}~").status_code == 400
    for limit in (1000, 1001, 10**12):  # a page has at most a thousand
        answer = client.get("/collections", query_string={"prefix": names[4], "limit": limit}).json
        assert ([each["name"] for each in answer["collections"]], answer["next_cursor"]) == ([names[4]], None), limit


def test_without_a_limit_all_collections_of_a_prefix_are_listed_by_name_with_their_counts(client, collection):
    names = [f"{collection}-{end}" for end in ("b", "C", "a", "10", "9")]
    for number, name in enumerate(names):
        client.post("/collections", json={"name": name, "metadata": {"number": number}})
    client.post(f"/collections/{names[0]}/documents", json={"documents": [{"text": "x", "embedding": [1.0, 2.0]}]})
    answer = client.get(f"/collections?prefix={collection}").json
    assert answer.keys() == {"collections"}
    assert [each["name"] for each in answer["collections"]] == sorted(names)
    told = {"id": ANY, "name": names[0], "count": 1, "metadata": {"number": 0}, "dimension": 2, "metric": "cosine"}
    assert told | {"revision": 2} in answer["collections"]


@pytest.mark.parametrize("way", ["put", "patch"])
def test_merging_is_a_merge_patch(client, filled, way):
    name = filled(metadata={"old": 1, "both": 1, "deep": {"a": 1, "b": {"c": 2}}, "list": [1, 2]})
    url = f"/collections/{name}/metadata" + ("?merge=true" if way == "put" else "")
    patch = {"both": 2, "old": None, "deep": {"b": {"c": None, "d": 3}}, "list": [3], "never there": None}
    answer = client.open(url, method=way.upper(), json={"metadata": patch})
    assert answer.json["merge"] is True
    expected = {"both": 2, "deep": {"a": 1, "b": {"d": 3}}, "list": [3]}
    assert answer.json["metadata"] == expected
    assert client.get(f"/collections/{name}").json["metadata"] == expected


def test_metadata_is_bounded_in_depth_and_by_what_the_engine_takes_with_each_write(
    client, collection, filled, unchanged
):
    half, deep = "x" * 40_000, {}
    for _ in range(40):
        deep = {"a": deep}
    assert client.post("/collections", json={"name": collection, "metadata": {"a": half, "b": half}}).status_code == 400
    name = filled(metadata={"a": half})
    with unchanged(name):
        for method, metadata, limit in (
            ("PUT", {"a": half, "b": half}, 65_536),
            ("PATCH", {"b": half}, 65_536),
            ("PUT", deep, 32),
            ("PATCH", deep, 32),
        ):
            answer = client.open(f"/collections/{name}/metadata", method=method, json={"metadata": metadata})
            assert (answer.status_code, answer.json["code"]) == (400, "invalid_metadata")
            assert answer.json["details"] == {"field": "metadata", "limit": limit}


def test_a_deleted_collection_is_gone_and_its_name_is_free(client, chroma, filled):
    name = filled([{"id": "a", "text": "x", "embedding": [1.0, 2.0]}])
    answer = client.delete(f"/collections/{name}")
    assert (answer.status_code, answer.json) == (200, {"status": "deleted", "name": name})
    assert client.get(f"/collections/{name}").status_code == 404
    assert client.delete(f"/collections/{name}").status_code == 404
    assert name not in [each.name for each in chroma.list_collections()]
    assert filled([{"id": "a", "text": "x", "embedding": [1.0, 2.0, 3.0]}], metric="l2") == name
    assert client.get(f"/collections/{name}").json["count"] == 1


def test_a_list_includes_what_is_known_of_the_indexes(client, filled):
    name = filled([{"id": "a", "text": "é", "metadata": {}, "embedding": [1.0, 0.0]}])

    def told_alike():
        """A moment after the write more is known of the index than before."""
        [listed] = client.get(f"/collections?prefix={name}&include=index").json["collections"]
        return listed if listed["index"] == client.get(f"/collections/{name}/index").json else None

    found = eventually(told_alike)
    assert found["index"]["stored_bytes"] == len("é".encode()) + len("{}") + 2 * 4
    assert "index" not in client.get(f"/collections?prefix={name}").json["collections"][0]
