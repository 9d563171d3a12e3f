"""The `chromadb` provider copes with what only a Chroma server has: its metadata, its metrics, its databases."""

import numpy as np
import pytest

from providers.chroma.provider import ChromaProvider
from providers.contract_tests.samples import batch
from schemas.errors import CollectionNotFoundError, InvalidInputError
from schemas.where import parse_where
from tests.support.live import chroma_client_at


@pytest.fixture
def theirs(stock_chroma):
    """Chroma's own client on the same server, which is empty before and afterwards."""
    with chroma_client_at(stock_chroma.url) as client:

        def empty():
            for each in client.list_collections():
                client.delete_collection(each.name)

        empty()
        yield client
        empty()


@pytest.fixture
def provider(stock_chroma, theirs):
    with ChromaProvider({"url": stock_chroma.url}) as provider:
        yield provider


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("a", value) for value in (None, {"b": 1}, [], [1, "x"], [1, 1.5], [[1]], 2**63)),
        *((key, 1) for key in ("", "$a", "#a", "chroma:a")),
        ("rag:lists", True),
    ],
    ids=str,
)
def test_metadata_that_chroma_would_change_is_refused_by_name(provider, key, value):
    provider.create_collection("docs", {})
    with pytest.raises(InvalidInputError) as raised:
        provider.add_documents("docs", batch(("fine", {}), ("wrong", {key: value})))
    assert (raised.value.details["index"], raised.value.details["key"]) == (1, key)
    assert provider.collection("docs").count == 0


@pytest.mark.parametrize("metadata", [{"a": [1]}, {"a": None}, {"a": {"b": 1}}])
def test_collection_metadata_that_chroma_would_fail_on_is_refused(provider, metadata):
    with pytest.raises(InvalidInputError):
        provider.create_collection("docs", metadata)
    assert provider.collections() == []


def test_other_clients_find_stored_documents_and_the_other_way_round(provider, theirs):
    provider.create_collection("docs", {"topic": "x"}, metric="ip")
    provider.add_documents("docs", batch(("a", {"tags": ["x", "y"], "n": 1}, [1, 2])))
    collection = theirs.get_collection("docs", embedding_function=None)
    assert collection.metadata == {"topic": "x"}
    found = collection.get(where={"tags": {"$contains": "x"}}, include=["documents", "embeddings", "metadatas"])
    assert (found["ids"], found["documents"], found["embeddings"].tolist()) == (["a"], ["text of a"], [[1, 2]])
    collection.add(ids=["theirs"], embeddings=[[2, 1]])
    assert {(each.id, each.text, str(each.metadata)) for each in provider.documents("docs").documents} >= {
        ("theirs", "", "{}")
    }


def test_the_metric_of_old_collections_is_read_and_a_replaced_document_keeps_no_key_of_another_client(provider, theirs):
    theirs.create_collection("old", metadata={"hnsw:space": "cosine"}, embedding_function=None)
    theirs.create_collection("default", embedding_function=None)
    assert [(each.name, each.metric) for each in provider.collections()] == [("default", "l2"), ("old", "cosine")]
    collection = theirs.create_collection("docs", embedding_function=None)
    collection.add(ids=["a"], embeddings=[[1, 2]], documents=["old"], metadatas=[{"old": 1, "both": "x"}])
    provider.add_documents("docs", batch(("a", {"both": 2}, [1, 2])))
    (found,) = provider.documents("docs").documents
    assert (found.text, found.metadata) == ("text of a", {"both": 2})


def test_lists_of_a_deleted_collection_do_not_reappear_and_documents_come_in_the_order_of_their_insertion(provider):
    for _ in range(2):
        provider.create_collection("docs", {})
        provider.add_documents("docs", batch(*((f"d{number}", {"tags": ["x"]}) for number in range(5))))
        provider.delete_collection("docs")
    provider.create_collection("other", {})
    provider.add_documents("other", batch(*((f"d{number}", {}) for number in range(10))))
    assert [each.metadata for each in provider.documents("other").documents] == [{}] * 10
    provider.create_collection("docs", {})
    for number in (3, 1, 2):
        provider.add_documents("docs", batch((f"d{number}", {"n": number}), (f"e{number}", {"n": number})))
    provider.add_documents("docs", batch(("e3", {"n": 3})))
    page = provider.documents("docs", parse_where({"n": {"$gt": 1}}), limit=3)
    assert [each.id for each in page.documents] == ["d3", "e3", "d2"]
    assert [each.position for each in page.documents] == [0, 1, 2]


def test_health_names_a_missing_database(stock_chroma):
    with ChromaProvider({"url": stock_chroma.url, "database": "no/such?one"}) as provider:
        report = provider.health()
        assert (report.status, report.details["error_type"]) == ("unhealthy", "not_found")
        with pytest.raises(CollectionNotFoundError):
            provider.search("docs", np.ones(2, "f4"))
