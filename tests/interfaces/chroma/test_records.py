"""Records are written, merged, read, queried and deleted as Chroma's clients expect."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.interfaces.chroma.conftest import Face, told
from wrapper.scoped_store import ScopedStore


@pytest.mark.parametrize("kind", [None, "", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_a_body_is_json_whatever_its_type_unless_a_page_of_another_site_sends_it(face, filled, kind):
    url, headers = (
        f"{face.database}/collections/{face.ids[filled]}/delete",
        {} if kind is None else {"Content-Type": kind},
    )
    for sign in ({"Origin": "https://elsewhere.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
        assert face.client.post(url, data=b'{"ids": ["a"]}', headers=headers | sign).status_code == 403
    assert face.get(filled)["ids"] == ["a", "b", "c"]
    assert face.client.post(url, data=b'{"ids": ["a"], "ids": ["a", "b"]}', headers=headers).status_code == 400
    assert face.client.post(url, data=b'{"ids": ["a"]}', headers=headers).json == {"deleted": 1}


def test_add_leaves_what_is_there(face, filled):
    face.post(filled, "add", ids=["a", "d", "d"], embeddings=[[9, 9], [2, 0], [3, 0]], documents=["new", "d", "d2"])
    found = face.get(filled, ids=["a", "d"], include=["documents", "embeddings"])
    assert (found["documents"], found["embeddings"]) == (["One fox", "d"], [[1, 0], [2, 0]])


def test_update_changes_what_it_names_and_upsert_merges_and_adds(face, filled):
    answer = face.post(filled, "update", ids=["a", "zz"], metadatas=[{"k": None, "n": 5}, {"n": 6}])
    assert (answer.status_code, answer.json) == (200, {})
    face.post(filled, "update", ids=["b"], documents=["two"])
    found = face.get(filled, include=["documents", "metadatas", "embeddings", "uris"])
    assert found["ids"] == ["a", "b", "c"]
    assert found["documents"] == ["One fox", "two", "three foxes"]
    assert found["metadatas"] == [{"n": 5, "tags": ["x", "y"]}, None, {"k": 2.5}]
    assert found["embeddings"] == [[1, 0], [0, 1], [1, 1]]
    assert found["uris"] == ["file:///a", None, None]
    face.post(filled, "upsert", ids=["c", "d"], embeddings=[[5, 5], [6, 6]], metadatas=[{"j": 2}, {"j": None}])
    found = face.get(filled, ids=["c", "d"], include=["documents", "metadatas", "embeddings"])
    assert found["documents"] == ["three foxes", None]
    assert found["metadatas"] == [{"k": 2.5, "j": 2}, None]
    assert found["embeddings"] == [[5, 5], [6, 6]]


def test_changes_of_one_id_stand_on_each_other(face, filled):
    face.post(filled, "update", ids=["a", "a"], metadatas=[{"p": 1}, {"q": 2}])
    assert face.get(filled, ids=["a"])["metadatas"] == [{"k": 1, "tags": ["x", "y"], "p": 1, "q": 2}]


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({"where": {"k": {"$ne": 1}}}, ["b", "c"]),
        ({"where_document": {"$not_regex": "fox$"}}, ["b", "c"]),
        ({"where": {"$or": [{"#document": {"$regex": "^t.*es$"}}, {"#id": {"$in": ["a"]}}]}}, ["a", "c"]),
        ({"where_document": {}}, ["a", "b", "c"]),
        ({"where": {"k": {"$gte": 1}}, "where_document": {"$contains": "foxes"}, "ids": ["a", "c"]}, ["c"]),
    ],
)
def test_filters_hold_for_records_and_for_neighbours(face, filled, filters, found):
    assert face.get(filled, **filters)["ids"] == found
    near = face.post(filled, "query", query_embeddings=[[1, 0]], **filters).json
    assert sorted(near["ids"][0]) == found


class TestQuery:
    def test_there_are_no_more_than_there_are_and_a_missing_id_and_another_dimension_are_said_in_chromas_words(
        self, face, filled
    ):
        for n_results, found in ((0, 0), (1, 1), (50, 3), (5_000, 3)):
            asked = face.post(filled, "query", query_embeddings=[[1, 0]], n_results=n_results).json
            assert len(asked["ids"][0]) == found
        assert face.post(filled, "query", query_embeddings=[[1, 0]], ids=["b", "c"]).json["ids"] == [["c", "b"]]
        answer = face.post(filled, "query", query_embeddings=[[1, 0]], ids=["b", "zz"])
        assert (answer.status_code, answer.json["message"]) == (404, "Error finding id 'zz'")
        answer = face.post(filled, "query", query_embeddings=[[1, 0, 0]])
        assert answer.json["message"] == "Collection expecting embedding with dimension of 2, got 3"
        assert told(answer) == (400, "InvalidArgumentError")

    @pytest.mark.parametrize(("space", "distance"), [("l2", 5.0), ("cosine", 1 - 1 / 5**0.5), ("ip", 0.0)])
    def test_distances_are_those_of_the_metric(self, face, space, distance):
        name = face.make(configuration={"hnsw": {"space": space}})
        face.post(name, "add", ids=["a"], embeddings=[[1, 2]])
        found = face.post(name, "query", query_embeddings=[[1, 0]]).json["distances"][0][0]
        assert found == pytest.approx(4.0 if space == "l2" else distance)


class TestDelete:
    def test_by_ids_counts_those_that_were_there(self, face, filled):
        assert face.post(filled, "delete", ids=["a", "zz"]).json == {"deleted": 1}
        assert face.get(filled)["ids"] == ["b", "c"]

    def test_by_filters(self, face, filled):
        assert face.post(filled, "delete", where_document={"$contains": "fox"}, limit=1).json == {"deleted": 1}
        assert face.post(filled, "delete", where={"k": {"$gt": 0}}, ids=["b", "c"]).json == {"deleted": 1}
        assert face.get(filled)["ids"] == ["b"]

    def test_what_matches_no_more_when_it_would_be_deleted_stays(self, face, filled, monkeypatch):
        delete, texts = ScopedStore.delete_documents, ["no match any more"]

        def delete_later(store, *args, **options):
            if texts:
                face.post(filled, "update", ids=["a"], documents=[texts.pop()])
            return delete(store, *args, **options)

        monkeypatch.setattr(ScopedStore, "delete_documents", delete_later)
        answer = face.post(filled, "delete", where_document={"$contains": "fox"}, limit=2)
        assert answer.json == {"deleted": 1}
        assert face.get(filled)["ids"] == ["a", "b"]

    def test_nothing_named_and_a_filter_without_a_condition_delete_nothing(self, face, filled):
        assert face.post(filled, "delete").json == {"deleted": 0}
        assert face.post(filled, "delete", ids=[]).status_code == 400
        assert len(face.get(filled)["ids"]) == 3
        for where in ({}, {"$and": [{"k": 1}, {}]}, {"$or": [{"k": 1}, {}]}):
            for more in ({}, {"limit": 2}, {"where_document": {}}, {"where_document": {"$contains": "fox"}}):
                answer = face.post(filled, "delete", where=where, **more)
                assert (answer.status_code, answer.json["code"]) == (400, "invalid_where"), (where, more)
        assert len(face.get(filled)["ids"]) == 3

    @pytest.mark.parametrize(
        ("part", "pointer"),
        [
            ({"k": {"$in": []}}, None),
            ({"k": {"$nin": []}}, None),
            ({"#embedding": {"$ne": 1}}, "/#embedding"),
            ({"chroma:document": {"$ne": "One fox"}}, "/chroma:document"),
            ({"#document": {"$ne": "One fox"}}, "/#document/$ne"),
        ],
    )
    def test_what_no_record_or_every_record_would_match_is_refused(self, face, filled, part, pointer):
        for route in ("get", "query", "delete"):
            for where, before in ((part, ""), ({"$and": [{"k": 1}, {"$or": [part, {"k": 2}]}]}, "/$and/1/$or/0")):
                answer = face.post(filled, route, where=where, query_embeddings=[[1, 0]])
                assert (answer.status_code, answer.json["code"]) == (400, "invalid_where")
                assert answer.json["details"].get("pointer") == (pointer and before + pointer)
        assert len(face.get(filled)["ids"]) == 3


def test_our_own_routes_have_what_chromas_clients_wrote(client, face, filled):
    documents = client.get(f"/collections/{filled}/documents", query_string={"include": "embedding"}).json["documents"]
    assert documents == [
        {
            "id": "a",
            "text": "One fox",
            "metadata": {"k": 1, "tags": ["x", "y"]},
            "uri": "file:///a",
            "embedding": [1, 0],
        },
        {"id": "b", "text": "", "metadata": {}, "embedding": [0, 1]},
        {"id": "c", "text": "three foxes", "metadata": {"k": 2.5}, "embedding": [1, 1]},
    ]
    for where, found in (({"#document": {"$contains": "One"}}, ["a"]), ({"#id": {"$ne": "b"}}, ["a", "c"])):
        answer = client.post(f"/collections/{filled}/documents/search", json={"where": where}).json
        assert [each["id"] for each in answer["documents"]] == found
    client.patch(f"/collections/{filled}/documents/b", json={"text": "", "metadata": {"n": {"deep": [1]}}})
    found = face.get(filled, ids=["b"])
    assert (found["documents"], found["metadatas"]) == ([""], [{"n": {"deep": [1]}}])


def test_a_copy_and_an_export_have_what_is_not_there(client, face, filled):
    copy = client.post(f"/collections/{filled}/copy", json={"name": f"{filled}-copy"}).json["name"]
    exported = client.get(f"/collections/{filled}/export").data
    again = client.post("/collections", json={"name": f"{filled}-again", "metric": "l2"}).json["name"]
    imported = client.post(f"/collections/{again}/import", data=exported, content_type="application/x-ndjson")
    assert imported.status_code in (200, 202)
    everything = ["documents", "metadatas", "embeddings", "uris"]
    expected = face.get(filled, include=everything)
    for name in (copy, again):
        face.ids[name] = face.described(name).json["id"]
        assert face.get(name, include=everything) == expected


@pytest.mark.slow
def test_a_long_answer_is_whole_and_in_the_order_of_insertion(face):
    numbers, name = range(2_203), face.make()
    for part in (numbers[:1_250], numbers[1_250:]):
        added = face.post(
            name,
            "add",
            ids=[f"r{number}" for number in part],
            embeddings=[[number, 1] for number in part],
            documents=[f"text {number}" for number in part],
            metadatas=[{"k": number % 10} for number in part],
        )
        assert added.status_code == 201
    assert face.client.get(f"{face.database}/collections/{face.ids[name]}/count").json == 2_203
    for where in (None, {"k": {"$lt": 9}}):
        matching = [number for number in numbers if where is None or number % 10 < 9]
        for offset, limit in ((0, None), (7, None), (5, 1_010), (1_249, 3), (1_950, None), (0, 0)):
            chosen = matching[offset : None if limit is None else offset + limit]
            asked = {"where": where, "offset": offset, "limit": limit}
            found = face.get(name, **asked, include=["documents", "metadatas", "embeddings"])
            assert found["ids"] == [f"r{number}" for number in chosen], asked
            assert found["documents"] == [f"text {number}" for number in chosen], asked
            assert found["metadatas"] == [{"k": number % 10} for number in chosen], asked
            assert found["embeddings"] == [[number, 1] for number in chosen], asked


@pytest.mark.slow
def test_an_id_means_its_collection_while_names_change_hands(app, face):
    """Requests find a collection by its id and then by its name, which another one may have taken in between."""
    one, other = face.make(), face.make()
    for name, record in ((one, "own"), (other, "foreign")):
        face.post(name, "add", ids=[record], embeddings=[[1, 0]], metadatas=[{"of": record}])
    swapping = threading.Event()

    def swap():
        renaming = Face(app.test_client())
        renaming.ids = face.ids
        names = {one: one, other: other}
        try:
            for _ in range(25):
                names = {one: names[other], other: names[one]}
                for which, name in ((one, f"{one}-aside"), (other, names[other]), (one, names[one])):
                    assert renaming.change(which, new_name=name).status_code == 200
        finally:
            swapping.set()

    with ThreadPoolExecutor() as pool:
        swapped = pool.submit(swap)
        while not swapping.is_set():
            assert face.post(one, "delete", ids=["foreign"]).json == {"deleted": 0}
            assert face.post(one, "upsert", ids=["own"], embeddings=[[1, 0]]).json == {}
            assert face.get(one)["metadatas"] == [{"of": "own"}]
            assert face.post(one, "query", query_embeddings=[[1, 0]]).json["ids"] == [["own"]]
        swapped.result()
    assert face.get(other)["ids"] == ["foreign"]
