"""`/api/search` over HTTP, with the embeddings of the service itself."""

import pytest

HANDBOOK = {
    "backups": "Backups are kept for thirty days and encrypted at rest.",
    "restore": "Call restoreArchive() to bring back what was saved last night.",
    "coffee": "The coffee machine on the second floor is cleaned every Friday.",
    "holiday": "Employees have thirty days of holiday.",
}
OF_ANOTHER = "Collection '{}' holds embeddings of 'another', the query's would be of 'all-MiniLM-L6-v2'"


@pytest.fixture(scope="module")
def handbook(text_collection):
    return text_collection({name: (text, {"section": name[0], "lang": "en"}) for name, text in HANDBOOK.items()})


@pytest.fixture
def search(client, handbook):
    def ask(query, **more):
        answer = client.post("/api/search", json={"query": query, "collection": handbook, **more})
        assert answer.status_code == 200, answer.json
        return answer.json

    return ask


@pytest.fixture(scope="module")
def thai(text_collection):
    texts = {"backups": "สำรองข้อมูลทุกคืนเวลาตีสอง", "travel": "การเดินทางโดยรถไฟต้องได้รับอนุมัติ"}
    return text_collection({name: (text, {}) for name, text in texts.items()})


def ids(answer):
    return [each["doc_id"] for each in answer["results"]]


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/api/rag/search", {}),
        ("/api/rag/retrieve", {"context_key": "a:b", "min_relevance": 0}),
        ("/tools/rag_context_search", {}),
    ],
)
def test_a_collection_that_could_not_be_asked_is_told_from_those_that_were(client, handbook, filled, path, asked):
    strange = filled([{"text": "Backups", "embedding": [1, 0]}], metadata={"embedding_model": "another"})
    body = {"query": "How long do we keep backups?", "collections": [strange, handbook], **asked}
    answers = [client.post(path, json=body).json for _ in range(2)]
    for answer in answers:
        told = answer["receipt"]["collections"]
        assert told == {
            handbook: {"status": "asked"},
            strange: {"status": "left_out", "reason": OF_ANOTHER.format(strange)},
        }
    # Nor is the answer cached: the collection may be available the next time.
    assert "context_id" not in answers[0] or answers[0]["context_id"] != answers[1]["context_id"]
    if not path.startswith("/tools/"):  # which has the words to go by
        alone = client.post(path, json=body | {"collections": [strange]})
        assert (alone.status_code, alone.json["code"]) == (409, "embedding_mismatch")
        assert alone.json["message"] == OF_ANOTHER.format(strange)


def test_null_equals_absent(search):
    nothing = dict.fromkeys(["limit", "oracles", "weights", "where", "explain", "gather"])
    for absent in ({}, nothing, {"weights": {"semantic": None}}):
        assert ids(search("coffee", **absent)) == ["coffee"], absent


def test_options_reach_the_engine(search):
    assert ids(search("restore archive", oracles=["lexical"])) == ["restore"]
    assert ids(search("thirty days", limit=1, oracles="lexical", where={"section": "h"})) == ["holiday"]
    answer = search(
        "thirty days", limit=1, explain=["coffee", "nobody"], gather={"by": "lang", "order_by": ["section"]}
    )
    assert [each["doc_id"] for each in answer["explanations"]] == ["coffee", "nobody"]
    [group] = answer["groups"]
    assert (group["key"], group["rank"], group["total"], group["complete"]) == ("en", 1, 4, True)
    assert [each["id"] for each in group["documents"] if each["hit"]] == ids(answer)
    assert "explanations" not in search("coffee")


@pytest.mark.parametrize(
    ("change", "code", "field"),
    [
        ({"collection": "there-is-none"}, "collection_not_found", "collections"),
        ({"collections": ["*", "there-is-none"]}, "collection_not_found", "collections"),
        ({"rerank": ""}, "connection_not_found", "rerank"),
    ],
)
def test_what_is_not_there_is_refused_by_field(client, change, code, field):
    answer = client.post("/api/search", json={"query": "hello", **change})
    assert (answer.status_code, answer.json["code"], answer.json["details"]["field"]) == (404, code, field)


def test_a_refusal_tells_the_place_of_what_is_missing_and_the_names_that_there_are(client, handbook):
    answer = client.post("/api/search", json={"query": "hello", "collections": ["a*", handbook, "there-is-none"]})
    assert answer.json["details"] == {"collection": "there-is-none", "field": "collections", "index": 2}
    answer = client.post("/api/search", json={"query": "hello", "oracles": ["psychic"]}).json
    assert (answer["code"], answer["details"]["allowed"]) == ("unknown_oracle", ["semantic", "lexical", "persona"])


def test_a_question_that_the_model_cannot_read_is_answered_by_words_alone(search, thai):
    """All texts of a script without a known letter have the same vector: nearness says nothing there."""
    for nonsense in ("🎉", "∑∫∂", "ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ", "x" * 200):
        for fields in ({}, {"min_relevance": 0.5}, {"min_relevance": 0}, {"oracles": ["semantic"]}):
            assert search(nonsense, collection=thai, **fields)["results"] == [], (nonsense, fields)
    answer = search("สำรองข้อมูลเมื่อไร", collection=thai)
    assert answer["results"][0]["doc_id"] == "backups"
    assert {(*each["sources"], each["relevance"]) for each in answer["results"]} == {("lexical", None)}
    assert "cannot read the question" in answer["receipt"]["oracles"]["semantic"]["left_out"][thai]
