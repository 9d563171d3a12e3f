"""Contract *rules*, over HTTP, with a stub of the embedding service for tests of exact figures and of failures."""

import pytest

from schemas.errors import UnavailableError
from tests.scenarios.rules.conftest import MOVEMENT, WEAPONS, rule, sections

pytestmark = pytest.mark.usefixtures("models_up")


@pytest.fixture(scope="module")
def app(talking):
    return talking


def post(client, path, status=200, **body):
    answer = client.post(path, json=body)
    assert answer.status_code == status, answer.json
    return answer.json


def test_contract_test_1_with_vectors_that_are_0_8_relevant(client, models, collection):
    models.meanings = {"What can": [1, 0, 0], "Movement": [0.85, 0.5268, 0], "Weapon": [0, 0, 1]}
    documents = [rule("rules-1-phases.md", MOVEMENT), rule("weapon-rules.md", WEAPONS)]
    post(client, "/api/rag/documents:batch", documents=documents, collection=collection)
    question = {"query": "What can I do during movement?", "context_key": "test:user1", "collection": collection}
    context = post(client, "/api/rag/retrieve", **question)
    assert context["avg_relevance"] == pytest.approx(0.85, abs=1e-3)
    assert context["meets_threshold"] is True
    assert len(context["document_chunks"]) == 1
    assert sections(context) == ["Movement Phase"]


@pytest.mark.slow
def test_the_threshold_applies_to_each_chunk_and_the_average_to_the_remaining_ones(client, models, collection):
    models.meanings = {"asked": [1, 0], "near": [0.9, 0.4359], "middle": [0.7, 0.7141], "far": [0.5, 0.866]}
    documents = [rule(f"{word}.md", f"## {word}\n\nThe {word} one.") for word in ("far", "near", "middle")]
    post(client, "/api/rag/documents:batch", documents=documents, collection=collection)
    question = {"query": "asked", "context_key": "a:b", "collection": collection}
    context = post(client, "/api/rag/retrieve", **question)
    assert context["relevance_scores"] == pytest.approx([0.9, 0.7], abs=1e-3)
    assert context["avg_relevance"] == pytest.approx(0.8, abs=1e-3)
    assert post(client, "/api/rag/retrieve", **question, min_relevance=0.95)["meets_threshold"] is False


@pytest.mark.slow
def test_an_embedding_service_that_dies_during_reingestion_keeps_the_old_version(client, models, collection):
    """The old version stays retrievable, its siblings are processed, and the result names the file."""
    send = {"collection": collection}
    first = [rule(name, f"## {name}\n\nVersion one of {name}.") for name in ("a.md", "b.md", "c.md")]
    post(client, "/api/rag/documents:batch", documents=first, **send)
    ask = {"query": "Version one of b.md", "context_key": "a:b", "min_relevance": 0, **send}
    before = post(client, "/api/rag/retrieve", **ask)
    models.is_down = True
    asked = len(models.requests)
    changed = [first[0], rule("b.md", "## b.md\n\nVersion two."), first[2]]
    result = post(client, "/api/rag/documents:batch", documents=changed, **send)
    assert len(models.requests) - asked == 4, "three attempts, and one to embed another text"
    assert (result["documents_processed"], result["documents_failed"], result["errors"]) == (2, 1, ["b.md"])
    assert result["failures"][0]["code"] == "embedding_unavailable"
    unknown = post(client, "/api/rag/retrieve", status=503, **{**ask, "query": "never asked before"})
    assert (unknown["error"], unknown["code"]) == ("Service Unavailable", "embedding_unavailable")
    models.is_down = False
    after = post(client, "/api/rag/retrieve", **ask)
    assert after == before, "nothing has changed, so the answer is the one that was kept"
    assert sorted(chunk["text"] for chunk in after["document_chunks"]) == sorted(
        each["content"].strip() for each in first
    )


def test_a_store_that_fails_at_the_second_document_keeps_the_first(app, client, collection, monkeypatch):
    """VectorDBWriteError: the first document stays, and the second keeps its old version."""
    old = [rule("first.md", "## One\n\nOld one."), rule("second.md", "## Two\n\nOld two.")]
    post(client, "/api/rag/documents:batch", documents=old, collection=collection)
    catalogue, allowed = app.extensions["rag.service"].catalog.freely, iter([True])
    commit = catalogue.commit

    def away_after_one(operation):
        if next(allowed, False):
            return commit(operation)
        raise UnavailableError("The database went away")

    monkeypatch.setattr(catalogue, "commit", away_after_one)
    new = [rule("first.md", "## One\n\nNew one."), rule("second.md", "## Two\n\nNew two."), rule("third.md", "Three.")]
    answer = post(client, "/api/rag/documents:batch", status=503, documents=new, collection=collection)
    monkeypatch.undo()
    assert answer["code"] == "vector_db_write_failed"
    assert (answer["details"]["documents_processed"], answer["details"]["index"]) == (1, 1)
    stored = client.get(f"/collections/{collection}/documents").json["documents"]
    assert {each["text"] for each in stored} == {"## One\n\nNew one.", "## Two\n\nOld two."}


def test_an_answer_is_kept_for_its_time(app, client, collection, monkeypatch):
    cache = app.extensions["rag.layers"].search._cache
    now = [cache._clock()]
    monkeypatch.setattr(cache, "_clock", lambda: now[0])
    post(client, "/api/rag/documents:batch", documents=[rule("a.md", WEAPONS)], collection=collection)
    asked = {"query": "a question", "context_key": "a:b", "min_relevance": 0, "collection": collection}
    first = post(client, "/api/rag/retrieve", **asked)
    now[0] += cache._ttl_seconds
    assert post(client, "/api/rag/retrieve", **asked) == first
    now[0] += 0.01
    assert post(client, "/api/rag/retrieve", **asked)["context_id"] != first["context_id"]


@pytest.mark.slow
def test_a_batch_that_could_not_be_embedded_is_tried_again_and_a_repeated_one_warns_in_one_list(
    client, models, collection
):
    key = {"Idempotency-Key": "an outage"}
    body = {"documents": [rule("outage.md", "## Outage\n\nNobody embeds.")], "collection": "never-made-before"}
    models.is_down = True
    failed = client.post("/api/rag/documents:batch", json=body, headers=key).json
    assert failed["failures"][0]["code"] == "embedding_unavailable"
    models.is_down = False
    stored, again = (client.post("/api/rag/documents:batch", json=body, headers=key) for _ in range(2))
    assert (stored.json["documents_processed"], stored.json["failures"]) == (1, [])
    assert "Idempotent-Replayed" not in stored.headers
    assert (again.headers["Idempotent-Replayed"], again.data) == ("true", stored.data)
    long = rule("long.md", "# Long\n\n" + "word " * 9_000)
    body, key = {"documents": [long], "collection": collection, "colour": "green"}, {"Idempotency-Key": collection}
    first, again = (client.post("/api/rag/documents:batch", json=body, headers=key) for _ in range(2))
    assert [each.split()[0] for each in first.json["warnings"]] == ["long.md:", "Unknown"]
    assert (again.headers["Idempotent-Replayed"], again.data) == ("true", first.data)
