"""LangChain's own suites for vector stores and retrievers, and what they do not ask: run by `make conformance`."""

from __future__ import annotations

import os
import uuid

import pytest
from langchain_core.documents import Document
from langchain_tests.integration_tests import RetrieversIntegrationTests, VectorStoreIntegrationTests
from rag_wrapper_client import Client, InvalidRequestError, NotFoundError
from rag_wrapper_client.langchain import RagWrapperRetriever, RagWrapperVectorStore

URL = os.environ["RAG_CONFORMANCE_URL"]
TEXT = (
    "# {title}\n\n## Nights\n\n{title} run every night.\n\n## Restores\n\nRestores of {title} are rehearsed in spring."
)


@pytest.fixture(scope="session")
def client():
    with Client(URL) as client:
        yield client


@pytest.fixture
def collection(client):
    name = f"langchain-{uuid.uuid4().hex[:12]}"
    yield name
    client.delete_collection(name)


class TestVectorStore(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, client, collection):
        return RagWrapperVectorStore(collection, self.get_embeddings(), client=client)


@pytest.fixture(scope="session", autouse=True)
def ingested(client):
    for title in ("Backups", "Snapshots", "Archives", "Replicas"):
        client.ingest(source="langchain", path=f"{title}.md", title=title, text=TEXT.format(title=title))


class TestRetriever(RetrieversIntegrationTests):
    @property
    def retriever_constructor(self):
        return RagWrapperRetriever

    @property
    def retriever_constructor_params(self):
        return {"client": Client(URL), "min_relevance": 0}

    @property
    def retriever_query_example(self):
        return "When are restores of backups rehearsed?"


class Plane:
    """Embeds texts that are two numbers."""

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text):
        return [float(number) for number in text.split()]

    async def aembed_documents(self, texts):
        return self.embed_documents(texts)

    async def aembed_query(self, text):
        return self.embed_query(text)


@pytest.fixture
def store(client, collection):
    metadatas = [{"n": 1, "deep": {"tags": ["a", "b"]}}, {"n": 2}, {"n": 3}]
    return RagWrapperVectorStore.from_texts(
        ["1 0", "1 0.01", "0 1"], Plane(), metadatas, ids=["a", "b", "c"], collection=collection, client=client
    )


def ids(documents):
    return [each.id for each in documents]


def test_a_filter_is_a_where(store):
    assert ids(store.similarity_search("1 0", k=3, filter={"n": {"$gte": 2}})) == ["b", "c"]
    assert store.similarity_search("1 0", k=1)[0].metadata == {"n": 1, "deep": {"tags": ["a", "b"]}}
    with pytest.raises(InvalidRequestError):
        store.similarity_search("1 0", filter={"n": {"$greater": 2}})


async def test_a_filter_is_one_when_awaited_too(store):
    assert ids(await store.asimilarity_search("1 0", k=3, filter={"n": {"$gte": 2}})) == ["b", "c"]
    assert ids(await store.asimilarity_search_by_vector([1.0, 0.0], k=1, filter={"n": 3})) == ["c"]
    assert [score for _, score in await store.asimilarity_search_with_relevance_scores("1 0", k=1)] == [1.0]
    assert ids(await store.amax_marginal_relevance_search("1 0", k=2, lambda_mult=0.1)) == ["a", "c"]
    assert await store.adelete(filter={"n": 3})
    assert ids(await store.aget_by_ids(["a", "b", "c"])) == ["a", "b"]


def test_scores_are_relevances(store):
    scored = store.similarity_search_with_relevance_scores("1 0", k=3)
    assert [document.id for document, _ in scored] == ["a", "b", "c"]
    assert scored[0][1] == 1.0
    assert 0 <= scored[2][1] < scored[1][1] < 1
    near = store.as_retriever(search_type="similarity_score_threshold", search_kwargs={"score_threshold": 0.9})
    assert ids(near.invoke("1 0")) == ["a", "b"]


def test_what_is_alike_comes_once(store):
    assert ids(store.max_marginal_relevance_search("1 0", k=2, lambda_mult=0.1)) == ["a", "c"]
    assert ids(store.similarity_search("1 0", k=2)) == ["a", "b"]
    mmr = store.as_retriever(search_type="mmr", search_kwargs={"k": 2, "lambda_mult": 0.1, "filter": {"n": {"$lt": 3}}})
    assert ids(mmr.invoke("1 0")) == ["a", "b"]


def test_an_argument_that_nothing_reads_is_refused(store):
    with pytest.raises(TypeError, match="where"):
        store.similarity_search("1 0", where={"n": 1})
    with pytest.raises(TypeError, match="filters"):
        RagWrapperRetriever(client=store.client).invoke("backups", filters={"n": 1})


def test_many_documents_come_in_batches(store):
    documents = [Document(id=f"d{n}", page_content=f"{n} 1") for n in range(1, 26)]
    assert store.add_documents(documents, batch_size=10) == ids(documents)
    assert store.delete(ids(documents))
    assert store.delete()
    assert store.similarity_search("1 0") == []


def test_a_store_uses_what_is_there(store, client, collection):
    assert ids(RagWrapperVectorStore(collection, Plane(), client=client).similarity_search("0 1", k=1)) == ["c"]
    with pytest.raises(NotFoundError):
        client.collection("langchain-none")


def test_the_retriever_knows_relevance_and_filters(client):
    retriever = RagWrapperRetriever(client=client, k=2, filter={"path": "Backups.md"}, min_relevance=0)
    passages = retriever.invoke("restores of backups")
    assert {each.metadata["path"] for each in passages} == {"Backups.md"}
    assert passages[0].metadata["collection"] == "rag-documents"
    assert 0 < passages[0].metadata["relevance"] <= 1
    assert passages[0].id
    assert retriever.invoke("What is the capital of France?", min_relevance=0.99, oracles=["semantic"]) == []


async def test_the_retriever_gives_whole_sections(client):
    retriever = RagWrapperRetriever(client=client, min_relevance=0, gather={"by": "path", "order_by": "chunk_index"})
    (first, *_) = await retriever.ainvoke("When are restores of backups rehearsed?", k=3)
    assert first.metadata["group_key"] == first.metadata["path"] == "Backups.md"
    assert "run every night" in first.page_content
    assert "rehearsed in spring" in first.page_content
    assert first.metadata["complete"]


def test_nothing_shows_the_key():
    with Client(URL, "open-sesame") as client:
        assert "sesame" not in repr(RagWrapperRetriever(client=client))
