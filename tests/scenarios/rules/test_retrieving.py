"""Contract *rules*, over HTTP, with real MiniLM embeddings: what is retrieved, and how it is described."""

import uuid
from datetime import UTC, date, datetime
from itertools import pairwise

import pytest

from retrieval.rules.pipeline import RAGPipeline
from schemas.access.callers import ANYBODY, acting_as
from schemas.contracts.rule_documents import RetrieveRequest
from schemas.settings import RetrievalSettings
from tests.scenarios.rules.conftest import BARRICADES, DOC_TYPES, MOVEMENT, PHASES, WEAPONS, rule, sections


def test_contract_test_1_retrieve_with_high_relevance(ingest, retrieve):
    """With all defaults. The cosine is 0.38; `test_figures_and_failures.py` has vectors of a model without a
    calibration."""
    ingest(rule("rules-1-phases.md", MOVEMENT))
    context = retrieve("What can I do during movement?")
    assert context["meets_threshold"] is True
    assert context["avg_relevance"] >= 0.8
    assert len(context["document_chunks"]) >= 1
    assert sections(context)[0] == "Movement Phase"


def test_contract_test_2_retrieve_with_low_relevance(ingest, retrieve):
    ingest(rule("weapon-rules.md", WEAPONS))
    context = retrieve("How do I cook pasta?")
    assert context["meets_threshold"] is False
    assert context["document_chunks"] == context["relevance_scores"] == []
    assert context["avg_relevance"] < 0.6
    assert context["total_chunks"] == 0


def test_contract_test_3_chunk_ordering(ingest, retrieve):
    ingest(*(rule(f"{number}.md", content) for number, content in enumerate(BARRICADES)))
    context = retrieve("Barricade rules")
    scores = context["relevance_scores"]
    assert len(scores) == 2, "all but the dice"
    assert all(first >= second for first, second in pairwise(scores))
    assert scores == [chunk["relevance_score"] for chunk in context["document_chunks"]]
    assert sections(context)[0] == "Barricades"


def test_contract_test_4_metadata_completeness(ingest, retrieve):
    ingest(*(rule(f"{number}.md", text, doc_type="faq", team="red") for number, text in enumerate(BARRICADES)))
    context = retrieve("anything", min_relevance=0)
    assert len(context["document_chunks"]) == len(BARRICADES)
    for chunk in context["document_chunks"]:
        assert chunk["metadata"]["source"] == "Core Rules v3.1"
        assert chunk["metadata"]["doc_type"] in DOC_TYPES
        date.fromisoformat(chunk["metadata"]["last_update_date"])
        assert chunk["metadata"]["team"] == "red"


@pytest.mark.slow
def test_contract_test_6_a_hundred_documents_are_answered(ingest, retrieve):
    """`benchmarks/retrieval.py`, not this test, shows that it takes less than 5 seconds."""
    ingest(*(rule(f"{number}.md", f"## Rule {number}\n\nRule number {number}.") for number in range(100)))
    assert len(retrieve("test", min_relevance=0)["document_chunks"]) == 5


def test_the_same_question_has_the_same_answer_until_something_is_ingested(ingest, retrieve):
    ingest(rule("a.md", BARRICADES[0]))
    first = retrieve("Barricade rules", min_relevance=0)
    assert retrieve("Barricade rules", min_relevance=0) == first
    for other in ({"context_key": "test:user2"}, {"max_chunks": 1}, {"min_relevance": 0.1}):
        assert retrieve("Barricade rules", **{"min_relevance": 0, **other})["context_id"] != first["context_id"]
    ingest(rule("b.md", BARRICADES[1]))
    again = retrieve("Barricade rules", min_relevance=0)
    assert again["context_id"] != first["context_id"]
    assert len(again["document_chunks"]) == 2


def test_max_chunks_is_obeyed_and_bounded_and_settings_fill_in_what_a_question_leaves_open(
    ingest, retrieve, app, client, collection
):
    ingest(*(rule(f"{number}.md", content) for number, content in enumerate(BARRICADES)))
    assert len(retrieve("barricades", max_chunks=2, min_relevance=0)["document_chunks"]) == 2
    for wrong in (0, 101, "3", 1.5, True):
        assert retrieve("barricades", max_chunks=wrong, status=400)["details"]["field"] == "max_chunks"
    layers = app.extensions["rag.layers"]
    settings = RetrievalSettings(retrieve_max_chunks=2, retrieve_min_relevance=0.0)
    asked = RetrieveRequest("How do I cook pasta?", f"of:{collection}", collections=(collection,))
    pipeline = RAGPipeline(layers.pipeline._texts, layers.search, settings)
    with acting_as(ANYBODY):
        assert layers.pipeline.retrieve(asked).document_chunks == []
        assert len(pipeline.retrieve(asked).document_chunks) == 2


def test_invalid_query_error_and_a_missing_collection_is_not_found(ingest, retrieve):
    for query in ("", "  \n", "x" * 2001):
        answer = retrieve(query, status=400)
        named = (answer["error"], answer["code"], answer["details"]["field"])
        assert named == ("Validation error", "invalid_query", "query"), query[:10]
    missing = retrieve("anything", status=404)
    assert (missing["error"], missing["code"]) == ("Not found", "collection_not_found")
    ingest(rule("a.md", BARRICADES[0]))
    assert retrieve("x" * 2000)["document_chunks"] == []


@pytest.mark.parametrize("said", ["novel", None, ["ops"]])
def test_an_unknown_doc_type_is_answered_as_one_of_the_contracts(app, client, collection, retrieve, said):
    vector = app.extensions["rag.layers"].connections.open("default", "embedding").embed(["Dice."])[0].tolist()
    client.post("/collections", json={"name": collection})
    told = {"source": ["x"], "doc_type": said, "last_update_date": "yesterday", "section": 7}
    document = {"id": "own", "text": "Dice.", "metadata": told, "embedding": vector}
    client.post(f"/collections/{collection}/documents", json={"documents": [document]})
    [chunk] = retrieve("dice", min_relevance=0)["document_chunks"]
    assert chunk["metadata"]["doc_type"] == "faq"
    assert chunk["metadata"].get("doc_type_given") == said
    assert (chunk["metadata"]["source"], chunk["metadata"]["section"]) == (collection, "")
    assert (chunk["metadata"]["doc_id"], chunk["metadata"]["chunk_id"]) == ("own", "own")
    date.fromisoformat(chunk["metadata"]["last_update_date"])


def test_a_whole_document_has_a_section_and_document_type_is_an_alias_of_doc_type(ingest, retrieve):
    ingest(rule("given.md", PHASES, section="Mine", doc_type=None, document_type="ops"))
    ingest(rule("first-h2.md", PHASES.replace("model", "soldier")))
    ingest(rule("heading.md", "# Only One\n\nModels walk here."))
    context = retrieve("models walk", min_relevance=0)
    assert set(sections(context)) == {"Mine", "Movement Phase", "Only One"}
    types = {each["metadata"]["section"]: each["metadata"]["doc_type"] for each in context["document_chunks"]}
    assert (types["Mine"], types["Only One"]) == ("ops", "core-rules")


def test_documents_stored_under_one_contract_are_found_under_the_other(client):
    token, before = uuid.uuid4().hex, str(datetime.now(UTC).date())
    text = f"The quokka {token} is a small marsupial of Rottnest Island."
    stored = {"source": "zoo", "path": f"{token}.md", "title": "Quokka", "text": text}
    document_id = client.post("/api/rag/ingest", json=stored).json["documentId"]
    body = {"query": f"quokka {token} marsupial", "context_key": "a:b"}
    first = client.post("/api/rag/retrieve", json=body).json["document_chunks"][0]
    assert first["text"] == text
    assert first["document_id"] == str(uuid.UUID(document_id))
    assert (first["metadata"]["source"], first["metadata"]["doc_type"]) == ("zoo", "faq")
    assert first["metadata"]["last_update_date"] in (before, str(datetime.now(UTC).date()))
    found = client.post("/api/search", json={"query": f"quokka {token}"}).json["results"][0]
    assert (found["doc_id"], found["collection"]) == (document_id, "rag-documents")
    client.delete(f"/api/rag/documents/{document_id}")
