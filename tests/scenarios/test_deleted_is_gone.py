"""Deleted data disappears from every table and file at once, whatever was asked about it before; its words disappear
from the word index soon."""

import uuid

import pytest

from schemas.settings import RetrievalSettings
from tests.support.live import eventually

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
        with service.catalog.read() as transaction:
            tables = [
                table
                for table in _tables(transaction, service.catalog.freely.kind)
                if _holds(transaction, table, marker)
            ]
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


def test_a_deleted_document_leaves_no_trace(client, collection, told, traces):
    assert traces()
    document_id, _ = told
    gone = client.delete(f"/api/rag/documents/{document_id}", query_string={"collection": collection})
    assert gone.status_code == 200, gone.json
    assert traces() == []


def test_the_words_of_a_deleted_document_leave_the_word_index(app, client, collection, told, marker):
    service = app.extensions["rag.service"]

    def in_words():
        with service.catalog.read() as transaction:
            return _holds(transaction, "word_blocks", marker[:-5])  # its end may be taken for that of an English word

    document_id, _ = told
    assert in_words()
    client.delete(f"/api/rag/documents/{document_id}", query_string={"collection": collection})
    eventually(lambda: not in_words())


def test_a_deleted_chunk_leaves_no_trace(client, collection, told, traces):
    _, chunk_id = told
    gone = client.delete(f"/collections/{collection}/documents", json={"ids": [chunk_id]})
    assert gone.json["count"] == 1
    assert traces() == []


def test_a_replaced_text_leaves_no_trace(client, collection, told, traces):
    _, chunk_id = told
    body = {"documents": [{"id": chunk_id, "text": "nothing", "embedding": [0.1] * 384}]}
    assert client.post(f"/collections/{collection}/documents", json=body).json["updated"] == 1
    assert traces() == []


def test_a_deleted_collection_leaves_no_trace(client, collection, told, traces):
    assert client.delete(f"/collections/{collection}").status_code == 200
    assert traces() == []


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


def _tables(transaction, kind):
    """Return all tables but those of the word index, whose words disappear when it merges its segments."""
    every = "SELECT name FROM sqlite_master WHERE type = 'table'"
    if kind != "sqlite":
        every = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
    return [name for (name,) in transaction.rows(every) if not name.startswith("word_")]


def _holds(transaction, table, marker):
    return any(marker in _readable(value) for row in transaction.rows(f"SELECT * FROM {table}") for value in row)


def _readable(value):
    if isinstance(value, bytes | memoryview):
        return bytes(value).replace(b"\0", b"").decode("latin-1")
    return str(value)
