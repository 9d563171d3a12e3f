"""`POST /collections/{name}/documents` with a JSON body stores all of it or nothing."""

import re

import pytest


def _document(number=0, **fields):
    return {"id": f"doc-{number}", "text": f"text {number}", "embedding": [1.0, float(number)], **fields}


@pytest.fixture
def add(client):
    def add(name, documents, **arguments):
        return client.post(f"/collections/{name}/documents", json={"documents": documents}, query_string=arguments)

    return add


@pytest.fixture
def stored(client):
    """`stored(name)` returns all documents by id, with their embeddings."""

    def stored(name):
        answer = client.get(f"/collections/{name}/documents?include=embedding&limit=1000").json
        return {document.pop("id"): document for document in answer["documents"]}

    return stored


def test_an_addition_answers_with_ids_and_counts(add, filled):
    name = filled()
    answer = add(name, [_document(0), _document(1, metadata={"page": 1})])
    assert answer.status_code == 201
    assert answer.json == {
        "status": "added",
        "collection": name,
        "count": 2,
        "ids": ["doc-0", "doc-1"],
        "created": 2,
        "updated": 0,
        "unchanged": 0,
        "indexed": True,
        "revision": 2,
    }


def test_ids_are_in_the_order_of_the_request_and_made_where_missing(add, filled):
    answer = add(filled(), [_document(5), _document(id=None), {"text": "none", "embedding": [1, 2]}, _document(2)])
    first, second, third, fourth = answer.json["ids"]
    assert (first, fourth) == ("doc-5", "doc-2")
    made = re.compile(r"doc_[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
    assert made.fullmatch(second)
    assert made.fullmatch(third)
    assert second != third


@pytest.mark.parametrize(
    ("on_conflict", "counts", "left"),
    [
        ("replace", (1, 1, 0), {"text": "new", "metadata": {"both": 2}}),
        ("skip", (1, 0, 1), {"text": "text 0", "metadata": {"old": 1, "both": 1}}),
    ],
)
def test_an_existing_document_is_replaced_whole_or_kept(add, filled, stored, on_conflict, counts, left):
    name = filled([_document(metadata={"old": 1, "both": 1})])
    new = _document(text="new", metadata={"both": 2})
    answer = add(name, [new, _document(1)], on_conflict=on_conflict).json
    assert (answer["created"], answer["updated"], answer["unchanged"]) == counts
    assert stored(name)["doc-0"] == {**left, "embedding": [1.0, 0.0]}


def test_error_stores_nothing_when_an_id_exists(add, filled, unchanged):
    name = filled([_document(1)])
    with unchanged(name):
        answer = add(name, [_document(0), _document(1), _document(2)], on_conflict="error")
    assert answer.status_code == 409
    told = {"index": 1, "id": "doc-1", "indexes": [1]}
    assert (answer.json["code"], answer.json["details"]) == ("document_exists", told)


def test_replace_where_swaps_the_documents_of_a_source(add, chroma, filled, stored):
    a, b = {"source": "a.md"}, {"source": "b.md"}
    name = filled(
        [_document(0, metadata=a), _document(1, metadata=a), _document(2, metadata=a), _document(3, metadata=b)]
    )
    answer = add(name, [_document(1, metadata=a), _document(7, metadata=a)], replace_where='{"source": "a.md"}')
    assert answer.status_code == 201
    assert (answer.json["created"], answer.json["unchanged"], answer.json["deleted"]) == (1, 1, 2)
    assert set(stored(name)) == {"doc-1", "doc-3", "doc-7"}
    assert set(chroma.get_collection(name, embedding_function=None).get()["ids"]) == {"doc-1", "doc-3", "doc-7"}


def test_replace_where_deletes_nothing_when_the_documents_are_refused(add, filled, unchanged):
    name = filled([_document(0, metadata={"a": 1}), _document(1)])
    with unchanged(name):
        assert add(name, [_document(2, embedding=[1.0])], replace_where='{"a": 1}').status_code == 400
        assert add(name, [_document(1)], replace_where='{"a": 1}', on_conflict="error").status_code == 409
        for where in ("null", "{}", '{"$or": [{"a": 1}, {}]}', '{"$not": {"b": 1}}', '{"b": {"$ne": 1}}'):
            refused = add(name, [_document(2)], replace_where=where)
            assert (refused.status_code, refused.json["details"]["field"]) == (400, "replace_where"), where
    assert add(name, [_document(2)], replace_where="{}", all="true").json["deleted"] == 2


METADATA = {
    "string": "text",
    "empty": "",
    "whole": 7,
    "big": 2**63 - 1,
    "huge": 2**64 - 1,
    "small": -(2**63),
    "float": 0.1,
    "tiny": 5e-324,
    "bool": False,
    "null": None,
    "list": [1, "two", 3.0, None, True],
    "empty list": [],
    "nested": {"a": {"b": [{"c": None}]}, "": 1},
    "": "the empty key",
    "$dollar": 1,
    "#hash": 1,
    "a.b": "dot",
    "chroma:document": "kept for documents",
    "rag:json": "not ours",
    "ünï ☃ \U0001f600": "\u0000 \U0001f600 \ufffe",
}


def test_metadata_comes_back_as_it_was_given(add, client, filled, stored):
    name = filled()
    assert add(name, [_document(metadata=METADATA)]).status_code == 201
    assert stored(name)["doc-0"]["metadata"] == METADATA
    assert client.get(f"/collections/{name}/documents/doc-0").json["metadata"] == METADATA
    found = client.post(f"/collections/{name}/query", json={"query_embedding": [1, 0]}).json["results"]
    assert found[0]["metadata"] == METADATA


@pytest.mark.parametrize("text", ["", " ", "\x00", "a\x00b", "\U0001f600" * 10, "x" * 300_000, "line\r\nline\u2028"])
def test_any_text_comes_back_as_it_was_given(add, filled, stored, text):
    name = filled()
    assert add(name, [_document(text=text)]).status_code == 201
    assert stored(name)["doc-0"]["text"] == text


FAULTS = {
    "no array": (None, "documents_required", {"field": "documents"}),
    "an empty array": ([], "documents_required", {"field": "documents"}),
    "an item that is no object": ([_document(), 7], "invalid_document", {"field": "documents", "index": 1}),
    "no text": ([_document(), {"embedding": [1, 2]}], "invalid_text", {"field": "text", "index": 1}),
    "text that is no string": ([_document(text=7)], "invalid_text", {"field": "text", "index": 0}),
    "an empty id": ([_document(id="")], "invalid_id", {"field": "id", "index": 0}),
    "an id that is no string": ([_document(), _document(id=7)], "invalid_id", {"field": "id", "index": 1}),
    "metadata that is a list": ([_document(metadata=[1])], "invalid_metadata", {"field": "metadata", "index": 0}),
    "no embedding": ([_document(embedding=None)], "embedding_required", {"field": "embedding", "index": 0}),
    "a numeral": ([_document(embedding=[1, "2"])], "invalid_embedding", {"field": "embedding", "index": 0}),
    "two dimensions": (
        [_document(0), _document(1), _document(2, embedding=[1.0])],
        "dimension_mismatch",
        {"field": "embedding", "index": 2, "expected": 2, "actual": 1},
    ),
    "another dimension than the collection's": (
        [_document(0, embedding=[1, 2, 3]), _document(1, embedding=[1, 2, 3])],
        "dimension_mismatch",
        {"field": "embedding", "index": 0, "expected": 2, "actual": 3},
    ),
    "an id twice": (
        [_document(0), _document(1), _document(0)],
        "duplicate_id",
        {"field": "id", "index": 2, "first_index": 0},
    ),
}


@pytest.mark.parametrize(("documents", "code", "details"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_located_and_nothing_is_stored(client, filled, unchanged, documents, code, details):
    name = filled([_document(99)])
    with unchanged(name):
        answer = client.post(f"/collections/{name}/documents", json={"documents": documents})
    assert answer.status_code == 400
    assert answer.json["code"] == code
    assert answer.json["details"] == details


def test_metadata_may_be_nested_32_levels_deep_and_no_deeper(add, filled, stored):
    deep = {}
    for _ in range(31):
        deep = {"a": deep}
    name = filled()
    assert add(name, [_document(metadata={"a": deep})]).status_code == 400
    assert add(name, [_document(metadata=deep)]).status_code == 201
    assert stored(name)["doc-0"]["metadata"] == deep
