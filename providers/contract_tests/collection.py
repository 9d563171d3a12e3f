"""Collections: found, created and deleted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from providers.base import (
    SupportsDynamicCollections,
    SupportsEmbeddings,
    SupportsGather,
    SupportsMetadataFiltering,
    SupportsOrderBy,
    SupportsSearch,
    SupportsTextSearch,
)
from providers.contract_tests.abilities import can, needs
from providers.contract_tests.samples import DIMENSION, batch, where
from schemas.errors import CollectionNotFoundError, ConflictError, InvalidInputError
from schemas.records import GatherSpec, OrderBy


class CollectionTests:
    metrics: tuple[str, ...]

    def test_a_collection_tells_its_count_metric_and_dimension(self, provider: Any, made: Any) -> None:
        for metric in self.metrics:
            name = made(batch(("a", {}), ("b", {})), metric=metric)
            found = provider.collection(name)
            assert (found.name, found.count, found.metric, found.dimension) == (name, 2, metric, DIMENSION)
            assert found in provider.collections()

    def test_an_empty_collection_has_no_dimension(self, provider: Any, made: Any) -> None:
        found = provider.collection(made())
        assert (found.count, found.dimension) == (0, None)

    def test_collections_come_by_name(self, provider: Any, made: Any) -> None:
        names = sorted(made(batch(("a", {}))) for _ in range(3))
        found = [each.name for each in provider.collections()]
        assert [each for each in found if each in names] == names
        assert found == sorted(found)
        tried = provider.try_out()
        assert [each["name"] for each in tried["collections"]] == found
        assert tried["collections_count"] == len(found)

    @pytest.mark.parametrize("unknown", ["no-such-collection", "../../etc", "a b/ü?#", "."])
    def test_an_unknown_collection_is_told_from_everything_else(self, provider: Any, unknown: str) -> None:
        for ask in (lambda: provider.collection(unknown), *_questions(provider, unknown)):
            with pytest.raises(CollectionNotFoundError) as raised:
                ask()
            assert raised.value.message == f"Collection '{unknown}' not found"

    @needs(SupportsDynamicCollections, SupportsEmbeddings)
    def test_a_new_collection_is_what_was_asked_for(self, provider: Any, made: Any) -> None:
        for metric in self.metrics:
            created = provider.collection(made(metric=metric, topic="tests", n=1))
            assert (created.metric, created.count, created.dimension) == (metric, 0, None)
            assert created.metadata.items() >= {"topic": "tests", "n": 1}.items()

    @needs(SupportsDynamicCollections)
    def test_several_are_looked_up_by_name(self, provider: Any, made: Any) -> None:
        names = [made(metric=self.metrics[0]), made(metric=self.metrics[0])]
        found = provider.collections_named([*names, "test-never-made"])
        assert sorted(each.name for each in found) == sorted(names)
        assert list(provider.collections_named([])) == []

    @needs(SupportsDynamicCollections)
    def test_a_name_is_taken_once(self, provider: Any, made: Any) -> None:
        name = made(metric=self.metrics[-1])
        with pytest.raises(ConflictError):
            provider.create_collection(name, {"other": True}, metric=self.metrics[0])
        assert provider.collection(name).metric == self.metrics[-1]

    @needs(SupportsDynamicCollections, SupportsEmbeddings, SupportsMetadataFiltering)
    def test_a_deleted_collection_is_gone_and_its_name_free(self, provider: Any, made: Any) -> None:
        name = made(batch(("a", {"list": ["x"], "n": 1})), metric=self.metrics[-1], a=1)
        provider.delete_collection(name)
        with pytest.raises(CollectionNotFoundError):
            provider.collection(name)
        assert name not in {each.name for each in provider.collections()}
        provider.create_collection(name, {}, metric=self.metrics[0])
        assert (provider.collection(name).count, provider.collection(name).metric) == (0, self.metrics[0])
        provider.add_documents(name, batch(("a", {"m": 2}), dimension=3))
        (found,) = provider.documents(name).documents
        assert found.metadata == {"m": 2}

    @pytest.mark.parametrize("name", ["", "a", "x" * 513, "../etc/passwd", "a b", "-ab-", "127.0.0.1", "größe"])
    @needs(SupportsDynamicCollections)
    def test_a_malformed_name_is_refused(self, provider: Any, name: str) -> None:
        with pytest.raises(InvalidInputError):
            provider.create_collection(name, {}, metric=self.metrics[0])

    @needs(SupportsDynamicCollections)
    def test_a_collection_that_cannot_be_kept_is_refused(self, provider: Any) -> None:
        before = {each.name for each in provider.collections()}
        fine = {"metadata": {}, "metric": self.metrics[0]}
        metadata: list[Any] = [{"a": float("nan")}, [], {"hnsw:space": self.metrics[0]}, {"chroma:x": 1}]
        wrong: list[dict[str, Any]] = [{"metric": "manhattan"}, *({"metadata": each} for each in metadata)]
        for each in wrong:
            with pytest.raises(InvalidInputError):
                provider.create_collection("test-never-made", **{**fine, **each})
        assert {each.name for each in provider.collections()} == before


def _questions(provider: Any, name: str) -> list[Callable[[], Any]]:
    """Return every question about a collection that the provider can be asked."""
    first, condition = batch(("a", {})), where({"a": 1})
    questions: dict[type, list[Callable[[], Any]]] = {
        SupportsSearch: [lambda: provider.search(name, first.embeddings[0])],
        SupportsMetadataFiltering: [
            lambda: provider.documents(name),
            lambda: provider.documents(name, condition),
            lambda: provider.documents_by_id(name, ["a"]),
        ],
        SupportsEmbeddings: [
            lambda: provider.add_documents(name, first),
            lambda: provider.delete_documents(name, ids=["a"]),
        ],
        SupportsDynamicCollections: [lambda: provider.delete_collection(name)],
        SupportsTextSearch: [lambda: provider.text_search(name, "a")],
        SupportsGather: [lambda: provider.gather(name, ["a"], GatherSpec(("s",)))],
        SupportsOrderBy: [lambda: provider.ordered_documents(name, order_by=[OrderBy("n")])],
    }
    if can(provider, SupportsMetadataFiltering):
        questions[SupportsEmbeddings].append(lambda: provider.delete_documents(name, where=condition))
    return [ask for ability, asked in questions.items() if can(provider, ability) for ask in asked]
