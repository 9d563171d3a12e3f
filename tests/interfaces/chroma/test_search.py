"""The search of Chroma's protocol: filters, ranked expressions, groups, pages and columns."""

import math

import pytest

WORDS = ["red fox", "red fox red fox", "blue fox", "green dog", None]


@pytest.fixture(scope="module")
def stocked(lasting_face):
    """The name of a collection of five records on a line, at 0, 1, 2, 3 and 4."""
    name = lasting_face.make()
    answer = lasting_face.post(
        name,
        "add",
        ids=["a", "b", "c", "d", "e"],
        embeddings=[[number, 0] for number in range(5)],
        documents=WORDS,
        metadatas=[{"n": 0, "kind": "x"}, {"n": 1, "kind": "y"}, {"n": 2, "kind": "x"}, {"n": 3}, None],
    )
    assert answer.status_code == 201, answer.json
    return name


@pytest.fixture
def search(lasting_face, stocked):
    def ask(*searches):
        answer = lasting_face.post(stocked, "search", searches=list(searches), read_level="index_and_wal")
        assert answer.status_code == 200, answer.json
        return answer.json

    return ask


@pytest.fixture
def scored(search):
    """`scored(rank, **search)` returns the scores by id, in their order."""

    def ask(rank, **asked):
        answer = search({"rank": rank, "select": {"keys": ["#score"]}, **asked})
        return dict(zip(answer["ids"][0], answer["scores"][0], strict=True))

    return ask


def knn(*query, **options):
    return {"$knn": {"query": list(query), "key": "#embedding", "limit": 16, **options}}


def words(query, **options):
    return {"$knn": {"query": query, "key": "#document", **options}}


def test_without_a_rank_records_come_in_the_order_of_insertion_and_no_search_is_no_answer(search):
    answer = search({"limit": {"offset": 1, "limit": 2}, "select": {"keys": []}})
    assert answer == {
        "ids": [["b", "c"]],
        "documents": [None],
        "embeddings": [None],
        "metadatas": [None],
        "scores": [None],
        "select": [[]],
    }
    empty = search()
    assert empty == {part: [] for part in empty}


def test_columns_are_those_that_are_selected_also_where_words_found_the_records(search):
    every = ["#document", "#embedding", "#metadata", "#score"]
    answer = search(
        {"rank": knn(4, 0), "limit": {"limit": 2}, "select": {"keys": every}},
        {"rank": knn(0, 0), "limit": {"limit": 1}, "select": {"keys": ["kind", "nothing"]}},
    )
    assert answer == {
        "ids": [["e", "d"], ["a"]],
        "documents": [[None, "green dog"], None],
        "embeddings": [[[4, 0], [3, 0]], None],
        "metadatas": [[None, {"n": 3}], [{"kind": "x"}]],
        "scores": [[0, 1], None],
        "select": [every, ["kind", "nothing"]],
    }
    answer = search({"rank": words("dog"), "select": {"keys": ["#embedding"]}})
    assert (answer["ids"], answer["embeddings"]) == ([["d"]], [[[3, 0]]])


@pytest.mark.parametrize(
    ("filter_", "found"),
    [
        ({"$and": [{"#document": {"$regex": "^red"}}, {"#id": {"$nin": ["a"]}}]}, "b"),
        ({"$or": [{"kind": "y"}, {"#id": "e"}]}, "be"),
    ],
)
def test_filters_name_ids_and_documents(search, filter_, found):
    assert search({"filter": filter_}, {"where": filter_, "rank": knn(0, 0)})["ids"] == [list(found)] * 2


@pytest.mark.parametrize(
    ("rank", "scores"),
    [
        (knn(0, 0, limit=3, return_rank=True), {"a": 0, "b": 1, "c": 2}),
        ({"$sum": [knn(0, 0, limit=3), knn(4, 0, limit=3)]}, {"c": 8}),
        ({"$sum": [knn(0, 0, limit=1, default=9), knn(4, 0, limit=1, default=9)]}, {"a": 9, "e": 9}),
        ({"$mul": [knn(1, 0, limit=2), {"$val": -1}]}, {"a": -1, "b": 0}),
        ({"$sub": {"left": {"$val": 1}, "right": knn(0, 0, limit=2)}}, {"b": 0, "a": 1}),
        ({"$div": {"left": {"$val": 2}, "right": knn(4, 0, limit=2)}}, {"d": 2, "e": None}),
        ({"$max": [knn(0, 0, limit=2), {"$val": 0.5}]}, {"a": 0.5, "b": 1}),
        ({"$abs": {"$sub": {"left": knn(0, 0, limit=2), "right": {"$val": 1}}}}, {"b": 0, "a": 1}),
        ({"$exp": knn(0, 0, limit=2)}, {"a": 1, "b": pytest.approx(math.e)}),
        ({"$log": knn(0, 0, limit=2)}, {"a": None, "b": 0}),
        ({"$val": 3}, {}),
    ],
)
def test_ranks_are_computed(scored, rank, scores):
    found = scored(rank)
    assert found == scores
    assert list(found) == list(scores)


def test_words_are_ranked_beside_vectors(scored):
    found = scored(words("red fox"))
    assert list(found) == ["b", "a", "c"]
    assert all(score < 0 for score in found.values())
    terms = [
        {"$div": {"left": {"$val": 1}, "right": {"$sum": [{"$val": 60}, part]}}}
        for part in (knn(2, 0, return_rank=True, default=1000), words("blue", return_rank=True, default=1000))
    ]
    fused = scored({"$mul": [{"$val": -1}, {"$sum": terms}]}, limit={"limit": 1})
    assert fused == {"c": pytest.approx(-2 / 60)}


def test_groups_keep_the_best_of_each_and_pages_of_ranked_records_follow_each_other(scored):
    def of(operator, *keys, k=1):
        return {"keys": ["kind"], "aggregate": {operator: {"keys": list(keys), "k": k}}}

    assert scored(knn(0, 0), group_by=of("$min_k", "#score")) == {"a": 0, "b": 1, "d": 9}
    assert scored(knn(0, 0), group_by=of("$max_k", "n")) == {"b": 1, "c": 4, "d": 9}
    assert scored(knn(0, 0), group_by=of("$min_k", "n", "#score", k=2)) == {"a": 0, "b": 1, "c": 4, "d": 9, "e": 16}
    pages = [list(scored(knn(0, 0), limit={"offset": offset, "limit": 2})) for offset in (0, 2, 4, 6)]
    assert pages == [["a", "b"], ["c", "d"], ["e"], []]


def test_what_is_nested_too_deeply_is_refused(lasting_face, stocked):
    path = f"{lasting_face.database}/collections/{lasting_face.ids[stocked]}/search"
    filter_ = '{"$and": [{"k": 1}, {"$or": [{"k": 2}, ' * 240 + '{"k": 1}' + "]}]}" * 240
    rank = '{"$abs": ' * 40 + '{"$val": 1}' + "}" * 40
    for searches, said in (
        (f'{{"filter": {filter_}}}', '"code":"invalid_where"'),
        (f'{{"rank": {rank}}}', "nested deeper"),
    ):
        sent = {"data": f'{{"searches": [{searches}]}}', "content_type": "application/json"}
        answer = lasting_face.client.post(path, **sent)
        assert (answer.status_code, said in answer.text) == (400, True)


def test_what_is_not_searched_here_is_said(lasting_face, stocked):
    sparse = {"#type": "sparse_vector", "indices": [1], "values": [0.5]}
    for query, key in (("words to embed", "#embedding"), (sparse, "sparse"), ("words", "sparse")):
        answer = lasting_face.post(stocked, "search", searches=[{"rank": {"$knn": {"query": query, "key": key}}}])
        assert (answer.status_code, answer.json["error"]) == (501, "ChromaError"), query
