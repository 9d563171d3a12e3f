"""Contract *storage*, "RAG Wrapper Document Storage with Pre-computed Embeddings" and "Collection Metadata Storage"."""

import pytest

from tests.scenarios.databases import ON_BOTH

METADATA = {"title_field": "heading", "match_threshold": 0.4, "provider": "a provider nobody knows"}
DOCUMENTS = [
    {"id": "backups-1", "text": "Backups are kept for 30 days.", "metadata": {"page": 1}, "embedding": [0.6, 0.8, 0.0]},
    {"id": "backups-2", "text": "They are encrypted.", "metadata": {"page": 2}, "embedding": [0.0, 0.5, -0.5]},
]


@ON_BOTH
def test_add_documents_with_pre_computed_embeddings(client, chroma, filled):
    """WHEN POST `/collections/{collection_name}/documents` is called with documents containing `text`, `metadata`, and
    `embedding` fields THEN it stores documents in ChromaDB with provided embeddings and returns success with document
    count."""
    name = filled()
    answer = client.post(f"/collections/{name}/documents", json={"documents": DOCUMENTS})
    assert answer.status_code == 201
    assert answer.json["status"] == "added"
    assert answer.json["count"] == 2
    stored = chroma.get_collection(name, embedding_function=None).get(include=["documents", "metadatas", "embeddings"])
    assert stored["ids"] == ["backups-1", "backups-2"]
    assert stored["documents"] == ["Backups are kept for 30 days.", "They are encrypted."]
    assert stored["metadatas"] == [{"page": 1}, {"page": 2}]
    assert stored["embeddings"].tolist() == [pytest.approx([0.6, 0.8, 0.0]), pytest.approx([0.0, 0.5, -0.5])]


def test_add_documents_without_embeddings(client, filled, unchanged):
    """WHEN … is called with documents missing `embedding` field THEN it returns 400 error: `All documents must include
    pre-computed embeddings`."""
    name = filled()
    with unchanged(name):
        documents = [DOCUMENTS[0], {"text": "no vector", "metadata": {}}]
        answer = client.post(f"/collections/{name}/documents", json={"documents": documents})
    assert answer.status_code == 400
    assert answer.json["error"] == "All documents must include pre-computed embeddings"


@pytest.mark.parametrize("embedding", ["three numbers", [0.1, "0.2"], {"values": [0.1]}, [[0.1]], 7, True, []])
def test_add_documents_with_invalid_embedding_format(client, filled, unchanged, embedding):
    """WHEN … is called with embedding field that is not an array of numbers THEN it returns 400 error describing the
    invalid format."""
    name = filled()
    with unchanged(name):
        documents = [DOCUMENTS[0], {"text": "faulty", "embedding": embedding}]
        answer = client.post(f"/collections/{name}/documents", json={"documents": documents})
    assert answer.status_code == 400
    assert "embedding" in answer.json["error"]
    assert answer.json["details"]["index"] == 1


def test_add_documents_with_mismatched_embedding_dimensions(client, filled, unchanged):
    """WHEN multiple documents in the same request have embeddings with different dimensions THEN it returns 400 error
    indicating dimension mismatch."""
    name = filled()
    with unchanged(name):
        documents = [DOCUMENTS[0], {"text": "shorter", "embedding": [0.1, 0.2]}]
        answer = client.post(f"/collections/{name}/documents", json={"documents": documents})
    assert answer.status_code == 400
    assert "dimension mismatch" in answer.json["error"]


def test_empty_documents_array(client, filled, unchanged):
    """WHEN … is called with empty documents array THEN it returns 400 error: `Documents array is required`."""
    name = filled()
    with unchanged(name):
        answer = client.post(f"/collections/{name}/documents", json={"documents": []})
    assert answer.status_code == 400
    assert answer.json["error"] == "Documents array is required"


def test_create_collection_with_metadata(client, chroma, collection):
    """WHEN POST `/collections` is called with `name`, optional top-level `embedding_provider` and `embedding_model`, and
    `metadata` THEN it creates the collection in ChromaDB, honors any top-level embedding fields as metadata, and stores
    all metadata without provider-type validation."""
    body = {
        "name": collection,
        "embedding_provider": "no-such-provider",
        "embedding_model": "all-MiniLM-L6-v2",
        "metadata": METADATA,
    }
    answer = client.post("/collections", json=body)
    assert answer.status_code == 201
    expected = {**METADATA, "embedding_provider": "no-such-provider", "embedding_model": "all-MiniLM-L6-v2"}
    assert answer.json["metadata"] == expected
    assert chroma.get_collection(collection, embedding_function=None).metadata == expected


def test_retrieve_collection_with_metadata(client, filled):
    """WHEN GET `/collections/{collection_name}` is called THEN it returns collection information including stored
    metadata."""
    name = filled(metadata=METADATA)
    answer = client.get(f"/collections/{name}")
    assert answer.status_code == 200
    assert answer.json["name"] == name
    assert answer.json["count"] == 0
    assert answer.json["metadata"] == METADATA


@ON_BOTH
def test_update_collection_metadata(client, chroma, filled):
    """WHEN PUT `/collections/{collection_name}/metadata` is called with new metadata THEN it updates the collection
    metadata and returns success."""
    name = filled(metadata=METADATA)
    answer = client.put(f"/collections/{name}/metadata", json={"metadata": {"language": "en"}})
    assert answer.status_code == 200
    assert answer.json["status"] == "updated"
    assert client.get(f"/collections/{name}").json["metadata"] == {"language": "en"}
    assert chroma.get_collection(name, embedding_function=None).metadata == {"language": "en"}


def test_retrieve_all_collections_with_metadata(client, filled):
    """WHEN GET `/collections` is called THEN it returns all collections with their metadata."""
    name = filled(metadata=METADATA)
    second = f"{name}-second"
    assert client.post("/collections", json={"name": second, "metadata": {"language": "en"}}).status_code == 201
    found = {each["name"]: each["metadata"] for each in client.get("/collections").json["collections"]}
    assert found[name] == METADATA
    assert found[second] == {"language": "en"}
