"""`/v1/vector_stores/{id}/search` as OpenAI's clients ask it, without those clients."""

import pytest

TEXTS = {
    "backups": (
        "Backups are kept for thirty days and encrypted at rest.",
        {"path": "ops/backups.md", "n": 1, "tags": ["a"]},
    ),
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


def test_several_questions_count_by_the_best(search):
    questions = [QUESTION, "When is the coffee machine cleaned?"]
    answer = search(query=questions, max_num_results=2)
    assert sorted(found(answer)) == ["backups", "coffee"]
    scores = [each["score"] for each in answer["data"]]
    assert scores == sorted(scores, reverse=True)
    assert answer["search_query"] == questions


def test_the_threshold_and_the_number_bound_the_results(search):
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
