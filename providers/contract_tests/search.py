"""Search by a vector: the order, the distance and the score are the exact ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from providers.base import SupportsMetadataFiltering, SupportsSearch
from providers.contract_tests.abilities import can, needs
from providers.contract_tests.model import ModelCollection, ModelDocument
from providers.contract_tests.samples import where
from schemas.errors import InvalidInputError
from schemas.records import DocumentBatch
from schemas.scores import rounded, score

COUNT, DIMENSION = 40, 8
FILTERS: tuple[dict[str, Any], ...] = ({}, {"even": True}, {"n": {"$gte": 10, "$lt": 20}}, {"n": {"$nin": [0, 1, 2]}})


class SearchTests:
    metrics: tuple[str, ...]

    @needs(SupportsSearch)
    def test_order_distance_and_score_are_the_exact_ones(self, provider: Any, made: Any) -> None:
        conditions = FILTERS if can(provider, SupportsMetadataFiltering) else FILTERS[:1]
        for metric in self.metrics:
            model = _model(metric)
            name = made(_stored(model), metric=metric)
            for seed in range(3):
                query = np.random.default_rng(seed).normal(size=DIMENSION).astype("f4")
                for condition in conditions:
                    expected = model.nearest(query, 5, condition)
                    asked = {"where": where(condition)} if condition else {}
                    found = provider.search(name, query, top_k=5, **asked)
                    assert [each.document.id for each in found] == [document_id for document_id, _ in expected]
                    distances = [distance for _, distance in expected]
                    np.testing.assert_allclose([each.distance for each in found], distances, rtol=1e-4, atol=1e-5)
                    nearest = model.by_id(found[0].document.id)
                    assert nearest is not None
                    assert (found[0].document.text, found[0].document.metadata) == (nearest.text, nearest.metadata)

    @needs(SupportsSearch)
    def test_distances_and_scores_are_rounded_alike(self, provider: Any, made: Any) -> None:
        """Two providers, or two releases, give the same numbers, so a threshold means the same at all of them."""
        for metric in self.metrics:
            model = _model(metric)
            for each in provider.search(made(_stored(model), metric=metric), np.ones(DIMENSION, "f4"), top_k=COUNT):
                assert each.distance == rounded(each.distance, metric), "schemas.scores.rounded"
                assert each.score == score(each.distance, metric), "schemas.scores.score"

    @needs(SupportsSearch)
    def test_the_same_vector_is_at_no_distance(self, provider: Any, made: Any) -> None:
        for metric in {*self.metrics} - {"ip"}:
            model = _model(metric)
            name = made(_stored(model), metric=metric)
            (found,) = provider.search(name, model.documents[3].embedding, top_k=1)
            assert found.document.id == "d3"
            assert found.distance == pytest.approx(0, abs=1e-5)
            assert found.score == pytest.approx(1, abs=1e-5)

    @needs(SupportsSearch)
    def test_as_many_are_found_as_there_are(self, provider: Any, made: Any) -> None:
        name, query = made(_stored(_model(self.metrics[0]))), np.ones(DIMENSION, "f4")
        assert len(provider.search(name, query, top_k=1000)) == COUNT
        assert len(provider.search(name, query)) == 3
        assert provider.search(made(), query) == []

    @needs(SupportsSearch, SupportsMetadataFiltering)
    def test_no_more_are_found_than_match(self, provider: Any, made: Any) -> None:
        name, query = made(_stored(_model(self.metrics[0]))), np.ones(DIMENSION, "f4")
        assert len(provider.search(name, query, top_k=9, where=where({"n": {"$lt": 4}}))) == 4
        assert provider.search(name, query, where=where({"n": -1})) == []
        assert provider.search(name, query, where=where({"n": {"$in": []}})) == []

    @needs(SupportsSearch)
    def test_a_malformed_search_is_refused(self, provider: Any, made: Any) -> None:
        name, query = made(_stored(_model(self.metrics[0]))), np.ones(DIMENSION, "f4")
        for vector, top_k in ((query, 0), (query, -1), (query, 1001), (query * np.nan, 3), (np.empty(0, "f4"), 3)):
            with pytest.raises(InvalidInputError):
                provider.search(name, vector, top_k=top_k)
        with pytest.raises(InvalidInputError):
            provider.search(name, np.ones((2, DIMENSION), "f4"))

    @needs(SupportsSearch)
    def test_a_vector_of_another_dimension_is_told_with_both_numbers(self, provider: Any, made: Any) -> None:
        name = made(_stored(_model(self.metrics[0])))
        with pytest.raises(InvalidInputError, match=f"has {DIMENSION}, got 3") as raised:
            provider.search(name, np.ones(3, "f4"))
        assert (raised.value.details["expected"], raised.value.details["actual"]) == (DIMENSION, 3)
        assert raised.value.code == "dimension_mismatch"


def _model(metric: str) -> ModelCollection:
    vectors = np.random.default_rng(7).normal(size=(COUNT, DIMENSION)).astype("f4")
    documents = [ModelDocument(f"d{n}", f"text {n}", {"n": n, "even": n % 2 == 0}, vectors[n]) for n in range(COUNT)]
    return ModelCollection(metric=metric, dimension=DIMENSION, documents=documents)


def _stored(model: ModelCollection) -> DocumentBatch:
    return DocumentBatch(
        [each.id for each in model.documents],
        [each.text for each in model.documents],
        [each.metadata for each in model.documents],
        np.stack([each.embedding for each in model.documents]),
    )
