"""A filter means the same at every provider, or is refused."""

from __future__ import annotations

import uuid

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.errors import InvalidFilterError, UnsupportedError
from tests.properties.model import ModelCollection
from tests.properties.strategies import documents, to_batch
from tests.providers.contracts.batches import batch

EXAMPLES, FILTERS_EACH = 30, 8


def test_generated_filters_select_what_the_model_selects(provider, backend):
    _, found = backend
    filters = st.lists(found.filters, min_size=1, max_size=FILTERS_EACH)

    @settings(max_examples=EXAMPLES)
    @given(documents(least=1, most=10, metadata=found.metadata), filters)
    def select(stored, wheres):
        name = f"test-{uuid.uuid4().hex[:16]}"
        provider.create_collection(name, {})
        try:
            provider.add_documents(name, to_batch(stored))
            model = ModelCollection(documents=stored)
            for where in wheres:
                expected = {each.id for each in model.matching(where)}
                page = provider.documents(name, where, limit=100)
                assert {each.id for each in page.documents} == expected
                assert page.total == len(page.documents) == len(expected)
            near = provider.search(name, np.ones(4, "f4"), top_k=100, where=wheres[0])
            assert {each.document.id for each in near} == {each.id for each in model.matching(wheres[0])}
        finally:
            provider.delete_collection(name)

    select()


PLAIN = [
    {"a": 1},
    {"a": 1.0},
    {"a": True},
    {"a": "1"},
    {"a": {"$ne": 1}},
    {"a": {"$in": [1, "1", 2.5]}},
    {"a": {"$nin": [1, 2.5, False]}},
    {"a": {"$gt": 1}},
    {"a": {"$gte": 1.5}},
    {"a": {"$lt": -0.5}},
    {"a": {"$lte": -1.5}},
    {"a": {"$gt": -1.5, "$lt": 2}},
    {"a": {"$contains": 1}},
    {"a": {"$contains": "x"}},
    {"a": {"$not_contains": 2.0}},
    {"a": 1, "b": "y"},
    {"$or": [{"a": 1}, {"b": "y"}]},
    {"$and": [{"a": {"$ne": 1}}, {"$or": [{"b": "y"}, {"a": 2}]}]},
    {"$not": {"$or": [{"a": 1}, {"b": "y"}]}},
    {"$not": {"a": {"$in": [1, "x"]}, "b": "y"}},
]
LADDER = (1, 1.0, True, False, "1", "x", -1, -2, -1.5, -0.5, 0, 2, 1.5, 2.5, [1], [1.0, 2.0], ["x", "1"], [True])


@pytest.fixture(scope="module")
def ladder(provider):
    name = f"test-{uuid.uuid4().hex[:16]}"
    provider.create_collection(name, {})
    metadatas = [{"a": value, **({"b": "y"} if number % 3 == 0 else {})} for number, value in enumerate(LADDER)] + [{}]
    provider.add_documents(name, batch(*((f"d{number}", metadata) for number, metadata in enumerate(metadatas))))
    yield name, metadatas
    provider.delete_collection(name)


@pytest.mark.parametrize("where", PLAIN, ids=str)
def test_each_operator_meets_each_kind_of_value(provider, ladder, where):
    from tests.properties.model import matches

    name, metadatas = ladder
    expected = {f"d{number}" for number, metadata in enumerate(metadatas) if matches(where, metadata)}
    assert {each.id for each in provider.documents(name, where).documents} == expected


def test_what_cannot_be_said_exactly_is_refused_before_anything_is_asked(provider, backend, name):
    _, found = backend
    for where in found.refused:
        for ask in (
            lambda where=where: provider.documents(name, where),
            lambda where=where: provider.search(name, np.ones(4, "f4"), where=where),
            lambda where=where: provider.delete_documents(name, where=where),
            lambda where=where: provider.add_documents(name, batch(("a", {})), replace_where=where),
        ):
            with pytest.raises(UnsupportedError) as raised:
                ask()
            assert raised.value.details["operator"].startswith("$")
            assert raised.value.details["path"] in str(where)


def test_a_wrong_filter_is_named_with_its_place(provider, made):
    name = made()
    for where, pointer in (({"a": {"$foo": 1}}, "/a/$foo"), ({"$or": []}, "/$or"), ({"a": None}, "/a")):
        for ask in (
            lambda where=where: provider.documents(name, where),
            lambda where=where: provider.search(name, np.ones(4, "f4"), where=where),
            lambda where=where: provider.delete_documents(name, where=where),
            lambda where=where: provider.add_documents(name, batch(("a", {})), replace_where=where),
        ):
            with pytest.raises(InvalidFilterError) as raised:
                ask()
            assert raised.value.details["pointer"] == pointer
