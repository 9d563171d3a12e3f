"""Contract *storage*, "Metadata-Based Document Querying"."""

import json

import pytest

from tests.scenarios.databases import ON_BOTH

pytestmark = ON_BOTH
KINDS = ("heading", "paragraph", "code", "list")


DOCUMENTS = [
    {
        "id": f"doc-{index}",
        "text": f"text {index}",
        "metadata": {
            "section_id": f"section-{index // 10}",
            "chapter_id": str(index % 5),
            "chapter": str(index % 5),
            "doc_type": KINDS[index % 4],
        },
        "embedding": [1.0, float(index)],
    }
    for index in range(1_200)
]
"""Documents of five chapters, in sections of ten and of four kinds, in order."""


@pytest.fixture(scope="module")
def libraries(shared_collection):
    """The names of a collection of the first 40 documents and of one of all."""
    return {number: shared_collection(DOCUMENTS[:number]) for number in (40, len(DOCUMENTS))}


@pytest.fixture
def get(client, libraries):
    """`get(where, of=40)` sends GET for the documents of a collection that holds so many."""

    def get(where=None, *, of=40, **arguments):
        if where is not None:
            arguments["where"] = json.dumps(where)
        answer = client.get(f"/collections/{libraries[of]}/documents", query_string=arguments)
        assert answer.status_code == 200
        return answer.json

    return get


def _ids(answer):
    return [document["id"] for document in answer["documents"]]


def test_simple_equality_filter(get):
    """WHEN client requests `where={"section_id":"intro"}` THEN the endpoint returns all documents where `section_id`
    equals "intro" AND response includes `{documents: [...], count: N, total: N}` AND each document includes `{id, text,
    metadata}`."""
    answer = get({"section_id": "section-2"})
    assert (answer["count"], answer["total"]) == (10, 10)
    wanted = [{key: each[key] for key in ("id", "text", "metadata")} for each in DOCUMENTS[20:30]]
    assert answer["documents"] == wanted


def test_multiple_field_filter_implicit_and(get):
    """WHEN client requests `where={"chapter_id":"1","doc_type":"paragraph"}` THEN the endpoint returns documents
    matching both conditions AND all returned documents have `chapter_id="1"` AND `doc_type="paragraph"`."""
    answer = get({"chapter_id": "1", "doc_type": "paragraph"})
    assert _ids(answer) == ["doc-1", "doc-21"]
    for document in answer["documents"]:
        assert document["metadata"]["chapter_id"] == "1"
        assert document["metadata"]["doc_type"] == "paragraph"


def test_complex_filter_with_operators(get):
    """WHEN client requests filter with `$in` operator: `{"doc_type":{"$in":["heading","paragraph"]}}` THEN the endpoint
    returns documents where `doc_type` is either "heading" or "paragraph" AND excludes other document types."""
    answer = get({"doc_type": {"$in": ["heading", "paragraph"]}})
    assert answer["total"] == 20
    assert {document["metadata"]["doc_type"] for document in answer["documents"]} == {"heading", "paragraph"}


def test_logical_or_operator(get):
    """WHEN client requests `{"$or":[{"chapter":"1"},{"chapter":"3"}]}` THEN the endpoint returns documents from chapter 1
    OR chapter 3 AND excludes documents from other chapters."""
    answer = get({"$or": [{"chapter": "1"}, {"chapter": "3"}]})
    assert answer["total"] == 16
    assert {document["metadata"]["chapter"] for document in answer["documents"]} == {"1", "3"}


def test_no_filter_provided(get):
    """GIVEN a collection with 500 documents WHEN client requests the documents without `where` parameter THEN the
    endpoint returns first 100 documents (default limit) AND response includes `count: 100`."""
    answer = get(of=1_200)
    assert answer["count"] == 100
    assert answer["total"] == 1_200
    assert _ids(answer) == [document["id"] for document in DOCUMENTS[:100]]


def test_pagination_with_limit_and_offset(get):
    """GIVEN a metadata query matches 250 documents WHEN client requests `limit=50&offset=100` THEN the endpoint returns
    documents 101-150 AND response includes `count: 50`."""
    answer = get({"doc_type": {"$in": ["heading", "code"]}}, of=1_200, limit=50, offset=100)
    assert (answer["count"], answer["total"]) == (50, 600)
    matches = [each["id"] for each in DOCUMENTS if each["metadata"]["doc_type"] in ("heading", "code")]
    assert _ids(answer) == matches[100:150]


def test_limit_enforcement(get):
    """GIVEN client requests documents with excessive limit WHEN client requests `limit=5000` (exceeds max of 1000) THEN
    the endpoint enforces max limit of 1000 AND returns at most 1000 documents."""
    answer = get(of=1_200, limit=5000)
    assert answer["count"] == len(answer["documents"]) == 1000
    assert answer["total"] == 1_200


def test_empty_results(get):
    """WHEN client requests filter with non-existent metadata value THEN the endpoint returns `{documents: [], count: 0,
    total: 0}` AND HTTP status is 200 (not an error condition)."""
    answer = get({"section_id": "nowhere"})
    assert (answer["documents"], answer["count"], answer["total"]) == ([], 0, 0)


def test_collection_not_found(client):
    """WHEN client requests `GET /collections/nonexistent/documents` THEN the endpoint returns HTTP 404 AND error message:
    "Collection 'nonexistent' not found"."""
    answer = client.get("/collections/nonexistent/documents")
    assert answer.status_code == 404
    assert answer.json["error"] == "Collection 'nonexistent' not found"


def test_invalid_json_filter(client, filled):
    """WHEN client requests `where=invalid-json-string` THEN the endpoint returns HTTP 400 AND error message: "Invalid
    'where' filter: must be valid JSON"."""
    answer = client.get(f"/collections/{filled()}/documents?where=invalid-json-string")
    assert answer.status_code == 400
    assert answer.json["error"] == "Invalid 'where' filter: must be valid JSON"


def test_sibling_gathering_use_case(client, filled):
    """GIVEN semantic search finds a paragraph fragment with `section_id="retention-config"` WHEN client extracts
    `section_id` and queries the documents with it THEN the endpoint returns complete section (heading + all paragraphs +
    code blocks) AND documents can be sorted by `doc_type` to reconstruct original section structure AND enables presenting
    complete context instead of isolated fragments."""
    section = [("code", [0.0, 1.0]), ("heading", [0.7, 0.7]), ("paragraph", [1.0, 0.0]), ("paragraph", [0.9, 0.4])]
    name = filled(
        [
            *(
                {
                    "id": f"retention-{number}",
                    "text": kind,
                    "metadata": {"section_id": "retention-config", "doc_type": kind},
                    "embedding": embedding,
                }
                for number, (kind, embedding) in enumerate(section)
            ),
            {"id": "other", "text": "elsewhere", "metadata": {"section_id": "intro"}, "embedding": [-1.0, 0.0]},
        ]
    )
    found = client.post("/query", json={"collection": name, "query_embedding": [1.0, 0.0], "top_k": 1}).json["results"]
    assert found[0]["id"] == "retention-2"
    siblings = client.get(
        f"/collections/{name}/documents",
        query_string={"where": json.dumps({"section_id": found[0]["metadata"]["section_id"]}), "order_by": "doc_type"},
    ).json
    assert siblings["total"] == 4
    kinds = [each["metadata"]["doc_type"] for each in siblings["documents"]]
    assert kinds == ["code", "heading", "paragraph", "paragraph"]
    assert _ids(siblings) == ["retention-0", "retention-1", "retention-2", "retention-3"]
