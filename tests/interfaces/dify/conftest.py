"""Collections whose documents the service itself embedded."""

from __future__ import annotations

import uuid

import pytest


@pytest.fixture(scope="module")
def text_collection(app):
    """`text_collection(documents)` makes a collection of (text, metadata) by id for all tests of a module, and returns
    its name."""
    made = []

    def make(documents):
        name, client = f"dify-{uuid.uuid4().hex[:16]}", app.test_client()
        embedding = app.extensions["rag.layers"].connections.open("default", "embedding")
        metadata = {"embedding_model": embedding.model}
        assert client.post("/collections", json={"name": name, "metadata": metadata}).status_code == 201
        made.append(name)
        vectors = embedding.embed([text for text, _ in documents.values()]).tolist()
        stored = [
            {"id": each, "text": text, "metadata": metadata, "embedding": vector}
            for (each, (text, metadata)), vector in zip(documents.items(), vectors, strict=True)
        ]
        assert client.post(f"/collections/{name}/documents", json={"documents": stored}).status_code == 201
        return name

    yield make
    for name in made:
        app.test_client().delete(f"/collections/{name}")
