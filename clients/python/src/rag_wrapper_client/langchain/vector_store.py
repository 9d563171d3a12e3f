"""A vector store of LangChain over one collection."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.runnables.config import run_in_executor
from langchain_core.vectorstores import VectorStore
from langchain_core.vectorstores.utils import maximal_marginal_relevance

from rag_wrapper_client.client import Client
from rag_wrapper_client.documents import NewDocument
from rag_wrapper_client.embeddings import matrix
from rag_wrapper_client.errors import ConflictError, NotFoundError
from rag_wrapper_client.wire.shared import Metric

Where = Mapping[str, Any]
Scored = list[tuple[Document, float]]
IDS_AT_ONCE = 10_000
"""The most ids that the service takes in one request."""


class RagWrapperVectorStore(VectorStore):
    """The documents of a collection, found by vectors that `embedding` makes.

    A collection that does not exist is created. Texts, metadata and ids come back as they were given, and a document
    whose id exists is replaced. `filter` is a `where` of the service (docs/api-guide.md, "Filters"). Scores are 0 to 1,
    1 for what is nearest, whatever the metric. An argument that nothing reads is refused.
    """

    def __init__(
        self,
        collection: str,
        embedding: Embeddings,
        *,
        client: Client | None = None,
        url: str = "http://127.0.0.1:5006",
        api_key: str | Callable[[], str] | None = None,
        metric: Metric = "cosine",
        collection_metadata: Mapping[str, Any] | None = None,
    ) -> None:
        self.client = client or Client(url, api_key)
        self.collection = collection
        self._embedding = embedding
        self._create(metric, collection_metadata)

    @property
    def embeddings(self) -> Embeddings:
        return self._embedding

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        collection: str = "langchain",
        **kwargs: Any,
    ) -> Self:
        """Return a store with these texts in it. The other arguments are those of the class."""
        store = cls(collection, embedding, **kwargs)
        store.add_texts(texts, metadatas, ids=ids)
        return store

    @classmethod
    async def afrom_texts(
        cls,
        texts: list[str],
        embedding: Embeddings,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        collection: str = "langchain",
        **kwargs: Any,
    ) -> Self:
        store = await run_in_executor(None, cls, collection, embedding, **kwargs)
        await store.aadd_texts(texts, metadatas, ids=ids)
        return store

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        batch_size: int = 500,
        **kwargs: Any,
    ) -> list[str]:
        """Store texts, `batch_size` in a transaction, and return their ids; those without one get one."""
        _refuse(kwargs)
        listed = list(texts)
        return self._stored(listed, self._embedding.embed_documents(listed), metadatas, ids, batch_size)

    async def aadd_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        batch_size: int = 500,
        **kwargs: Any,
    ) -> list[str]:
        _refuse(kwargs)
        listed = list(texts)
        vectors = await self._embedding.aembed_documents(listed)
        return await run_in_executor(None, self._stored, listed, vectors, metadatas, ids, batch_size)

    def delete(self, ids: list[str] | None = None, *, filter: Where | None = None, **kwargs: Any) -> bool:
        """Delete by ids, or by a filter that does not match everything; without either, delete all documents."""
        _refuse(kwargs)
        if filter is not None:
            self.client.delete_documents(self.collection, ids=ids, where=filter)
        elif ids is None:
            self.client.empty_collection(self.collection)
        else:
            for start in range(0, len(ids), IDS_AT_ONCE):
                self.client.delete_documents(self.collection, ids=ids[start : start + IDS_AT_ONCE])
        return True

    async def adelete(self, ids: list[str] | None = None, *, filter: Where | None = None, **kwargs: Any) -> bool:
        return await run_in_executor(None, self.delete, ids, filter=filter, **kwargs)

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        return [_document(found) for found in self.client.documents_by_id(self.collection, list(ids))]

    def similarity_search(
        self, query: str, k: int = 4, *, filter: Where | None = None, **kwargs: Any
    ) -> list[Document]:
        return [document for document, _ in self.similarity_search_with_score(query, k, filter=filter, **kwargs)]

    async def asimilarity_search(
        self, query: str, k: int = 4, *, filter: Where | None = None, **kwargs: Any
    ) -> list[Document]:
        return [document for document, _ in await self.asimilarity_search_with_score(query, k, filter=filter, **kwargs)]

    def similarity_search_with_score(
        self, query: str, k: int = 4, *, filter: Where | None = None, **kwargs: Any
    ) -> Scored:
        """Return the nearest documents with their scores, 1 for the nearest there can be."""
        _refuse(kwargs)
        return self._nearest(self._embedding.embed_query(query), k, filter)

    async def asimilarity_search_with_score(
        self, query: str, k: int = 4, *, filter: Where | None = None, **kwargs: Any
    ) -> Scored:
        _refuse(kwargs)
        vector = await self._embedding.aembed_query(query)
        return await run_in_executor(None, self._nearest, vector, k, filter)

    def similarity_search_by_vector(
        self, embedding: list[float], k: int = 4, *, filter: Where | None = None, **kwargs: Any
    ) -> list[Document]:
        _refuse(kwargs)
        return [document for document, _ in self._nearest(embedding, k, filter)]

    async def asimilarity_search_by_vector(
        self, embedding: list[float], k: int = 4, *, filter: Where | None = None, **kwargs: Any
    ) -> list[Document]:
        return await run_in_executor(None, self.similarity_search_by_vector, embedding, k, filter=filter, **kwargs)

    def max_marginal_relevance_search(
        self,
        query: str,
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        *,
        filter: Where | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        _refuse(kwargs)
        return self._diverse(self._embedding.embed_query(query), k, fetch_k, lambda_mult, filter)

    async def amax_marginal_relevance_search(
        self,
        query: str,
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        *,
        filter: Where | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        _refuse(kwargs)
        vector = await self._embedding.aembed_query(query)
        return await run_in_executor(None, self._diverse, vector, k, fetch_k, lambda_mult, filter)

    def max_marginal_relevance_search_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        *,
        filter: Where | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        _refuse(kwargs)
        return self._diverse(embedding, k, fetch_k, lambda_mult, filter)

    async def amax_marginal_relevance_search_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        *,
        filter: Where | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        _refuse(kwargs)
        return await run_in_executor(None, self._diverse, embedding, k, fetch_k, lambda_mult, filter)

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        return float

    def _create(self, metric: Metric, metadata: Mapping[str, Any] | None) -> None:
        try:
            self.client.collection(self.collection)  # whoever may only read may use one that is there
        except NotFoundError:
            try:
                self.client.create_collection(self.collection, metric=metric, metadata=metadata)
            except ConflictError:
                return  # somebody else was faster

    def _stored(
        self,
        texts: list[str],
        vectors: list[list[float]],
        metadatas: list[dict[str, Any]] | None,
        ids: Sequence[str | None] | None,
        batch_size: int,
    ) -> list[str]:
        given = zip(texts, vectors, metadatas or [{} for _ in texts], ids or [None for _ in texts], strict=True)
        documents: list[NewDocument] = [
            {"id": document_id, "text": text, "metadata": metadata, "embedding": vector}
            for text, vector, metadata, document_id in given
        ]
        stored: list[str] = []
        for start in range(0, len(documents), batch_size):
            stored += self.client.add_documents(self.collection, documents[start : start + batch_size])["ids"]
        return stored

    def _nearest(self, vector: Sequence[float], k: int, where: Where | None) -> Scored:
        found = self.client.query(self.collection, vector, top_k=k, where=where)["results"]
        return [(_document(each), each["score"]) for each in found]

    def _diverse(
        self, vector: Sequence[float], k: int, fetch_k: int, lambda_mult: float, where: Where | None
    ) -> list[Document]:
        include = ["id", "text", "metadata", "embedding"]
        found = self.client.query(self.collection, vector, top_k=max(k, fetch_k), where=where, include=include)[
            "results"
        ]
        if not found:
            return []
        chosen = maximal_marginal_relevance(np.asarray(vector), list(matrix(found)), lambda_mult, k)
        return [_document(found[place]) for place in chosen]


def _document(found: Mapping[str, Any]) -> Document:
    return Document(id=found["id"], page_content=found["text"], metadata=found["metadata"])


def _refuse(unread: Mapping[str, Any]) -> None:
    if unread:
        raise TypeError(f"nothing reads {', '.join(map(repr, unread))}: a search would find something else than meant")
