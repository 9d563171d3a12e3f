"""Contract *storage*, "Collection Metadata Storage"."""

from tests.scenarios.databases import ON_BOTH

METADATA = {"title_field": "heading", "match_threshold": 0.4, "provider": "a provider nobody knows"}


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
