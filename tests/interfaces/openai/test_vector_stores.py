"""`/v1/vector_stores` and their `/search` as OpenAI's clients ask them, without those clients."""

import time

import pytest

from retrieval.kept_files.store_facts import VectorStoreFacts
from schemas.contracts.vector_stores import DAY_MS


@pytest.fixture
def make(client):
    """`make(status=…, **fields)`: the answer to a new store; those that were made are deleted."""
    made = []

    def make(status=200, **fields):
        answer = client.post("/v1/vector_stores", json=fields)
        assert answer.status_code == status, answer.text
        assert answer.headers.get("x-should-retry") == (None if status < 400 else "false")
        if status == 200:
            made.append(answer.json["id"])
        return answer.json

    yield make
    for each in made:
        client.delete(f"/v1/vector_stores/{each}")


def test_a_store_is_a_text_collection_by_every_interface(client, make):
    store = make(name="Händbuch & more", description="d", metadata={"team": "ops"})
    told = {"name": "Händbuch & more", "description": "d", "metadata": {"team": "ops"}, "status": "completed"}
    assert store.items() >= told.items()
    collection = client.get(f"/collections/{store['collection']}").json
    assert collection["name"] == "Handbuch-more"
    assert store["id"] == "vs_" + collection["id"].replace("-", "")
    assert collection["metadata"]["embedding_model"] == "all-MiniLM-L6-v2"
    assert client.get(f"/v1/vector_stores/{store['id']}").json == store
    assert client.get("/v1/vector_stores/Handbuch-more").json == store
    again = make(name="Händbuch & more")
    assert again["collection"].startswith("Handbuch-more-")
    assert make()["name"].startswith("store-")
    assert make(name="日本語")["collection"].startswith("store-")


def test_a_collection_that_was_made_otherwise_is_a_store(client, filled):
    name = filled([{"id": "a/b", "text": "one", "metadata": {"n": 1}, "embedding": [1.0, 0.0]}])
    store = client.get(f"/v1/vector_stores/{name}").json
    assert (store["name"], store["created_at"], store["last_active_at"]) == (name, 0, None)
    assert (store["file_counts"]["completed"], store["usage_bytes"]) == (1, len('one{"n":1}') + 8)
    [file] = client.get(f"/v1/vector_stores/{store['id']}/files").json["data"]
    assert (file["id"], file["attributes"], file["status"]) == ("a/b", {"n": 1}, "completed")
    place = f"/v1/vector_stores/{store['id']}/files/a%2Fb"
    assert client.get(place).json == file
    assert client.get(f"{place}/content").json["data"] == [{"type": "text", "text": "one"}]
    changed = client.post(place, json={"attributes": {"m": True}}).json
    assert changed["attributes"] == {"m": True}
    assert client.get(f"/collections/{name}/documents/a%2Fb").json["metadata"] == {"m": True}
    assert client.delete(place).json["deleted"]
    assert client.get(f"/collections/{name}").json["count"] == 0


def test_a_change_leaves_what_it_does_not_name_and_takes_away_what_is_null(client, make):
    store = make(name="kept", metadata={"a": "b"}, expires_after={"anchor": "last_active_at", "days": 2})
    place = f"/v1/vector_stores/{store['id']}"
    changed = client.post(place, json={"name": "new", "unknown": 1, "vector_store_id": store["id"]}).json
    assert changed["warnings"] == ["Unknown field 'unknown' is ignored"]
    assert (changed["name"], changed["metadata"], changed["expires_after"]["days"]) == ("new", {"a": "b"}, 2)
    assert changed["expires_at"] == changed["last_active_at"] + 2 * DAY_MS // 1_000
    assert changed["created_at"] == store["created_at"]
    cleared = client.post(place, json={"metadata": None, "expires_after": None}).json
    assert cleared.items() >= {"name": "new", "metadata": {}, "expires_after": None, "expires_at": None}.items()


def test_pages_go_on_behind_a_store_that_is_gone(client, make):
    ids = [make(name=f"page {number}")["id"] for number in range(4)]
    newest = client.get("/v1/vector_stores?limit=2").json
    assert [each["id"] for each in newest["data"]] == ids[:1:-1]
    assert newest["has_more"]
    client.delete(f"/v1/vector_stores/{ids[2]}")
    assert newest["last_id"] == ids[2]
    behind = client.get(f"/v1/vector_stores?limit=2&after={ids[2]}").json
    assert [each["id"] for each in behind["data"]] == ids[1::-1]
    before = client.get(f"/v1/vector_stores?limit=1&before={ids[0]}").json
    assert ([each["id"] for each in before["data"]], before["has_more"]) == ([ids[1]], True)
    rising = client.get(f"/v1/vector_stores?order=asc&after={ids[0]}").json
    assert ([each["id"] for each in rising["data"]], rising["has_more"]) == ([ids[1], ids[3]], False)


def test_what_is_deleted_is_gone_by_every_interface_and_none_is_made_of_a_file_that_is_not_there(client, make):
    store = make(name="to delete")
    place = f"/v1/vector_stores/{store['id']}"
    assert client.delete(place).json == {"id": store["id"], "object": "vector_store.deleted", "deleted": True}
    assert client.get(f"/collections/{store['collection']}").status_code == 404
    for method, path in (("GET", place), ("POST", place), ("DELETE", place), ("GET", f"{place}/files")):
        answer = client.open(path, method=method, json={} if method == "POST" else None)
        assert (answer.status_code, answer.json["error"]["code"]) == (404, "collection_not_found")
    before = client.get("/v1/vector_stores").json
    assert make(404, file_ids=["file-nobody"])["error"]["param"] is None
    assert client.get("/v1/vector_stores").json == before


def test_an_expired_store_is_not_searched_until_it_is_brought_back_and_lasts_longer_when_it_is_searched(
    app, client, make
):
    lasts = {"expires_after": {"anchor": "last_active_at", "days": 1}}
    store = make(name="expires", **lasts)
    place, collection = f"/v1/vector_stores/{store['id']}", client.get(f"/collections/{store['collection']}").json

    def was_active(seconds):
        VectorStoreFacts(app.extensions["rag.service"].catalog, clock=lambda: seconds).keep(collection["id"], {})

    was_active(1_000.0)
    assert client.get(place).json["status"] == "expired"
    for path, body in (("search", {"query": "x"}), ("files", {"file_id": "x"})):
        answer = client.post(f"{place}/{path}", json=body)
        assert (answer.status_code, answer.json["error"]["code"]) == (400, "vector_store_expired")
    assert client.post(place, json=lasts).json["status"] == "completed"
    was_active(time.time() - 86_000)
    before = client.get(place).json
    assert client.post(f"{place}/search", json={"query": "x"}).status_code == 200
    after = client.get(place).json
    assert (before["status"], after["expires_at"] >= before["expires_at"] + 86_000) == ("completed", True)


def test_a_sweep_forgets_what_is_gone(app):
    kept, now = {each.id for each in app.extensions["rag.service"].store.collections()}, [1_000_000.0]
    facts = VectorStoreFacts(app.extensions["rag.service"].catalog, clock=lambda: now[0])
    facts.keep("gone", {})
    facts.pass_by("listing", "x", [1, 2])
    facts.sweep(kept)
    assert (facts.of_collections(["gone"]), facts.passed("listing", "x")) == ({}, [1, 2])
    now[0] += 3_601
    facts.sweep(kept)
    assert facts.passed("listing", "x") is None


TEXTS = {
    "backups": ("Backups are kept for thirty days and encrypted.", {"path": "ops/backups.md", "n": 1, "tags": ["a"]}),
    "restore": ("Call restoreArchive() to bring back what was saved last night.", {"title": "Restore", "n": 2}),
    "coffee": ("The coffee machine on the second floor is cleaned every Friday.", {"n": 3, "open": True}),
}
QUESTION = "How long are backups kept?"


@pytest.fixture(scope="module")
def handbook(text_collection):
    return text_collection(TEXTS)


@pytest.fixture
def search(client, handbook):
    def search(status=200, store=handbook, **body):
        answer = client.post(f"/v1/vector_stores/{store}/search", json={"query": QUESTION, **body})
        assert answer.status_code == status, answer.json
        return answer.json

    return search


EVERYTHING = {"ranking_options": {"score_threshold": 0}}


def found(answer):
    return [each["file_id"] for each in answer["data"]]


def test_results_are_those_of_the_search_by_the_name_of_a_store_and_by_its_id(search, client, handbook):
    answer = search(**EVERYTHING)
    expected = client.post("/api/search", json={"query": QUESTION, "collection": handbook, "min_relevance": 0}).json
    assert [(each["file_id"], each["score"]) for each in answer["data"]] == [
        (each["doc_id"], each["relevance"]) for each in expected["results"]
    ]
    assert answer["search_query"] == [QUESTION]
    assert answer["data"][0] == {
        "file_id": "backups",
        "filename": "backups.md",
        "score": answer["data"][0]["score"],
        "attributes": {"path": "ops/backups.md", "n": 1},
        "content": [{"type": "text", "text": TEXTS["backups"][0]}],
    }
    names = {each["file_id"]: each["filename"] for each in answer["data"]}
    assert names == {"backups": "backups.md", "restore": "Restore", "coffee": "coffee"}
    store = "vs_" + client.get(f"/collections/{handbook}").json["id"].replace("-", "")
    assert search(store=store) == search()


def test_several_questions_count_by_the_best_and_the_threshold_and_the_number_bound_the_results(search):
    questions = [QUESTION, "When is the coffee machine cleaned?"]
    answer = search(query=questions, max_num_results=2)
    assert sorted(found(answer)) == ["backups", "coffee"]
    scores = [each["score"] for each in answer["data"]]
    assert scores == sorted(scores, reverse=True)
    assert answer["search_query"] == questions
    assert len(found(search(max_num_results=1, **EVERYTHING))) == 1
    best = search(**EVERYTHING)["data"][0]["score"]
    assert found(search(ranking_options={"score_threshold": best - 0.01, "ranker": "auto"})) == ["backups"]


def test_weights_say_how_much_words_and_meaning_count(search, client, handbook):
    def ranked(**weights):
        return found(search(ranking_options={"score_threshold": 0, "hybrid_search": weights}))

    words = {"query": QUESTION, "collection": handbook, "min_relevance": 0, "weights": {"semantic": 0}}
    expected = [each["doc_id"] for each in client.post("/api/search", json=words).json["results"]]
    assert ranked(embedding_weight=0) == expected
    assert len(ranked(text_weight=0)) == len(TEXTS)


def of(operator, key, value):
    return {"type": operator, "key": key, "value": value}


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (of("eq", "n", 2), {"restore"}),
        (of("ne", "n", 2), {"backups", "coffee"}),
        (of("gte", "n", 2), {"restore", "coffee"}),
        (of("in", "n", [1, 3]), {"backups", "coffee"}),
        (of("nin", "n", [1, 3]), {"restore"}),
        ({"type": "and", "filters": [of("gt", "n", 1), of("lt", "n", 3)]}, {"restore"}),
        ({"type": "or", "filters": [of("eq", "n", 2), of("eq", "open", True)]}, {"restore", "coffee"}),
        (None, set(TEXTS)),
    ],
)
def test_filters_are_on_metadata(search, filters, expected):
    assert set(found(search(filters=filters, **EVERYTHING))) == expected


@pytest.mark.parametrize("store", ["vs_" + "0" * 32, "00", "not a name!", "nobody-at-all"])
def test_a_store_that_is_not_there_is_said(search, store):
    assert search(404, store=store)["error"]["param"] is None
