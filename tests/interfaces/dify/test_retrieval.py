"""`POST /dify/retrieval` as Dify asks it."""

import pytest

DOCUMENTS = {
    "backups": ("Backups are kept for thirty days and encrypted at rest.", {"title": "Backups", "lang": "en"}),
    "restore": ("Call restoreArchive() to bring back what was saved last night.", {"path": "ops/restore.md"}),
    "coffee": ("The coffee machine on the second floor is cleaned every Friday.", {"n": None}),
}
QUESTION = "How long are backups kept?"
SETTING = {"top_k": 3, "score_threshold": 0.0}


@pytest.fixture(scope="module")
def handbook(text_collection):
    return text_collection(DOCUMENTS)


@pytest.fixture
def ask(client, handbook):
    def ask(status=200, **body):
        answer = client.post("/dify/retrieval", json={"knowledge_id": handbook, "query": QUESTION, **body})
        assert answer.status_code == status, answer.json
        return answer.json

    return ask


def test_records_are_what_dify_needs_with_the_relevance_of_the_search(ask, client, handbook):
    records = ask(retrieval_setting=SETTING)["records"]
    assert records[0]["metadata"]["document_id"] == "backups"
    assert len(records) == 3
    assert all(0 <= each["score"] <= 1 for each in records)
    assert all(isinstance(each["metadata"], dict) for each in records)
    titles = {each["metadata"]["chunk_id"]: each["title"] for each in records}
    assert titles == {"backups": "Backups", "restore": "restore.md", "coffee": "coffee"}
    found = client.post("/api/search", json={"query": QUESTION, "collection": handbook, "min_relevance": 0}).json
    relevance = {each["doc_id"]: each["relevance"] for each in found["results"]}
    assert {each["metadata"]["document_id"]: each["score"] for each in records} == relevance
    assert records[0]["content"] == DOCUMENTS["backups"][0]
    assert records[0]["metadata"] == {
        **DOCUMENTS["backups"][1],
        **{"collection": handbook, "document_id": "backups", "chunk_id": "backups"},
    }


def test_the_threshold_and_top_k_bound_the_records(ask):
    def found(threshold, top_k=3):
        records = ask(retrieval_setting={"top_k": top_k, "score_threshold": threshold})["records"]
        return [each["metadata"]["document_id"] for each in records]

    best = ask(retrieval_setting=SETTING)["records"][0]["score"]
    assert found(best - 0.01) == ["backups"]
    assert [len(found(0, top_k)) for top_k in (1, None, 5_000)] == [1, 3, 3]
    assert ask(query="zebras in space", retrieval_setting={"top_k": 3, "score_threshold": 0.9})["records"] == []


@pytest.mark.parametrize(
    "probe",
    [
        {},
        {"data": b"", "content_type": "application/json"},
        {"json": {}},
        {"json": {"knowledge_id": "", "query": "", "retrieval_setting": {"top_k": 1, "score_threshold": 0.0}}},
        {"json": {"knowledge_id": "no such thing!", "query": " "}},
        {"json": {"knowledge_id": None, "query": None, "retrieval_setting": None, "metadata_condition": None}},
    ],
)
def test_the_probe_of_a_registration_is_answered(client, probe):
    answer = client.post("/dify/retrieval", **probe)
    assert (answer.status_code, answer.json) == (200, {"records": []})


def test_several_knowledges_and_beginnings_are_asked_together_and_an_unknown_one_is_2001(ask, handbook):
    assert ask(knowledge_id=f"{handbook}, {handbook[:-2]}*")["records"]
    assert ask(knowledge_id=f"{handbook[:-1]}*")["records"]
    assert ask(knowledge_id="")["records"]
    for name in ("no-such-collection", "No such thing!", "a", ","):
        refused = ask(404, knowledge_id=name)
        assert (refused["error_code"], refused["code"]) == (2001, "collection_not_found"), name


def test_names_of_later_releases_are_ignored_and_a_question_that_is_too_long_is_cut(ask):
    assert ask(retrieval_settings=1, knowledgeid="x", retrieval_setting={**SETTING, "reranking": {"a": 1}})["records"]
    assert ask(query=QUESTION + " really" * 1_000)["records"]
