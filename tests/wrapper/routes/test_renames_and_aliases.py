"""A collection is renamed, copied and given aliases: its documents, its id and its index stay with it."""

import uuid

import pytest

DOCUMENTS = [
    {"id": "a", "text": "first", "metadata": {"group": 1}, "embedding": [1.0, 0.0]},
    {"id": "b", "text": "second", "metadata": {"group": 2}, "embedding": [0.0, 1.0]},
]


@pytest.fixture
def spare():
    """`spare()` returns a name that no collection has."""
    return lambda: f"spare-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def filled(client, spare):
    """`filled(documents, **body)` makes a collection of these documents and returns its name; it may make several."""

    def fill(documents=(), **body):
        name = spare()
        assert client.post("/collections", json={"name": name, **body}).status_code == 201
        if documents:
            added = client.post(f"/collections/{name}/documents", json={"documents": list(documents)})
            assert added.status_code == 201
        return name

    return fill


@pytest.fixture
def docs(filled):
    return filled(DOCUMENTS)


def near(client, name):
    answer = client.post(f"/collections/{name}/query", json={"query_embedding": [1.0, 0.0], "top_k": 2})
    return answer.status_code, [each["id"] for each in answer.json.get("results", ())]


class TestRename:
    def test_everything_but_the_name_stays(self, client, docs, spare):
        before, new = client.get(f"/collections/{docs}").json, spare()
        answer = client.patch(f"/collections/{docs}", json={"name": new})
        assert answer.status_code == 200
        assert (answer.json["name"], answer.json["previous_name"]) == (new, docs)
        assert client.get(f"/collections/{docs}").status_code == 404
        assert client.get(f"/collections/{new}").json == {**before, "name": new, "revision": before["revision"] + 1}
        assert near(client, new) == (200, ["a", "b"])

    def test_the_old_name_is_free_for_another_collection(self, client, docs, spare):
        new = spare()
        client.patch(f"/collections/{docs}", json={"name": new})
        other = [{"id": "z", "text": "other", "embedding": [1.0, 0.0, 0.0]}]
        assert client.post("/collections", json={"name": docs}).status_code == 201
        assert client.post(f"/collections/{docs}/documents", json={"documents": other}).json["indexed"] is True
        assert client.delete(f"/collections/{new}").status_code == 200
        assert client.get(f"/collections/{docs}").json["count"] == 1
        asked = client.post(f"/collections/{docs}/query", json={"query_embedding": [1.0, 0.0, 0.0]})
        assert [each["id"] for each in asked.json["results"]] == ["z"]

    def test_another_name_of_which_nothing_can_come_changes_nothing(self, client, docs, spare):
        before = client.get(f"/collections/{docs}").json
        for name in ("x", "a..b", 7, None, "1.2.3.4"):
            answer = client.patch(f"/collections/{docs}", json={"name": name})
            assert (answer.status_code, answer.json["details"]["field"]) == (400, "name"), name
        other_state = client.patch(f"/collections/{docs}", json={"name": spare()}, headers={"If-Match": '"x.1"'})
        assert other_state.status_code == 412
        missing = spare()
        for answer in (
            client.post(f"/collections/{missing}/copy", json={"name": spare()}),
            client.put(f"/aliases/{spare()}", json={"collection": missing}),
        ):
            assert (answer.status_code, answer.json["details"]["collection"]) == (404, missing)
        assert client.patch(f"/collections/{docs}", json={"name": docs}).json["revision"] == before["revision"]


class TestCopy:
    def test_a_copy_is_a_collection_of_its_own(self, client, filled, spare):
        source, new = filled(DOCUMENTS, metadata={"language": "en"}, metric="l2"), spare()
        key = {"Idempotency-Key": uuid.uuid4().hex}
        answer = client.post(f"/collections/{source}/copy", json={"name": new}, headers=key)
        assert answer.status_code == 201
        told = {"copy_of": source, "count": 2, "metadata": {"language": "en"}, "dimension": 2, "metric": "l2"}
        assert answer.json | told == answer.json
        again = client.post(f"/collections/{source}/copy", json={"name": new}, headers=key)
        assert (again.status_code, again.headers["Idempotent-Replayed"], again.json) == (201, "true", answer.json)
        assert answer.json["id"] != client.get(f"/collections/{source}").json["id"]
        client.delete(f"/collections/{source}/documents/all")
        page = client.get(f"/collections/{new}/documents", query_string={"include": "embedding"}).json
        assert page["documents"] == DOCUMENTS
        assert near(client, new) == (200, ["a", "b"])

    def test_a_name_that_is_taken_names_no_copy_nor_another_collection_and_leaves_nothing(self, client, filled):
        one, two = filled(DOCUMENTS), filled()
        names = [each["name"] for each in client.get("/collections").json["collections"]]
        for method, path in (("POST", f"/collections/{one}/copy"), ("PATCH", f"/collections/{one}")):
            answer = client.open(path, method=method, json={"name": two})
            assert (answer.status_code, answer.json["code"]) == (409, "collection_exists"), method
        assert [each["name"] for each in client.get("/collections").json["collections"]] == names
        assert near(client, one) == (200, ["a", "b"])


class TestAliases:
    def test_an_alias_stands_for_the_collection_everywhere(self, client, docs, spare):
        alias = spare()
        answer = client.put(f"/aliases/{alias}", json={"collection": docs})
        assert answer.json == {"status": "created", "alias": alias, "collection": docs, "previous": None}
        assert near(client, alias) == (200, ["a", "b"])
        assert client.get(f"/collections/{alias}").json == {**client.get(f"/collections/{docs}").json, "name": alias}
        assert client.get(f"/collections/{alias}/documents/a").json["text"] == "first"
        added = {"documents": [{"id": "c", "text": "third", "embedding": [1.0, 1.0]}]}
        assert client.post(f"/collections/{alias}/documents", json=added).json["collection"] == alias
        assert client.get(f"/collections/{docs}/documents/c").json["text"] == "third"
        found = client.post("/api/search", json={"query": "third", "oracles": ["lexical"], "collections": [alias]})
        assert [(each["collection"], each["doc_id"]) for each in found.json["results"]] == [(alias, "c")]
        assert alias not in [each["name"] for each in client.get("/collections").json["collections"]]

    def test_it_is_switched_in_one_step(self, client, filled, spare):
        one, two, alias = filled(DOCUMENTS[:1]), filled(DOCUMENTS[1:]), spare()
        client.put(f"/aliases/{alias}", json={"collection": one})
        answer = client.put(f"/aliases/{alias}", json={"collection": two})
        assert (answer.json["status"], answer.json["previous"]) == ("switched", one)
        assert near(client, alias) == (200, ["b"])

    def test_it_stays_with_a_renamed_collection_and_goes_with_a_deleted_one(self, client, docs, spare):
        alias, new = spare(), spare()
        client.put(f"/aliases/{alias}", json={"collection": docs})
        client.patch(f"/collections/{docs}", json={"name": new})
        assert client.get(f"/aliases/{alias}").json == {"alias": alias, "collection": new}
        client.delete(f"/collections/{new}")
        answer = client.get(f"/aliases/{alias}")
        assert (answer.status_code, answer.json["code"]) == (404, "alias_not_found")

    @pytest.mark.parametrize("act", ["rename", "delete"])
    def test_only_its_own_name_renames_and_deletes_a_collection(self, client, docs, spare, act):
        alias = spare()
        client.put(f"/aliases/{alias}", json={"collection": docs})
        path = f"/collections/{alias}"
        answer = client.delete(path) if act == "delete" else client.patch(path, json={"name": spare()})
        assert (answer.status_code, answer.json["code"]) == (409, "named_by_alias")
        assert answer.json["details"]["collection"] == docs
        assert near(client, docs) == (200, ["a", "b"])

    def test_names_are_taken_by_either(self, client, docs, spare):
        alias = spare()
        assert client.put(f"/aliases/{docs}", json={"collection": docs}).json["code"] == "collection_exists"
        client.put(f"/aliases/{alias}", json={"collection": docs})
        for answer in (
            client.post("/collections", json={"name": alias}),
            client.patch(f"/collections/{docs}", json={"name": alias}),
            client.post(f"/collections/{docs}/copy", json={"name": alias}),
        ):
            assert (answer.status_code, answer.json["code"]) == (409, "alias_exists")

    def test_they_are_listed_and_removed(self, client, filled, spare):
        one, two, first, second = filled(), filled(), *sorted((spare(), spare()))
        client.put(f"/aliases/{second}", json={"collection": two})
        client.put(f"/aliases/{first}", json={"collection": one})
        listed = client.get("/aliases").json["aliases"]
        assert [each for each in listed if each["alias"] in (first, second)] == [
            {"alias": first, "collection": one},
            {"alias": second, "collection": two},
        ]
        of_one = client.get("/aliases", query_string={"collection": one}).json["aliases"]
        assert of_one == [{"alias": first, "collection": one}]
        assert client.delete(f"/aliases/{first}").json == {"status": "deleted", "alias": first, "collection": one}
        assert client.delete(f"/aliases/{first}").status_code == 404
        assert client.get(f"/collections/{one}").status_code == 200


class TestGetOrCreate:
    def test_what_is_there_is_answered_as_it_is(self, client, filled):
        name = filled(DOCUMENTS, metadata={"a": 1}, metric="l2")
        asked = {"name": name, "metadata": {"b": 2}, "metric": "cosine"}
        answer = client.post("/collections?get_or_create=true", json=asked)
        there = client.get(f"/collections/{name}").json
        assert answer.status_code == 200
        assert answer.json == {"status": "exists", **{key: there[key] for key in there if key != "count"}}
        assert (there["metadata"], there["metric"]) == ({"a": 1}, "l2")

    def test_what_is_missing_is_made(self, client, collection):
        answer = client.post("/collections?get_or_create=true", json={"name": collection, "metric": "ip"})
        assert (answer.status_code, answer.json["status"], answer.json["metric"]) == (201, "created", "ip")
