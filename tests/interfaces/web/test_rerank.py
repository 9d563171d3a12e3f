"""`POST /rerank`, and searches that have their results reranked, through a connection to a small server."""

import pytest

from schemas.settings import RegistrySettings
from tests.interfaces.access.conftest import mcp
from tests.providers.rerank.rerank_server import rerank_server
from tests.support.apps import running_app
from wrapper.web.lanes import Lane

KEY = "sk-planted-rerank-77"
QUERY = "how hot is lava"
DOCUMENTS = [
    {"id": "minutes", "text": "The committee met on Tuesday."},
    {"id": "volcano", "text": "A volcano sends out molten rock of a thousand degrees."},
    {"id": "lava", "text": "How hot lava is: about 1,000 degrees."},
]
ASKED = {"query": QUERY, "documents": DOCUMENTS}


@pytest.fixture(scope="module")
def server():
    with rerank_server() as server:
        yield server


@pytest.fixture
def answering(server):
    """The server, which has got no request yet and answers as its protocol says."""
    server.requests.clear()
    server.script.clear()
    return server


@pytest.fixture(scope="module", autouse=True)
def tei(app, server):
    """The connection `tei` to the server. The service has no reranking model of its own."""
    client = app.test_client()
    made = {"id": "tei", "type": "rerank", "provider": "tei", "config": {"url": server.url}}
    assert client.post("/api/connections", json=made).status_code == 201
    yield
    client.delete("/api/connections/tei")


@pytest.fixture(scope="module")
def lava(shared_collection):
    texts = ("Lava is hot.", "Lava flows.", "How hot lava is, nobody said.")
    return shared_collection(
        [
            {"id": f"lava-{number}", "text": text, "metadata": {"title": f"Text {number}"}, "embedding": [1.0, number]}
            for number, text in enumerate(texts, start=1)
        ]
    )


def ids(answer):
    assert answer.status_code == 200, answer.json
    return [each["id"] for each in answer.json["reranked"]]


@pytest.mark.slow
def test_without_a_reranking_model_the_local_one_answers_for_any_number_of_documents(client):
    answer = client.post("/rerank", json=ASKED)
    assert ids(answer) == ["lava", "volcano", "minutes"]
    assert [each["original_rank"] for each in answer.json["reranked"]] == [3, 2, 1]
    scores = [each["score"] for each in answer.json["reranked"]]
    assert scores == sorted(scores, reverse=True)
    assert answer.json["connection"] is None
    cut = client.post("/rerank", json=ASKED | {"top_k": 1})
    assert cut.json["reranked"] == answer.json["reranked"][:1]
    # Ids are the caller's own, and may repeat.
    same = client.post("/rerank", json=ASKED | {"documents": [{**each, "id": "same"} for each in DOCUMENTS]})
    assert (ids(same), [each["original_rank"] for each in same.json["reranked"]]) == (["same"] * 3, [3, 2, 1])
    assert ids(client.post("/rerank", json={"query": QUERY, "documents": DOCUMENTS[:1], "top_k": 9})) == ["minutes"]
    many = [{"id": f"d{number}", "text": f"Sentence {number} of the minutes."} for number in range(150)]
    answer = client.post("/rerank", json={"query": QUERY, "documents": [*many, DOCUMENTS[2]]})
    assert ids(answer)[0] == "lava"
    scores = [each["score"] for each in answer.json["reranked"]]
    assert (len(scores), scores) == (151, sorted(scores, reverse=True))


def test_a_connection_that_is_named_is_asked_and_its_failure_is_an_error(client, answering):
    answer = client.post("/rerank", json=ASKED | {"connection": "tei"})
    assert ids(answer) == ["lava", "minutes", "volcano"]  # equal scores stay in their order
    assert answer.json["reranked"][0] == {"id": "lava", "score": 1.0, "original_rank": 3}
    assert answer.json["connection"] == "tei"
    [(path, _, body)] = answering.requests
    assert (path, body["texts"]) == ("/rerank", [each["text"] for each in DOCUMENTS])
    answering.script = [(200, [{"index": 9, "score": 1.0}])] * 4
    answer = client.post("/rerank", json=ASKED | {"connection": "tei"})
    assert (answer.status_code, answer.json["code"]) == (503, "answer_unusable")


@pytest.mark.parametrize(("path", "field"), [("/rerank", "connection"), ("/api/search", "rerank")])
def test_a_connection_that_cannot_rerank_is_refused(client, path, field):
    for connection, status, code in (("nobody", 404, "connection_not_found"), ("local", 409, "wrong_connection_type")):
        documents = {"documents": DOCUMENTS} if path == "/rerank" else {}
        answer = client.post(path, json={"query": QUERY, field: connection, **documents})
        assert (answer.status_code, answer.json["code"], answer.json["details"]["field"]) == (status, code, field)
    assert answer.json["details"]["allowed"] == ["tei"]  # by the last one, which is there and of another type


@pytest.fixture
def search(client, lava):
    def search(**asked):
        body = {"query": QUERY, "collections": [lava], "oracles": ["lexical"], **asked}
        answer = client.post("/api/search", json=body)
        assert answer.status_code == 200, answer.json
        return answer.json

    return search


def test_a_search_has_its_results_in_the_order_of_the_connection_and_keeps_its_limit_after_that(search, answering):
    plain, found = search(), search(rerank="tei")
    assert "rerank" not in plain["receipt"]
    assert all("rerank_score" not in each for each in plain["results"])
    scores = [each["rerank_score"] for each in found["results"]]
    assert scores == sorted(scores, reverse=True)
    assert found["results"][0]["content"] == "How hot lava is, nobody said."
    assert {each["doc_id"] for each in found["results"]} == {each["doc_id"] for each in plain["results"]}
    by_id = {each["doc_id"]: each["score"] for each in plain["results"]}
    assert {each["doc_id"]: each["score"] for each in found["results"]} == by_id
    receipt = found["receipt"]["rerank"]
    assert (receipt["connection"], receipt["status"], receipt["count"]) == ("tei", "ok", 3)
    [(_, _, body)] = answering.requests
    assert sorted(text.splitlines()[0] for text in body["texts"]) == ["Text 1", "Text 2", "Text 3"]
    first = search(rerank="tei", limit=1, explain=True)
    assert (first["results"], first["receipt"]["rerank"]["count"]) == (found["results"][:1], 3)
    assert [each["rank"] for each in first["explanations"]] == [2, 3]


def test_a_failure_leaves_the_order_and_is_in_the_receipt(search, answering):
    plain = search()
    answering.script = [(503, {"error": "slow down"})] * 4
    found = search(rerank="tei")
    answering.script.clear()
    assert found["results"] == plain["results"]
    receipt = found["receipt"]["rerank"]
    assert (receipt["connection"], receipt["status"], receipt["count"]) == ("tei", "failed", 0)
    assert "The reranking service 'tei' " in receipt["error"]


@pytest.fixture(scope="module")
def embedded(text_collection):
    """A collection whose documents have the embeddings of the service's model, two of them in one section."""
    texts = ["How hot lava is: a thousand degrees.", "Lava is hot.", "Lava of a volcano is hot.", "The train is late."]
    return text_collection({text: (text, {"section": text[:4]}) for text in texts})


@pytest.mark.parametrize("fusion", ["rrf", "scores", "smoothed"])
def test_relevance_decides_who_is_reranked_and_stays_what_it_was(search, answering, embedded, fusion):
    """The connection gives the best result the least score: the order is turned round, and all else stays."""
    asked = {"collections": [embedded], "oracles": None, "fusion": fusion, "min_relevance": 0.2}
    plain = search(**asked)
    assert 1 < len(plain["results"]) < 4
    kept = {each["doc_id"]: each for each in plain["results"]}
    answering.script = [(200, [{"index": place, "score": place} for place in range(len(kept))])]
    found = search(rerank="tei", explain=True, **asked)
    assert [each["doc_id"] for each in found["results"]] == [each["doc_id"] for each in reversed(plain["results"])]
    assert [each["rerank_score"] for each in found["results"]] == [float(each) for each in reversed(range(len(kept)))]
    for each in found["results"]:
        assert {**each, "rerank_score": None} == {**kept[each["doc_id"]], "rerank_score": None}
    [(_, _, body)] = answering.requests
    assert body["texts"] == list(kept)
    receipt = found["receipt"]
    assert (receipt["fusion"], receipt["rerank"]["count"], receipt["below_min_relevance"]) == (
        fusion,
        len(kept),
        4 - len(kept),
    )


@pytest.fixture
def rag_query(client, lava):
    return lambda **asked: mcp(client, "rag_query", query=QUERY, collections=[lava], **asked).json["result"]


def test_requests_that_ask_a_connection_wait_with_those_of_other_services(
    client, search, rag_query, answering, monkeypatch
):
    lanes, entered = client.application.extensions["rag.lanes"], []
    enter = lanes.enter
    monkeypatch.setattr(lanes, "enter", lambda lane, *others: (entered.append(lane), enter(lane, *others))[1])
    search()
    assert entered == [Lane.EMBEDDING]
    client.post("/rerank", json=ASKED | {"connection": "tei"})
    search(rerank="tei")
    rag_query(rerank="tei")
    assert entered == [Lane.EMBEDDING, *[Lane.EMBEDDING, Lane.SERVICE] * 3]
    client.get("/api/connections/tei/health")
    client.post("/api/connections/test", json={"type": "rerank", "provider": "tei", "config": {"url": answering.url}})
    assert entered[7:] == [Lane.SERVICE] * 2


def test_language_models_can_ask_for_it_and_are_told_of_a_connection_that_cannot(rag_query, answering):
    answer = rag_query(rerank="tei")["structuredContent"]
    assert answer["results"][0]["content"] == "How hot lava is, nobody said."
    assert answer["receipt"]["rerank"]["status"] == "ok"
    for connection, fault in (("nobody", "'nobody' not found"), ("local", "type rag, not rerank")):
        refused = rag_query(rerank=connection)
        assert (refused["isError"], fault in refused["content"][0]["text"]) == (True, True)


def test_the_configured_connection_is_asked_by_default_and_part_of_the_health(
    processes, answering, tmp_path, monkeypatch
):
    monkeypatch.setenv("RAG_RERANK_API_KEY", KEY)
    registry = RegistrySettings(rerank_provider="cohere", rerank_url=f"{answering.url}/v1", rerank_model="m")
    with running_app(tmp_path, registry=registry) as app:
        client = app.test_client()
        answer = client.post("/rerank", json=ASKED)
        assert ids(answer)[0] == "lava"
        assert answer.json["connection"] == "rerank"
        assert {(path, key) for path, key, _ in answering.requests} == {("/v1/rerank", f"Bearer {KEY}")}
        shown = client.get("/api/connections/rerank").json
        assert (shown["type"], shown["provider"], shown["origin"]) == ("rerank", "cohere", "built-in")
        assert KEY not in str(shown)
        assert client.get("/health").json["rerank"]["provider"] == "cohere"
        assert client.get("/api/connections/rerank/health").json["status"] == "healthy"
