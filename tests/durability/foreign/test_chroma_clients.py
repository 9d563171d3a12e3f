"""Any Chroma client connected to the engine sees the collections as the service's own clients do."""

import numpy as np
import pytest
from chromadb.errors import NotFoundError


@pytest.fixture
def held(chroma, collection):
    """Return everything that Chroma's own client reads of the test's collection: {id: (text, metadata, embedding)}."""

    def read():
        found = chroma.get_collection(collection, embedding_function=None).get(
            include=["documents", "metadatas", "embeddings"]
        )
        rows = zip(found["ids"], found["documents"], found["metadatas"], found["embeddings"], strict=True)
        return {each: (text, metadata, np.round(vector, 5).tolist()) for each, text, metadata, vector in rows}

    return read


@pytest.fixture
def add(client, collection):
    """`add(*documents, where=…)` adds documents to the test's collection, and replaces those that a filter matches."""

    def post(*documents, where=""):
        path = f"/collections/{collection}/documents{where and f'?replace_where={where}'}"
        assert client.post(path, json={"documents": documents}).status_code == 201

    return post


def _document(document_id, text, embedding, **metadata):
    return {"id": document_id, "text": text, "metadata": metadata, "embedding": embedding}


def test_documents_are_seen_as_they_were_given(filled, held, chroma):
    name = filled(
        [_document("a", "Alpha", [1.0, 0.0], page=1, section="s"), _document("b", "Beta", [0.0, 1.0], page=2)],
        metadata={"title": "Handbook"},
    )
    assert held() == {"a": ("Alpha", {"page": 1, "section": "s"}, [1.0, 0.0]), "b": ("Beta", {"page": 2}, [0.0, 1.0])}
    seen = chroma.get_collection(name, embedding_function=None)
    assert seen.metadata["title"] == "Handbook"
    assert seen.query(query_embeddings=[[1.0, 0.1]], n_results=1)["ids"] == [["a"]]
    assert seen.query(query_embeddings=[[1.0, 0.1]], n_results=2, where={"page": 2})["ids"] == [["b"]]


def test_a_patch_a_delete_and_a_swap_are_seen(filled, held, client, add):
    name = filled([_document(each, each, [1.0, 0.0], source="s", page=1) for each in ("a", "b", "c")])
    patched = client.patch(f"/collections/{name}/documents/a", json={"text": "A", "metadata": {"page": None, "new": 1}})
    assert patched.status_code == 200
    assert client.delete(f"/collections/{name}/documents", json={"ids": ["b"]}).status_code == 200
    assert held() == {"a": ("A", {"source": "s", "new": 1}, [1.0, 0.0]), "c": ("c", {"source": "s", "page": 1}, [1, 0])}
    given = [_document(each, each.upper(), [0.0, 1.0], source="s") for each in ("c", "d")]
    add(*given, where='{"source":"s"}')
    assert held() == {"c": ("C", {"source": "s"}, [0.0, 1.0]), "d": ("D", {"source": "s"}, [0.0, 1.0])}


def test_a_deleted_collection_is_gone_and_may_be_created_again_and_its_changed_metadata_are_seen(
    filled, held, client, chroma, add
):
    name = filled([_document("a", "first", [1.0, 0.0], page=1)], metric="l2")
    assert client.delete(f"/collections/{name}").status_code == 200
    with pytest.raises(NotFoundError):
        chroma.get_collection(name, embedding_function=None)
    assert client.post("/collections", json={"name": name, "metadata": {"new": True}}).status_code == 201
    add(_document("b", "second", [0.0, 0.0, 1.0]))
    assert list(held()) == ["b"]
    seen = chroma.get_collection(name, embedding_function=None)
    assert seen.metadata["new"] is True
    assert seen.configuration_json["hnsw"]["space"] == "cosine"
    change = {"metadata": {"new": None, "changed": 3}}
    assert client.patch(f"/collections/{name}/metadata", json=change).status_code == 200
    metadata = chroma.get_collection(name, embedding_function=None).metadata
    assert {key: value for key, value in metadata.items() if not key.startswith("rag:")} == {"changed": 3}
