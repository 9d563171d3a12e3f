"""Deleted data disappears from every table and file at once, whatever was asked about it before; its words disappear
from the word index soon."""

import uuid

import pytest

from schemas.settings import RetrievalSettings
from tests.scenarios.databases import holds, tables_with
from tests.support.live import eventually
from wrapper.catalog.postgres.own_tables import EVER, OF_PARTS, WORDS

OTHER_PROGRAMS = ("chroma", "catalog.sqlite")
"""Files that can only be read through the program that wrote them."""


@pytest.fixture
def marker():
    return f"zq{uuid.uuid4().hex}"


@pytest.fixture
def traces(app, marker):
    """`traces()` returns the tables and files in which the marker can be read."""
    service = app.extensions["rag.service"]

    def found():
        # The words of the word index disappear when it merges its segments.
        tables = [table for table in tables_with(service.catalog, marker) if not table.startswith("word_")]
        files = [path for path in service.settings.data_dir.rglob("*") if path.is_file()]
        own = [path for path in files if not any(part.startswith(OTHER_PROGRAMS) for part in path.parts[-4:])]
        return tables + [path.name for path in own if marker.encode() in path.read_bytes()]

    return found


@pytest.fixture
def told(client, collection, marker):
    """Store a text with the marker, change it under an `Idempotency-Key`, and ask for it in every way that keeps
    answers; give the ids of its document and its chunk."""
    text = f"## Backups\n\nThe password of the backups is {marker}."
    metadata = {"source": "handbook", "doc_type": "ops", "last_update_date": "2025-10-02"}
    document = {"document_id": None, "filename": "backups.md", "content": text, "metadata": metadata}
    ingested = client.post("/api/rag/documents:batch", json={"documents": [document], "collection": collection})
    assert ingested.json["documents_processed"] == 1
    (chunk,) = client.get(f"/collections/{collection}/documents").json["documents"]
    body = {"text": f"{chunk['text']} It is {marker}.", "metadata": {"author": marker}}
    key = {"Idempotency-Key": str(uuid.uuid4())}
    assert client.patch(f"/collections/{collection}/documents/{chunk['id']}", json=body, headers=key).status_code == 200
    for _ in range(2):
        ask = {"query": "password", "context_key": "a:b", "collection": collection, "min_relevance": 0}
        (found,) = client.post("/api/rag/retrieve", json=ask).json["document_chunks"]
        assert marker in found["text"]
    client.post("/api/search", json={"query": "password", "collection": collection})
    client.post(f"/collections/{collection}/query", json={"query_embedding": [0.1] * 384})
    return chunk["metadata"]["document_id"], chunk["id"]


@pytest.mark.parametrize("gone", ["document", "chunk", "replaced text", "collection"])
def test_what_is_deleted_leaves_no_trace(client, collection, told, traces, gone):
    document_id, chunk_id = told
    place, nothing = f"/collections/{collection}", {"id": chunk_id, "text": "nothing", "embedding": [0.1] * 384}
    method, path, asked = {
        "document": ("DELETE", f"/api/rag/documents/{document_id}", {"query_string": {"collection": collection}}),
        "chunk": ("DELETE", f"{place}/documents", {"json": {"ids": [chunk_id]}}),
        "replaced text": ("POST", f"{place}/documents", {"json": {"documents": [nothing]}}),
        "collection": ("DELETE", place, {}),
    }[gone]
    assert traces()
    answer = client.open(path, method=method, **asked)
    assert answer.status_code in (200, 201), answer.json
    assert traces() == []


@pytest.mark.slow
def test_the_words_of_a_deleted_document_leave_the_word_index(app, client, collection, told, marker):
    service = app.extensions["rag.service"]

    def in_words():
        with service.catalog.read() as transaction:
            return holds(transaction, "word_blocks", marker[:-5])  # its end may be taken for that of an English word

    document_id, _ = told
    assert in_words()
    client.delete(f"/api/rag/documents/{document_id}", query_string={"collection": collection})
    eventually(lambda: not in_words())


def test_context_tools_keep_nothing_of_a_deleted_document(app, client, traces, marker):
    index = {"content": f"The password of the printers is {marker}.", "source": "tests", "sessionId": marker[:8]}
    indexed = client.post("/tools/rag_context_index", json=index).json
    ask = {"query": "printers", "sessionId": marker[:8]}
    kept = _kept_answers(app)
    (found,) = client.post("/tools/rag_context_search", json=ask).json["results"]
    assert marker in found["content"]
    eventually(lambda: _kept_answers(app) - kept)
    assert client.post("/tools/rag_context_search", json=ask).json["results"] == [found]
    where = {"where": {"document_id": found["metadata"]["documentId"]}}
    name = RetrievalSettings().context_collection
    assert client.delete(f"/collections/{name}/documents?all=true", json=where).json["count"] == 1, indexed
    assert traces() == []
    assert client.post("/tools/rag_context_search", json=ask).json["results"] == []


def _kept_answers(app):
    with app.extensions["rag.service"].catalog.read() as transaction:
        return {row[0] for row in transaction.rows("SELECT key FROM kept_answers")}


def test_every_table_is_known_to_be_ours(app):
    """What is not is neither written anew by an erasure on PostgreSQL nor in a backup."""
    with app.extensions["rag.service"].catalog.freely.read() as transaction:
        tables = {name for (name,) in transaction.rows("SELECT name FROM sqlite_master WHERE type = 'table'")}
        parts = {part for (part,) in transaction.rows("SELECT part FROM part_versions")}
    given_up = {"circuit breakers", *OF_PARTS["circuit breakers"], WORDS}
    assert (tables, parts) == (EVER - given_up, OF_PARTS.keys() - given_up)
