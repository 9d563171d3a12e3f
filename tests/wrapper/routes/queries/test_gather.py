"""`gather` returns the whole group of each hit, with a vector query and without one."""

import pytest


def _document(document_id, embedding, **metadata):
    return {"id": document_id, "text": f"text {document_id}", "metadata": metadata, "embedding": embedding}


DOCUMENTS = [
    _document("a2", [0.0, 1.0], section="a", place=2),
    _document("a1", [1.0, 0.1], section="a", place=1),
    _document("b1", [1.0, 0.0], section="b", place=1),
    _document("a3", [0.9, 0.2], section="a", place=3),
    _document("lone", [0.8, 0.4], place=9),
    _document("c1", [-1.0, 0.0], section="c", place=1),
    _document("number", [-1.0, -1.0], section=7),
    _document("same number", [-1.0, -1.0], section=7.0),
    _document("string", [-1.0, -1.0], section="7"),
]


@pytest.fixture(scope="module")
def name(shared_collection):
    return shared_collection(DOCUMENTS)


@pytest.fixture
def query(client):
    def query(name, gather, embedding=(1.0, 0.0), **fields):
        body = {"query_embedding": list(embedding), "gather": gather, **fields}
        return client.post(f"/collections/{name}/query", json=body)

    return query


@pytest.fixture
def gather(client):
    def gather(name, **fields):
        return client.post(f"/collections/{name}/gather", json=fields)

    return gather


def _groups(answer):
    """Return (key, rank, [(id, hit)], total, complete) of each group."""
    assert answer.status_code == 200
    return [
        (
            group["key"],
            group["rank"],
            [(each["id"], each["hit"]) for each in group["documents"]],
            group["total"],
            group["complete"],
        )
        for group in answer.json["groups"]
    ]


def test_groups_have_the_best_distance_and_hits_their_own(query, name):
    answer = query(name, {"by": "section"}, top_k=3).json
    distances = {each["id"]: each["distance"] for each in answer["results"]}
    assert [group["best_distance"] for group in answer["groups"]] == [distances["b1"], distances["a1"]]
    for group in answer["groups"]:
        for document in group["documents"]:
            assert document.get("distance") == distances.get(document["id"])
            assert document["text"] == f"text {document['id']}"


def test_ids_and_fields_that_no_document_has_are_named(gather, query, name):
    answer = gather(name, ids=["nobody", "a1", "nothing", "nobody"], by="section").json
    assert answer["missing"] == ["nobody", "nothing"]
    assert gather(name, ids=["a1"], by="section").json["missing"] == []
    assert "missing" not in gather(name, where={}, by="section").json
    named = [f"No document has the field '{field}' that gather names" for field in ("chapter", "page")]
    rule = {"by": ["chapter", "section"], "order_by": ["page", "place"]}
    assert gather(name, ids=["a1"], **rule).json["warnings"] == named
    assert query(name, rule, top_k=1).json["warnings"] == named
    assert query(name, rule, top_k=1, where={"place": 99}).json["warnings"] == named
    assert "warnings" not in gather(name, ids=["a1"], by="section", order_by="place").json


def test_text_joins_a_group_without_what_neighbours_repeat(gather, query, filled):
    shared = "the end that the next chunk begins with"
    texts = [f"First, {shared}", f"{shared}, and more.", "Third.", "Fourth."]
    name = filled(
        [{**_document(str(number), [1, 0], s="a", n=number), "text": text} for number, text in enumerate(texts)]
    )
    whole = {"by": "s", "order_by": "n", "text": True}
    (group,) = gather(name, ids=["0"], **whole).json["groups"]
    assert group["text"] == f"First, {shared}, and more.\n\nThird.\n\nFourth."
    (group,) = gather(name, ids=["1", "3"], before=0, **whole).json["groups"]
    assert group["text"] == f"{texts[1]}\n\n[…]\n\nFourth."
    assert "text" not in gather(name, ids=["0"], by="s").json["groups"][0]


def test_given_ids_can_be_gathered_around(gather, name):
    answer = gather(name, ids=["a3", "nobody", "lone", "b1", "a1"], by="section", order_by="place")
    assert answer.json["revision"] == 2
    assert _groups(answer) == [
        ("a", 1, [("a1", True), ("a2", False), ("a3", True)], 3, True),
        (None, 2, [("lone", True)], 1, True),
        ("b", 3, [("b1", True)], 1, True),
    ]
    assert all(group.get("best_distance") is None for group in answer.json["groups"])


def test_the_matches_of_a_filter_can_be_gathered_around(gather, name):
    answer = gather(name, where={"place": 1}, by="section", order_by=["place"], limit=1)
    assert [(group[0], group[1], group[3], group[4]) for group in _groups(answer)] == [
        ("a", 1, 3, False),
        ("b", 2, 1, True),
        ("c", 3, 1, True),
    ]


def test_a_filter_with_too_many_matches_is_refused_not_cut(gather, filled):
    name = filled([_document(str(number), [1.0, 0.0], section="long") for number in range(1001)])
    answer = gather(name, where={"section": "long"}, by="section")
    assert answer.status_code == 400
    assert answer.json["code"] == "too_many_matches"
    assert answer.json["details"] == {"field": "where", "limit": 1000, "total": 1001}


@pytest.mark.parametrize("fields", [{"ids": []}, {"ids": ["nobody"]}, {"where": {"place": 99}}])
def test_nothing_to_gather_is_an_empty_answer(gather, name, fields):
    answer = gather(name, by="section", **fields)
    assert (answer.status_code, answer.json["groups"]) == (200, [])
