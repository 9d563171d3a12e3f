"""Contract *search*: oracles in parallel, reciprocal rank fusion, top-k results with provenance. The embeddings are
real ones by MiniLM."""

import pytest

TEXTS = {
    "retry": "A request that failed is sent again after a pause that doubles each time.",
    "env": "Settings are read with std::env::var, and getUserName() tells who runs the process.",
    "fusion": "Ranked lists are merged by the sum of reciprocal ranks.",
    "garden": "Tomatoes need six hours of sun and regular watering.",
    "billing": "Invoices are sent on the first of the month.",
}


@pytest.fixture(scope="module")
def embed(app):
    return app.extensions["rag.layers"].connections.open("default", "embedding").embed


@pytest.fixture(scope="module")
def knowledge(app, embed, shared_collection):
    vectors = embed(list(TEXTS.values())).tolist()
    return shared_collection(
        [
            {"id": name, "text": text, "metadata": {"topic": name[0]}, "embedding": vector}
            for (name, text), vector in zip(TEXTS.items(), vectors, strict=True)
        ]
    )


@pytest.fixture
def search(client, knowledge):
    def ask(query, **more):
        answer = client.post("/api/search", json={"query": query, "collection": knowledge, **more})
        assert answer.status_code == 200, answer.json
        return answer.json

    return ask


def ids(answer):
    return [each["doc_id"] for each in answer["results"]]


def test_parallel_oracles_and_top_k_results_with_provenance(search):
    """WHEN a query is asked THEN all available oracles answer, AND each result names who found it at which rank."""
    answer = search("When will a failing request be sent again?", limit=3)
    first = answer["results"][0]
    assert first["doc_id"] == "retry"
    assert first["sources"] == ["semantic", "lexical"]
    assert first["rrf_score"] == pytest.approx(sum(1 / (60 + each["rank"]) for each in first["provenance"].values()))
    assert len(answer["results"]) <= 3


def test_semantic_finds_a_text_that_shares_no_word(search):
    answer = search("How do I grow vegetables at home?", oracles=["semantic"])
    assert ids(answer)[0] == "garden"
    assert search("grow vegetables", oracles=["lexical"])["results"] == []


def test_lexical_works_for_code(search):
    """Contract *search*, 2.7a: the lexical oracle was broken for code queries."""
    for query in ("std::env", "getUserName", "env var", "GETUSERNAME"):
        assert ids(search(query, oracles=["lexical"])) == ["env"], query


def test_rrf_rewards_what_several_oracles_find(search):
    """score(doc) = Σ 1/(k + rank), so a document found by both is above one found first by a single oracle."""
    results = search("sum of reciprocal ranks")["results"]
    assert results[0]["doc_id"] == "fusion"
    assert [each["rrf_score"] for each in results] == sorted((each["rrf_score"] for each in results), reverse=True)
    by_one = [each for each in results if len(each["sources"]) == 1]
    assert all(each["rrf_score"] < results[0]["rrf_score"] for each in by_one)


def test_oracle_ablation(search):
    """Each oracle can be asked alone, and weighed."""
    for name in ("semantic", "lexical"):
        answer = search("invoices of the month", oracles=[name])
        assert ids(answer)[0] == "billing"
        assert list(answer["receipt"]["oracles"]) == [name]
    assert search("invoices", weights={"lexical": 0})["results"][0]["sources"] == ["semantic"]


def test_the_persona_joins_in_when_there_are_notes(client, search, embed):
    """WHEN the session knowledge has notes THEN the persona contributes, AND notes that were replaced never appear."""
    texts = ["We send invoices on paper only.", "We send invoices by mail only, never on paper."]
    told = ({"id": "replaced", "metadata": {"superseded_by": "newer"}}, {"id": "newer", "metadata": {}})
    vectors = embed(texts).tolist()
    notes = [
        {**each, "text": text, "embedding": vector} for each, text, vector in zip(told, texts, vectors, strict=True)
    ]
    assert search("invoices", oracles=["persona"])["receipt"]["oracles"]["persona"]["status"] == "unavailable"
    assert client.post("/collections", json={"name": "rag-notes"}).status_code == 201
    try:
        client.post("/collections/rag-notes/documents", json={"documents": notes})
        answer = client.post("/api/search", json={"query": "How do we send invoices?"}).json
        assert answer["receipt"]["oracles"]["persona"]["status"] == "ok"
        found = [(each["doc_id"], each["collection"]) for each in answer["results"] if "persona" in each["sources"]]
        assert found == [("newer", "rag-notes")]
    finally:
        client.delete("/collections/rag-notes")
