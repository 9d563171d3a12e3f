"""Collections: made, told, deleted, alike at every provider."""

from __future__ import annotations

import pytest

from schemas.errors import CollectionNotFoundError, ConflictError, InvalidInputError
from schemas.records import METRICS
from tests.providers.contracts.batches import batch


@pytest.mark.parametrize("metric", METRICS)
def test_a_collection_tells_its_count_metric_and_dimension(provider, made, metric):
    name = made(metric, topic="tests", n=1)
    created = provider.collection(name)
    assert (created.name, created.metric, created.count, created.dimension) == (name, metric, 0, None)
    assert created.metadata.items() >= {"topic": "tests", "n": 1}.items()
    provider.add_documents(name, batch(("a", {}), ("b", {})))
    assert (provider.collection(name).count, provider.collection(name).dimension) == (2, 4)
    assert provider.collection(name) in provider.collections()


def test_collections_come_by_name(provider, made):
    names = sorted(made() for _ in range(3))
    found = [each.name for each in provider.collections()]
    assert [each for each in found if each in names] == names
    assert found == sorted(found)
    tried = provider.try_out()
    assert [each["name"] for each in tried["collections"]] == found
    assert tried["collections_count"] == len(found)


def test_a_name_is_taken_once(provider, made):
    name = made(metric="l2")
    with pytest.raises(ConflictError):
        provider.create_collection(name, {"other": True})
    assert provider.collection(name).metric == "l2"


def test_a_deleted_collection_is_gone_and_its_name_free(provider, made):
    name = made("ip", a=1)
    provider.add_documents(name, batch(("a", {"list": ["x"], "n": 1})))
    provider.delete_collection(name)
    with pytest.raises(CollectionNotFoundError):
        provider.collection(name)
    assert name not in {each.name for each in provider.collections()}
    provider.create_collection(name, {}, metric="cosine")
    assert (provider.collection(name).count, provider.collection(name).metric) == (0, "cosine")
    provider.add_documents(name, batch(("a", {"m": 2}), dimension=3))
    (found,) = provider.documents(name).documents
    assert found.metadata == {"m": 2}


@pytest.mark.parametrize("name", ["", "a", "x" * 513, "../etc/passwd", "a b", "-ab-", "127.0.0.1", "größe"])
def test_a_name_that_is_none_is_refused(provider, name):
    with pytest.raises(InvalidInputError):
        provider.create_collection(name, {})


@pytest.mark.parametrize(("metadata", "metric"), [({}, "manhattan"), ({"a": float("nan")}, "cosine"), ([], "cosine")])
def test_a_collection_that_cannot_be_kept_is_refused(provider, name, metadata, metric):
    with pytest.raises(InvalidInputError):
        provider.create_collection(name, metadata, metric=metric)
    assert name not in {each.name for each in provider.collections()}


@pytest.mark.parametrize("unknown", ["no-such-collection", "../../etc", "a b/ü?#", "."])
def test_an_unknown_collection_is_told_from_everything_else(provider, unknown):
    for ask in (
        lambda: provider.collection(unknown),
        lambda: provider.delete_collection(unknown),
        lambda: provider.documents(unknown),
        lambda: provider.documents(unknown, {"a": 1}),
        lambda: provider.search(unknown, batch(("a", {})).embeddings[0]),
        lambda: provider.add_documents(unknown, batch(("a", {}))),
        lambda: provider.delete_documents(unknown, ids=["a"]),
        lambda: provider.delete_documents(unknown, where={"a": 1}),
    ):
        with pytest.raises(CollectionNotFoundError) as raised:
            ask()
        assert raised.value.message == f"Collection '{unknown}' not found"
