"""What a worker remembers of a collection is nothing that a later collection of the same name is asked for."""

from concurrent.futures import ThreadPoolExecutor

ASKED = 12
"""Connections, which the service spreads evenly over its workers."""


def test_no_worker_answers_from_a_deleted_collection(serve):
    service = serve(workers=2)

    def fill(text):
        metadata = {"source": "handbook", "doc_type": "ops", "last_update_date": "2025-10-02"}
        documents = [{"document_id": None, "filename": "keys.md", "content": text, "metadata": metadata}]
        body = {"documents": documents, "collection": "keys"}
        with service.session() as session:
            assert session.post(f"{service.url}/api/rag/documents:batch", json=body).json()["errors"] == []
            return session.get(f"{service.url}/collections/keys").json()["revision"]

    def ask(_):
        body = {"query": "the key of the house", "context_key": "a:b", "collection": "keys", "min_relevance": 0}
        with service.session() as session:
            (found,) = session.post(f"{service.url}/api/rag/retrieve", json=body).json()["document_chunks"]
            return found["text"]

    with ThreadPoolExecutor(4) as pool:
        revision = fill("The key of the house lies under the red stone.")
        assert all("red stone" in text for text in pool.map(ask, range(ASKED)))
        with service.session() as session:
            assert session.delete(f"{service.url}/collections/keys").status_code == 200
        assert fill("The key of the house hangs in the kitchen.") == revision
        assert all("kitchen" in text for text in pool.map(ask, range(ASKED)))
