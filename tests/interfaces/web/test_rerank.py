"""`POST /rerank`, and searches that have their results reranked, through a connection to a small server."""

import pytest

from schemas.settings import RegistrySettings
from tests.interfaces.access.conftest import mcp
from tests.providers.rerank.rerank_server import rerank_server
from tests.support.apps import running_app
from wrapper.web.lanes import Lane, _Place

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
    """The connection `tei` to the server, and one that waits for it a moment only. The service has no reranking model
    of its own."""
    client = app.test_client()
    for name, seconds in (("tei", 60), ("hasty", 0.5)):
        config = {"url": server.url, "timeout_seconds": seconds}
        made = {"id": name, "type": "rerank", "provider": "tei", "config": config}
        assert client.post("/api/connections", json=made).status_code == 201
    yield
    for name in ("tei", "hasty"):
        client.delete(f"/api/connections/{name}")


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


TWICE = [{"index": 0, "score": 3}, {"index": 1, "score": 2}, {"index": 1, "score": 1}]


@pytest.mark.parametrize(
    ("connection", "answer", "said"),
    [
        ("tei", (503, {"error": "slow down"}), "The reranking service 'tei' "),
        ("tei", (200, TWICE), "The reranking service 'tei' "),
        ("hasty", None, "did not answer in 0.5 s"),
    ],
)
def test_a_failure_leaves_the_order_and_is_in_the_receipt(search, answering, request, connection, answer, said):
    plain = search()
    if answer is None:
        answering.held.set()
        request.addfinalizer(answering.held.clear)
    answering.script = [answer] * 4 if answer else []
    found = search(rerank=connection)
    answering.script.clear()
    assert found["results"] == plain["results"]
    receipt = found["receipt"]["rerank"]
    assert (receipt["connection"], receipt["status"], receipt["count"]) == (connection, "failed", 0)
    assert said in receipt["error"]


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


@pytest.fixture
def lanes_entered(client, monkeypatch):
    """The lanes that requests enter, in order, `None` for each place that is given back, and the turns within."""
    lanes, entered = client.application.extensions["rag.lanes"], []
    monkeypatch.setattr(_Place, "turn", lambda place, asked: (entered.append(sorted(asked)), lambda: None)[1])

    class Watched:
        def enter(self, lane, *others):
            leave = lanes.enter(lane, *others)
            entered.append(lane)
            return lambda: (entered.append(None), leave())

    monkeypatch.setitem(client.application.extensions, "rag.lanes", Watched())
    return entered


def test_requests_that_ask_a_connection_wait_with_those_of_other_services(
    client, lanes_entered, search, rag_query, answering
):
    client.post("/rerank", json=ASKED)
    search()
    rag_query(rerank=None)
    assert lanes_entered == [Lane.EMBEDDING, None] * 3
    lanes_entered.clear()
    client.post("/rerank", json=ASKED | {"connection": "tei"})
    search(rerank="tei")
    rag_query(rerank="tei")
    assert lanes_entered == [Lane.EMBEDDING, None, Lane.SERVICE, ["tei"], None] * 3
    lanes_entered.clear()
    client.get("/api/connections/tei/health")
    client.post("/api/connections/test", json={"type": "rerank", "provider": "tei", "config": {"url": answering.url}})
    assert lanes_entered == [Lane.SERVICE, ["tei"], None, Lane.SERVICE, [answering.url], None]


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
