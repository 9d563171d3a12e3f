"""Contract *storage*, "RAG Wrapper Document Storage with Pre-computed Embeddings" and "Collection Metadata Storage"."""

from unittest.mock import ANY

import pytest

from tests.scenarios.databases import ON_BOTH

OURS = {"rag:catalogue": ANY}
"""What says in Chroma whose a collection is."""
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


WITHOUT = [DOCUMENTS[0], {"text": "no vector", "metadata": {}}]
OF_ANOTHER_DIMENSION = [DOCUMENTS[0], {"text": "shorter", "embedding": [0.1, 0.2]}]
NO_ARRAYS = ("three numbers", [0.1, "0.2"], {"values": [0.1]}, [[0.1]], 7, True, [])


@pytest.mark.parametrize(
    ("documents", "sentence"),
    [
        pytest.param(WITHOUT, "All documents must include pre-computed embeddings", id="without embeddings"),
        pytest.param(OF_ANOTHER_DIMENSION, "…dimension mismatch", id="mismatched embedding dimensions"),
        pytest.param([], "Documents array is required", id="empty documents array"),
        *(
            pytest.param([DOCUMENTS[0], {"text": "faulty", "embedding": each}], "…embedding", id=f"no array: {each}")
            for each in NO_ARRAYS
        ),
    ],
)
def test_add_documents_that_are_refused(client, filled, unchanged, documents, sentence):
    """WHEN … is called with documents missing `embedding` field, with embedding field that is not an array of numbers, with
    embeddings of different dimensions in the same request or with empty documents array THEN it returns 400 error: `All
    documents must include pre-computed embeddings`, describing the invalid format, indicating dimension mismatch or
    `Documents array is required`."""
    name = filled()
    with unchanged(name):
        answer = client.post(f"/collections/{name}/documents", json={"documents": documents})
    assert answer.status_code == 400
    said = answer.json["error"]
    assert sentence.removeprefix("…") in said if sentence.startswith("…") else said == sentence
    assert sentence != "…embedding" or answer.json["details"]["index"] == 1


def test_create_collection_with_metadata(client, chroma, collection):
    """WHEN POST `/collections` is called with `name`, optional top-level `embedding_provider` and `embedding_model`, and
    `metadata` THEN it creates the collection in ChromaDB, honors any top-level embedding fields as metadata, and stores
    all metadata without provider-type validation."""
    embedded = {"embedding_provider": "no-such-provider", "embedding_model": "all-MiniLM-L6-v2"}
    answer = client.post("/collections", json={"name": collection, "metadata": METADATA, **embedded})
    assert answer.status_code == 201
    expected = METADATA | embedded
    assert answer.json["metadata"] == expected
    assert chroma.get_collection(collection, embedding_function=None).metadata == expected | OURS


def test_retrieve_collection_with_metadata(client, filled):
    """WHEN GET `/collections/{collection_name}` is called THEN it returns collection information including stored
    metadata."""
    name = filled(metadata=METADATA)
    answer = client.get(f"/collections/{name}")
    assert answer.status_code == 200
    assert (answer.json["name"], answer.json["count"], answer.json["metadata"]) == (name, 0, METADATA)


@ON_BOTH
def test_update_collection_metadata(client, chroma, filled):
    """WHEN PUT `/collections/{collection_name}/metadata` is called with new metadata THEN it updates the collection
    metadata and returns success."""
    name = filled(metadata=METADATA)
    answer = client.put(f"/collections/{name}/metadata", json={"metadata": {"language": "en"}})
    assert answer.status_code == 200
    assert answer.json["status"] == "updated"
    assert client.get(f"/collections/{name}").json["metadata"] == {"language": "en"}
    assert chroma.get_collection(name, embedding_function=None).metadata == {"language": "en"} | OURS


def test_retrieve_all_collections_with_metadata(client, filled):
    """WHEN GET `/collections` is called THEN it returns all collections with their metadata."""
    name = filled(metadata=METADATA)
    second = f"{name}-second"
    assert client.post("/collections", json={"name": second, "metadata": {"language": "en"}}).status_code == 201
    found = {each["name"]: each["metadata"] for each in client.get("/collections").json["collections"]}
    assert found[name] == METADATA
    assert found[second] == {"language": "en"}
