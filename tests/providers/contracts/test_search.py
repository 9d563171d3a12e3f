"""Search: the same order, distance and score at every provider."""

from __future__ import annotations

import numpy as np
import pytest

from schemas.errors import InvalidFilterError, InvalidInputError
from schemas.records import METRICS, DocumentBatch
from schemas.scores import score
from tests.properties.model import ModelCollection, ModelDocument

COUNT, DIMENSION = 40, 8


@pytest.fixture(scope="module")
def model():
    random = np.random.default_rng(7)
    vectors = random.normal(size=(COUNT, DIMENSION)).astype("f4")
    documents = [ModelDocument(f"d{n}", f"text {n}", {"n": n, "even": n % 2 == 0}, vectors[n]) for n in range(COUNT)]
    return ModelCollection(documents=documents, dimension=DIMENSION)


@pytest.fixture
def filled(provider, made, model):
    def fill(metric):
        name = made(metric)
        model.metric = metric
        provider.add_documents(
            name,
            DocumentBatch(
                [each.id for each in model.documents],
                [each.text for each in model.documents],
                [each.metadata for each in model.documents],
                np.stack([each.embedding for each in model.documents]),
            ),
        )
        return name

    return fill


@pytest.mark.parametrize("metric", METRICS)
def test_order_distance_and_score_are_the_exact_ones(provider, filled, model, metric):
    name = filled(metric)
    for seed in range(3):
        query = np.random.default_rng(seed).normal(size=DIMENSION).astype("f4")
        for where in (None, {"even": True}, {"n": {"$gte": 10, "$lt": 20}}, {"n": {"$nin": [0, 1, 2]}}):
            expected = model.nearest(query, 5, where or {})
            found = provider.search(name, query, top_k=5, where=where)
            assert [each.document.id for each in found] == [document_id for document_id, _ in expected]
            distances = [distance for _, distance in expected]
            np.testing.assert_allclose([each.distance for each in found], distances, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose([each.score for each in found], [score(d, metric) for d in distances], atol=1e-5)
            assert found[0].document.text == model.by_id(found[0].document.id).text
            assert found[0].document.metadata == model.by_id(found[0].document.id).metadata


def test_the_same_vector_is_at_no_distance(provider, filled, model):
    for metric in ("cosine", "l2"):
        (found,) = provider.search(filled(metric), model.documents[3].embedding, top_k=1)
        assert found.document.id == "d3"
        assert found.distance == pytest.approx(0, abs=1e-5)
        assert found.score == pytest.approx(1, abs=1e-5)


def test_as_many_are_found_as_there_are(provider, filled, made):
    name = filled("cosine")
    query = np.ones(DIMENSION, "f4")
    assert len(provider.search(name, query, top_k=1000)) == COUNT
    assert len(provider.search(name, query)) == 3
    assert len(provider.search(name, query, top_k=9, where={"n": {"$lt": 4}})) == 4
    assert provider.search(name, query, where={"n": -1}) == []
    assert provider.search(name, query, where={"n": {"$in": []}}) == []
    assert provider.search(made(), query) == []


def test_a_search_that_cannot_be_is_refused(provider, filled):
    name = filled("cosine")
    query = np.ones(DIMENSION, "f4")
    for vector, top_k in ((query, 0), (query, -1), (query, 1001), (query * np.nan, 3), (np.empty(0, "f4"), 3)):
        with pytest.raises(InvalidInputError):
            provider.search(name, vector, top_k=top_k)
    with pytest.raises(InvalidInputError):
        provider.search(name, np.ones((2, DIMENSION), "f4"))
    with pytest.raises(InvalidFilterError) as raised:
        provider.search(name, query, where={"n": {"$foo": 1}})
    assert raised.value.details["pointer"] == "/n/$foo"
